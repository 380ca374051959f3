"""Hostile and odd bytes: what is answered, that the connection ends, and that no request hidden in
them is ever run.

Method: a table of raw bytes. Behind each case a canary request is sent on the same connection, with
an id of its own. A case that must end the connection passes when its status is the first on the
wire, the peer closes within a second, and the canary's id was never answered. What the HTTP library
beneath cannot be kept from doing is pinned here as it is (K1, K3, K5, K6, K7), so that a change
shows.
"""
import re
import unittest

from harness import Client, Server, all_at_rest, request, wait_for

HOST = b"Host: h\r\n"
CANARY = b"GET /live HTTP/1.1\r\nHost: h\r\nX-Request-Id: canary\r\n\r\n"
HIDDEN = b"GET /live HTTP/1.1\r\nHost: h\r\nX-Request-Id: hidden\r\n\r\n"


def get(*fields, target=b"/live", version=b"HTTP/1.1", host=HOST, method=b"GET"):
    return b"".join([method, b" ", target, b" ", version, b"\r\n", host,
                     *[field + b"\r\n" for field in fields], b"\r\n"])


def post(*fields, body=b"", host=HOST, version=b"HTTP/1.1", path=b"/generate"):
    return b"".join([b"POST ", path, b" ", version, b"\r\n", host,
                     *[field + b"\r\n" for field in fields], b"\r\n", body])


LONG = b"a" * 9000
# name: (bytes, statuses that may come first; None = closed without an answer)
ENDS = {
    # lengths
    "length and chunked": (post(b"Content-Length: 4", b"Transfer-Encoding: chunked",
                                body=b"0\r\n\r\n" + HIDDEN), {400}),
    "chunked and length": (post(b"Transfer-Encoding: chunked", b"Content-Length: 4",
                                body=b"0\r\n\r\n" + HIDDEN), {400}),
    "two equal lengths": (post(b"Content-Length: 2", b"Content-Length: 2", body=b"{}"), {400}),
    "two lengths": (post(b"Content-Length: 2", b"Content-Length: 60", body=b"{}" + HIDDEN), {400}),
    "length list": (post(b"Content-Length: 2, 2", body=b"{}"), {400}),
    "length plus": (post(b"Content-Length: +2", body=b"{}"), {400}),
    "length minus": (post(b"Content-Length: -2", body=b"{}"), {400}),
    "length hex": (post(b"Content-Length: 0x2", body=b"{}"), {400}),
    "length empty": (post(b"Content-Length: ", body=b"{}"), {400}),
    "length word": (post(b"Content-Length: two", body=b"{}"), {400}),
    "length inner blank": (post(b"Content-Length: 1 2", body=b"{}"), {400}),
    "length decimal point": (post(b"Content-Length: 2.0", body=b"{}"), {400}),
    "length beyond 64 bits": (post(b"Content-Length: 99999999999999999999", body=b"{}"),
                              {400, 413}),
    "length of 18446744073709551615": (post(b"Content-Length: 18446744073709551615"), {400, 413}),
    "blank before colon": (post(b"Content-Length : 2", body=b"{}"), {400}),
    "blank before length": (post(b" Content-Length: 2", body=b"{}"), {400, 411}),
    "folded length": (post(b"Content-Length: 52\r\n 0", body=HIDDEN), {400, 411}),
    "folded length, tab": (post(b"Content-Length: 52\r\n\t0", body=HIDDEN), {400, 411}),
    "folded coding": (post(b"Transfer-Encoding: chunked\r\n , identity", body=HIDDEN), {400, 411}),
    "length with a suffix": (post(b"Content-Length-X: 52", b"Content-Length: 2", body=b"{}"),
                             {400}),
    "coding with a suffix": (post(b"Transfer-Encodings: chunked", b"Content-Length: 2",
                                  body=b"{}"), {400}),
    "post without a length": (post(body=HIDDEN), {411}),
    "length on get": (get(b"Content-Length: 9x"), {400}),
    # codings
    "coding identity": (post(b"Transfer-Encoding: identity", body=HIDDEN), {501}),
    "coding gzip": (post(b"Transfer-Encoding: gzip", body=HIDDEN), {501}),
    "coding gzip, chunked": (post(b"Transfer-Encoding: gzip, chunked", body=HIDDEN), {501}),
    "coding chunked, identity": (post(b"Transfer-Encoding: chunked, identity", body=HIDDEN), {501}),
    "coding xchunked": (post(b"Transfer-Encoding: xchunked", body=HIDDEN), {501}),
    "coding quoted": (post(b'Transfer-Encoding: "chunked"', body=HIDDEN), {501}),
    "coding empty": (post(b"Transfer-Encoding: ", body=HIDDEN), {501}),
    "coding twice": (post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked",
                          body=b"0\r\n\r\n"), {501}),
    "coding chunked twice in one": (post(b"Transfer-Encoding: chunked, chunked",
                                         body=b"0\r\n\r\n"), {501}),
    "coding with vertical tab": (post(b"Transfer-Encoding: \x0bchunked", body=HIDDEN), {400}),
    "coding on 1.0": (post(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + HIDDEN,
                           version=b"HTTP/1.0", host=b""), {400}),
    # hosts
    "no host": (get(host=b""), {400}),
    "two hosts": (get(b"Host: other"), {400}),
    "two hosts on 1.0": (get(b"Host: other", version=b"HTTP/1.0"), {400}),
    # fields
    "control byte in a value": (get(b"X-A: a\x01b"), {400}),
    "delete in a value": (get(b"X-A: a\x7fb"), {400}),
    "bare CR in a value": (get(b"X-A: a\rContent-Length: 5"), {400}),
    "escape in a value": (get(b"X-A: \x1b[31m"), {400}),
    "blank in a name": (get(b"X A: b"), {400}),
    "tab in a name": (get(b"X\tA: b"), {400}),
    "parenthesis in a name": (get(b"X(A): b"), {400}),
    "high byte in a name": (get(b"X\xe4: b"), {400}),
    "control byte in a name": (get(b"X\x02: b"), {400}),
    "field without a colon": (get(b"XA"), {400}),
    "101 fields": (get(*[b"X-%d: v" % i for i in range(100)]), {431}),
    "5000 fields": (get(*[b"X-%d: v" % i for i in range(5000)]), {431}),
    "field of 40 KB": (get(b"X: " + b"v" * 40000), {431}),
    "field of 200 KB": (get(b"X: " + b"v" * 200000), {431, 413, 400}),
    "unknown expectation": (post(b"Expect: 200-ok", b"Content-Length: 2", body=b"{}"), {417}),
    # targets and request lines
    "target of 8193 bytes": (get(target=b"/" + b"a" * 8192), {414}),
    "target of 40 KB": (get(target=b"/" + b"a" * 40000), {414}),
    "target of 80 KB": (get(target=b"/" + b"a" * 80000), {414, 431}),
    "control byte in the target": (get(target=b"/li\x01ve"), {400}),
    "high byte in the target": (get(target=b"/li\xffve"), {400}),
    "delete in the target": (get(target=b"/li\x7fve"), {400}),
    "control byte in the query": (get(target=b"/live?a=\x02"), {400}),
    "version 2.0": (get(version=b"HTTP/2.0"), {505, 400}),
    "version 1.2": (get(version=b"HTTP/1.2"), {505, 400}),
    "version 0.9": (get(version=b"HTTP/0.9"), {505, 400}),
    "version in small letters": (get(version=b"http/1.1"), {505, 400}),
    "version nonsense": (get(version=b"HTPP/1.1"), {505, 400}),
    "version of many digits": (get(version=b"HTTP/1.11"), {505, 400}),
    "no version": (b"GET /live\r\n\r\n", {505, 400, None}),
    "blanks after the target": (b"GET /live   HTTP/1.1\r\nHost: h\r\n\r\n", {400}),
    "only a method": (b"GET\r\n\r\n", {505, 400, None}),
    "TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64 + b"\r\n\r\n",
                  {400, 505, None}),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505}),
    "unknown method": (get(method=b"BREW"), {405}),
    "small letters method": (get(method=b"get"), {405}),
    "connect": (b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", {404, 405}),
    "put with a body": (b"PUT /embed HTTP/1.1\r\nHost: h\r\nContent-Length: 52\r\n\r\n" + HIDDEN,
                        {405}),
    "delete with a body": (b"DELETE /live HTTP/1.1\r\nHost: h\r\nContent-Length: 52\r\n\r\n"
                           + HIDDEN, {405}),
    # chunks: the library's own answers
    "chunk size word": (post(b"Transfer-Encoding: chunked", body=b"xyz\r\n{}\r\n0\r\n\r\n"), {400}),
    "chunk size negative": (post(b"Transfer-Encoding: chunked", body=b"-2\r\n{}\r\n0\r\n\r\n"),
                            {400}),
    "chunk size hex prefix": (post(b"Transfer-Encoding: chunked", body=b"0x2\r\n{}\r\n0\r\n\r\n"),
                              {400}),
    "chunk size beyond 64 bits": (post(b"Transfer-Encoding: chunked",
                                       body=b"10000000000000000f\r\n{}\r\n0\r\n\r\n"), {400, 413}),
    "chunk too short": (post(b"Transfer-Encoding: chunked", body=b"5\r\n{}\r\n0\r\n\r\n" + HIDDEN),
                        {400}),
    "chunk too long": (post(b"Transfer-Encoding: chunked", body=b"2\r\n{}XX0\r\n\r\n" + HIDDEN),
                       {400}),
    "chunk without its end": (post(b"Transfer-Encoding: chunked", body=b"2\r\n{}0\r\n\r\n"), {400}),
}

# Answered like any other request, and the connection goes on: odd but harmless, or the price of
# the library (K1, K5, K7).
GOES_ON = {
    "plain": (get(), 200),
    "leading empty line (K7)": (b"\r\n" + get(), 200),
    "several blanks before the target (K7)": (b"GET   /live HTTP/1.1\r\nHost: h\r\n\r\n", 200),
    "empty name, which the library drops": (get(b": b"), 200),
    "bare LF line ends (K1)": (b"GET /live HTTP/1.1\nHost: h\n\n", 200),
    "fold on another field": (get(b"X-A: b\r\n c"), 200),
    "100 fields": (get(*[b"X-%d: v" % i for i in range(99)]), 200),
    "target of 8192 bytes": (get(target=b"/" + b"a" * 8191), 404),
    "empty value": (get(b"X-A:"), 200),
    "tab in a value": (get(b"X-A: a\tb"), 200),
    "high bytes in a value": (get(b"X-A: \xc3\xa4"), 200),
    "NUL in a value (K5)": (get(b"X-A: a\x00b"), 200),
    "length zero": (post(b"Content-Length: 0"), 400),
    "length with zeros in front": (post(b"Content-Length: 00002", body=b"{}"), 200),
    "CHUNKED": (post(b"Transfer-Encoding: CHUNKED", body=b"2\r\n{}\r\n0\r\n\r\n"), 200),
    "chunk extension (K6)": (post(b"Transfer-Encoding: chunked",
                                  body=b"2;a=b\r\n{}\r\n0\r\n\r\n"), 200),
    "trailers": (post(b"Transfer-Encoding: chunked", body=b"2\r\n{}\r\n0\r\nX-T: v\r\n\r\n"), 200),
    "get with a body": (b"GET /live HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN)
                        + HIDDEN, 200),
    "refused, small body": (b"POST /nothing HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"
                            % len(HIDDEN) + HIDDEN, 404),
    "refused, chunked body": (b"POST /nothing HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked"
                              b"\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN), 404),
}


def drain(client):
    """All bytes until the peer closes, and whether it did within the time."""
    client.socket.settimeout(2)
    try:
        while client.more():
            pass
        return client.held, True
    except ConnectionResetError:
        return client.held, True
    except TimeoutError:
        return client.held, False


class Raw(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        wait_for(lambda: all_at_rest(cls.server), "gauges at zero")
        with cls.server:
            pass

    def send(self, data):
        client = Client(self.server.port)
        try:
            client.send(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was sent
        return client

    def test_table_has_the_size_it_claims(self):
        self.assertGreaterEqual(len(ENDS), 61)

    def test_refused_and_closed(self):
        for name, (data, statuses) in ENDS.items():
            with self.subTest(name), self.send(data + CANARY) as client:
                answer, closed = drain(client)
                self.assertTrue(closed, answer[:200])
                first = int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None
                if answer != b"" or None not in statuses:
                    self.assertIn(first, statuses, answer[:300])
                self.assertNotIn(b"canary", answer)
                self.assertNotIn(b"hidden", answer)
                ours = b"application/json" in answer
                if ours:
                    lines = re.findall(rb"HTTP/1\.[01] \d\d\d ", answer)
                    self.assertEqual(len(lines), 1, answer[:300])
                    self.assertIn(b"\r\nX-Request-Id: ", answer)

    def test_our_answers_are_json_but_for_a_list(self):
        """K3: where the library answers by itself. A name missing or too many here is a change."""
        html = set()
        for name, (data, _) in ENDS.items():
            with self.send(data) as client:
                client.socket.settimeout(2)
                answer, _ = drain(client)
                if answer != b"" and b"application/json" not in answer:
                    html.add(name)
        self.assertEqual(html, LIBRARY_ANSWERS)

    def test_answered_and_kept(self):
        for name, (data, status) in GOES_ON.items():
            with self.subTest(name), self.send(data + CANARY) as client:
                self.assertEqual(client.reply().status, status)
                canary = client.reply()
                self.assertEqual((canary.status, canary.field("x-request-id")), (200, "canary"))
                client.send(get(b"Connection: close"))
                self.assertEqual(client.reply().status, 200)
                self.assertTrue(client.at_end())

    def test_malformed_heads_are_counted(self):
        before = self.server.metrics()
        with self.send(ENDS["two hosts"][0]) as client:
            drain(client)
        with self.send(ENDS["chunk size word"][0]) as client:
            drain(client)
        after = self.server.metrics()
        for reason in ("host", "parser"):
            name = f'magnetd_http_malformed_total{{reason="{reason}"}}'
            self.assertEqual(after[name], before[name] + 1, reason)

    def test_server_is_unharmed(self):
        self.assertEqual(request(self.server.port, "GET", "/health").status, 200)


LIBRARY_ANSWERS = {
    "5000 fields",
    "HTTP/2 preface",
    "chunk size beyond 64 bits",
    "chunk size hex prefix",
    "chunk size negative",
    "chunk size word",
    "chunk too long",
    "chunk too short",
    "chunk without its end",
    "field of 200 KB",
    "field without a colon",
    "length beyond 64 bits",
    "length decimal point",
    "length empty",
    "length hex",
    "length inner blank",
    "length list",
    "length minus",
    "length on get",
    "length plus",
    "length word",
    "no version",
    "target of 80 KB",
    "version 0.9",
    "version 2.0",
    "version in small letters",
    "version nonsense",
    "version of many digits",
}

if __name__ == "__main__":
    unittest.main()
