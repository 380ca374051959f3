"""Goal: a stranger's reading of schemas/openapi.json finds nothing wrong: no 5xx, every reply of a
documented status and media type, its body as its schema has it.

Method: the package schemathesis from PyPI (packages.py) draws the bodies, half of them spoiled on
purpose, sends them and judges what comes back; its seed is fixed. It takes tens of milliseconds a
case, so a few hundred are drawn unless MAGNETD_CLIENTS=all asks for 10,000. test_properties.py
draws more of ours in less time and knows what this package does not: that null is absent, and which
bodies must be refused. A stream's events are judged here one by one, by the same schemas.
"""
import json
import os
import sys
import tempfile
import unittest

import packages

packages.load("schemathesis==4.32.5")  # before real loads older ones of what they both need

import hypothesis  # noqa: E402
import requests  # noqa: E402
import schemathesis  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.generation import GenerationMode  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance, response_schema_conformance, status_code_conformance)

import real  # noqa: E402
from harness import SCALE, Server  # noqa: E402
from variants import Variant  # noqa: E402

sys.argv.pop(1)  # tiny, with a chat template
THOROUGH = os.environ.get("MAGNETD_CLIENTS") == "all"
CASES = 10000 if THOROUGH else 150


class Fuzz(unittest.TestCase):
    def setUp(self):
        self.statuses = {}
        self.session = requests.Session()
        self.checks = [not_a_server_error, status_code_conformance, content_type_conformance,
                       response_schema_conformance]

    def tearDown(self):
        self.session.close()

    def ask(self, case):
        reply = case.call(base_url=self.address, session=self.session, timeout=60 * SCALE)
        status = reply.status_code
        self.statuses[status] = self.statuses.get(status, 0) + 1
        body = case.body if isinstance(case.body, dict) else {}
        unable = status == 501 or (status == 504 and body.get("timeout_ms"))
        stream = reply.headers["content-type"][0].startswith("text/event-stream")
        narrowed = "response_fields" in body  # to fields the schema requires
        checks = [check for check in self.checks
                  if not (unable and check is not_a_server_error)
                  and not ((narrowed or stream) and check is response_schema_conformance)]
        case.validate_response(reply, checks=checks)
        if stream and not narrowed:
            real.check_frames(case.path, Stream(reply), True)

    def fuzz(self, operation, mode, count):
        @hypothesis.seed(1)
        @hypothesis.settings(max_examples=count, deadline=None, database=None, phases=[
            hypothesis.Phase.generate], suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def draw(case):
            self.ask(case)
        draw()

    def test_document(self):
        document = schemathesis.openapi.from_dict(
            json.loads((real.SOURCE / "schemas/openapi.json").read_text()))
        operations = [result.ok() for result in document.get_all_operations()]
        posts = [one for one in operations if one.method == "post"]
        with tempfile.TemporaryDirectory() as folder, \
                Server("--log-level", "warn", model=str(Variant().chatting().write(folder)),
                       binary=real.BINARY) as server:
            self.address = f"http://127.0.0.1:{server.port}"
            for operation in operations:
                with self.subTest(operation.label):
                    if operation.method == "post":
                        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                            self.fuzz(operation, mode, CASES // len(posts) // 2)
                    else:
                        self.fuzz(operation, GenerationMode.POSITIVE, 2)
            real.settled(server)
            real.still_serves(server)
        print(f"answered: {dict(sorted(self.statuses.items()))}")
        self.assertGreater(sum(self.statuses.values()), CASES // 2)
        self.assertGreater(self.statuses[200], CASES // 20)


class Stream:
    """A reply of the package, as real.check_frames reads one."""

    def __init__(self, reply):
        self.body, self.fields = reply.content, reply.headers

    def field(self, name):
        return (self.fields.get(name) or [None])[0]


if __name__ == "__main__":
    unittest.main()
