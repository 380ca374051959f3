"""Starts a server on a free port, speaks raw HTTP to it, and ends it by its process id.

Standard library only. The binary is $MAGNETD_FAKE, the server over a scripted engine, unless a test
says otherwise. Every wait is bounded, so a hanging server is a failure and never a hanging test.
"""
import json
import os
import pathlib
import re
import select
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

SCALE = max(1, int(os.environ.get("MAGNETD_TEST_SCALE", "1")))  # sanitizers are slow
TIMEOUT_S = 20 * SCALE
SOURCE = pathlib.Path(os.environ.get("MAGNETD_SOURCE") or pathlib.Path(__file__).parents[2])
# What only the machine knows: folders, files, addresses of memory.
SECRETS = re.compile(b"|".join(
    [re.escape(str(folder).encode()) + b"/" for folder in (
        SOURCE.resolve(), pathlib.Path.home(), tempfile.gettempdir(), "/proc", "/etc", "/usr")] +
    [rb"0x[0-9a-f]{6,}", rb"\.gguf", rb"\.safetensors"]))
QUOTED_BYTES = 24  # shorter words of a request may be named, as a prompt's or a label's name is


class Server:
    """One server process. Use as a context manager: leaving it expects a clean exit."""

    def __init__(self, *flags, model="fake", environment=None, ready=True, binary=None):
        self.log_file = tempfile.TemporaryFile()
        command = [binary or os.environ["MAGNETD_FAKE"], "--model", model, "--port", "0",
                   "--drain-delay-ms", "0", *flags]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log_file,
            env={**os.environ, **(environment or {})})
        if not select.select([self.process.stdout], [], [], TIMEOUT_S)[0]:
            self.kill()
            raise AssertionError("no first line on standard output")
        line = self.process.stdout.readline().decode()
        if not line.startswith("listening on http://127.0.0.1:"):
            self.kill()
            log = self.log()
            self.log_file.close()
            raise AssertionError(f"first line was {line!r}; log: {log}")
        self.port = int(line.rsplit(":", 1)[1])
        if ready:
            self.wait_ready()

    def wait_ready(self):
        wait_for(lambda: request(self.port, "GET", "/ready").status == 200, "ready")

    def stop(self, signal_number=signal.SIGTERM):
        self.process.send_signal(signal_number)

    def wait(self, timeout=TIMEOUT_S):
        code = self.process.wait(timeout)
        self.process.stdout.close()
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT_S)
        self.process.stdout.close()

    def log(self):
        self.log_file.seek(0)
        return self.log_file.read().decode()

    def __del__(self):
        self.log_file.close()

    def access_lines(self):
        """The access log as dictionaries."""
        found = []
        for line in self.log().splitlines():
            if line.startswith("{"):
                entry = json.loads(line)
                if entry["area"] == "access":
                    found.append(entry)
        return found

    def metrics(self):
        """{'name{labels}': value}"""
        reply = request(self.port, "GET", "/metrics")
        assert reply.status == 200, reply
        values = {}
        for line in reply.body.decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values

    def resident_bytes(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/statm").read_text()
        return int(text.split()[1]) * os.sysconf("SC_PAGESIZE")

    def cpu_seconds(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = text.rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        end = time.monotonic() + TIMEOUT_S
        while self.process.poll() is None:
            # Again and again: signals that wait together count once, and the second one hurries.
            self.stop()
            try:
                self.process.wait(0.2)
            except subprocess.TimeoutExpired:
                if time.monotonic() > end:
                    self.kill()
                    raise AssertionError("the server did not end") from value
        code = self.wait()
        if kind is not None:
            print(self.log()[-4000:])
        elif code != 0:
            raise AssertionError(f"exit code {code}; log: {self.log()[-4000:]}")
        self.log_file.close()


class Reply:
    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body

    def field(self, name):
        return self.fields.get(name.lower())

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"Reply({self.status}, {self.fields}, {self.body[:300]!r})"


class Client:
    """One connection, read by hand so that nothing a server sends is repaired on the way."""

    def __init__(self, port, timeout=TIMEOUT_S, receive_buffer=None):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect(("127.0.0.1", port))
        self.held = b""

    def send(self, data):
        self.socket.sendall(data)

    def send_request(self, method, path, body=None, fields=()):
        self.send(compose(method, path, body, fields))

    def more(self):
        data = self.socket.recv(65536)
        self.held += data
        return bool(data)

    def until(self, mark):
        while mark not in self.held:
            if not self.more():
                raise EOFError(f"closed with {self.held[:200]!r}")
        part, self.held = self.held.split(mark, 1)
        return part

    def exactly(self, count):
        while len(self.held) < count:
            if not self.more():
                raise EOFError("closed inside a body")
        part, self.held = self.held[:count], self.held[count:]
        return part

    def head(self):
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, _ = lines[0].split(" ", 2)
        assert version in ("HTTP/1.1", "HTTP/1.0"), lines[0]
        fields = {}
        for line in lines[1:]:
            name, value = line.split(":", 1)
            assert name.lower() not in fields, f"field {name} twice"
            fields[name.lower()] = value.strip()
        return Reply(int(status), fields, b"")

    def reply(self, method="GET"):
        reply = self.whole_reply(method)
        check_leaks(reply)
        return reply

    def whole_reply(self, method):
        reply = self.head()
        if method == "HEAD" or reply.status in (204, 304) or reply.status < 200:
            return reply
        if reply.field("transfer-encoding") == "chunked":
            reply.body = b"".join(self.chunks())
        elif reply.field("content-length") is not None:
            reply.body = self.exactly(int(reply.field("content-length")))
        else:
            while self.more():
                pass
            reply.body, self.held = self.held, b""
        return reply

    def chunks(self):
        while True:
            count = int(self.until(b"\r\n"), 16)
            data = self.exactly(count)
            assert self.exactly(2) == b"\r\n"
            if count == 0:
                return
            yield data

    def frames(self):
        """The frames of a chunked event stream as they come."""
        text = b""
        for chunk in self.chunks():
            text += chunk
            while b"\n\n" in text:
                frame, text = text.split(b"\n\n", 1)
                yield frame.decode()
        assert text == b"", text

    def at_end(self, timeout=2):
        """True when the peer has closed and nothing more came."""
        self.socket.settimeout(timeout)
        try:
            return self.held == b"" and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except socket.timeout:
            return False

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.socket.close()


def compose(method, path, body=None, fields=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: test"]
    lines += [f"{name}: {value}" for name, value in fields]
    if body is not None:
        if not isinstance(body, bytes):
            body = json.dumps(body, separators=(",", ":")).encode()
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def long_texts(value):
    """The strings of a request that are nobody's business: texts, not names."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for part in value for text in long_texts(part)]
    return [value.encode()] if isinstance(value, str) and len(value) >= QUOTED_BYTES else []


def check_leaks(reply, path="", body=None, fields=()):
    """Errors and metrics hold no paths, addresses, keys or texts of a request (R37)."""
    told = reply.status >= 400 or path == "/metrics"
    whole = reply.body + repr(reply.fields).encode()
    assert not told or not SECRETS.search(whole), (path, reply)
    for name, value in fields:
        if name.lower() == "authorization" and len(value) > len("Bearer "):
            assert value.split()[-1].encode() not in whole, (path, reply)
    for text in long_texts(body) if told else ():
        assert text not in whole, (path, reply)


def request(port, method, path, body=None, fields=()):
    with Client(port) as client:
        client.send_request(method, path, body, fields)
        reply = client.reply(method)
    check_leaks(reply, path, body, fields)
    return reply


def wait_for(condition, what, timeout=TIMEOUT_S):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError(f"waited in vain: {what}")


def together(functions):
    """Runs functions in threads; the first failure is raised."""
    failures = []

    def guarded(function):
        try:
            function()
        except BaseException as failure:  # noqa: BLE001 - handed to the caller below
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def queue_depth(values):
    """Jobs that wait, of all classes."""
    return sum(value for name, value in values.items() if name.startswith("magnetd_queue_depth{"))


def all_at_rest(server):
    """The gauges that must return to zero, and the equation every request must satisfy."""
    values = server.metrics()
    for kind in ("embed", "infill", "generate", "classify"):
        label = f'{{kind="{kind}"}}'
        if values[f"magnetd_requests_in_flight{label}"] != 0:
            return False
        finished = sum(value for name, value in values.items()
                       if name.startswith(f'magnetd_requests_finished_total{{kind="{kind}"'))
        if values[f"magnetd_requests_received_total{label}"] != finished:
            return False
    return (values["magnetd_tasks_in_use"] == 0 and values["magnetd_sequences_running"] == 0 and
            queue_depth(values) == 0)
