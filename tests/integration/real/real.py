"""The real program over a real model, and a client that holds every answer to its contract.

The models: "tiny" is the random llama committed with the golden tests (any text, nonsense answers,
microseconds a step), "default" is the model that deploy/fetch_model.sh fetches ("minilm" the one it
fetches on request, "encoder" a tiny one). Answer checks live here so that no test can forget them:
each reply, frame and error is validated against its schema, and the header fields every reply owes
are looked at.
"""
import json
import os
import pathlib
import re
import sys
import threading
import warnings

warnings.filterwarnings("ignore", category=DeprecationWarning)  # RefResolver: all Debian 12 has
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from harness import SCALE, Client, Server, queue_depth, request, wait_for  # noqa: E402

SKIPPED = 77
SOURCE = pathlib.Path(os.environ.get("MAGNETD_SOURCE") or pathlib.Path(__file__).parents[3])
BINARY = os.environ.get("MAGNETD_BINARY", "")
KINDS = ("embed", "infill", "generate", "classify")
COMPUTE_MS = ("x-compute-time", "x-total-time", "x-tokenization-time", "x-queue-time",
              "x-inference-time")

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(SKIPPED)


def model_path(name):
    """The model's file, or None."""
    if name == "tiny":
        return SOURCE / "tests/golden/fixtures/tiny_llama/tied.gguf"
    if name == "encoder":
        return SOURCE / "tests/golden/fixtures/tiny_networks/gemma_embedding.gguf"
    if name == "minilm_q8":
        return data_path("minilm-reference/minilm-q8_0.gguf")
    if "/" in name:
        return SOURCE / f"tests/golden/fixtures/{name}.gguf"
    variable, file = {"default": ("MAGNETD_MODEL", "SmolLM2-135M-Instruct.Q4_1.gguf"),
                      "minilm": ("MAGNETD_MINILM", "all-MiniLM-L6-v2")}[name]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    path = pathlib.Path(os.environ.get(variable) or cache / "magnetd" / file)
    return path if path.exists() else None


def data_path(name):
    """A file or folder of the real test data, or None where it is not here."""
    data = pathlib.Path(os.environ.get("MAGNETD_DATA") or SOURCE.parent / "shared/data")
    return data / name if (data / name).exists() else None


def need_default_model(with_sanitizers=False):
    """Skips without the model; and under a sanitizer where the tiny one runs the same code."""
    if SCALE > 1 and not with_sanitizers:
        print("skipped: a sanitizer makes the default model too slow for this")
        sys.exit(SKIPPED)
    if model_path("default") is None:
        print("skipped: the default model is not here (deploy/fetch_model.sh)")
        sys.exit(SKIPPED)


def need_model(name):
    """Skips without the model called `name`; and under a sanitizer all but tiny ones."""
    if name == "default" or (name.startswith("minilm") and SCALE > 1):
        need_default_model()
    if model_path(name) is None:
        print(f"skipped: {name} is not here ($MAGNETD_MINILM, $MAGNETD_DATA)")
        sys.exit(SKIPPED)


def start(name, *flags, **options):
    """A server on the model called `name`. A long context is for those who ask for it."""
    if name == "default" and "--context" not in flags:
        flags = ("--context", "1024", *flags)
    return Server(*flags, model=str(model_path(name)), binary=BINARY, **options)


def strict_json(data):
    """JSON as the standard has it: no NaN, no key twice, UTF-8 to the last byte."""
    def pairs(items):
        keys = [key for key, _ in items]
        assert len(set(keys)) == len(keys), f"a key twice in {keys}"
        return dict(items)

    def constant(word):
        raise AssertionError(f"{word} in a reply")

    text = data.decode("utf-8") if isinstance(data, bytes) else data
    return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)


class Schemas:
    """schemas/ by file name, references between the files resolved."""

    def __init__(self):
        folder = SOURCE / "schemas"
        self.store = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}
        self.routes = {route["path"]: route for route in self.store.pop("routes.json")["routes"]}
        self.validators = {}
        self.used = set()  # names of those that something was held to
        self.lock = threading.Lock()  # a resolver is for one thread

    def check(self, name, value):
        with self.lock:
            self.used.add(name)
            self.validator(name).validate(value)

    def validator(self, name):
        if name not in self.validators:
            resolver = jsonschema.RefResolver(name, self.store[name], store=self.store)
            self.validators[name] = jsonschema.Draft202012Validator(
                self.store[name], resolver=resolver)
        return self.validators[name]

    def route(self, path):
        """Its line of routes.json, the one with {id} for a path that has one; {} for none."""
        names = (path, re.sub(r"^(/v1/models)/.+$", r"\1/{id}", path))
        return next((self.routes[name] for name in names if name in self.routes), {})

    def of(self, path, *kinds):
        """Those of its request, reply and frame that the path has."""
        return {self.route(path)[kind] for kind in kinds or ("request", "reply", "frame")
                if kind in self.route(path)}

    def family(self, path):
        return self.route(path).get("family", "openai" if path.startswith("/v1/") else "llama")


SCHEMAS = Schemas()


def param_of(path, pointer):
    """How errors of this path name a field: OpenAI's clients know no JSON pointers."""
    if pointer is None or SCHEMAS.family(path) != "openai":
        return pointer
    return re.sub(r"/([0-9]+)(?=/|$)", r"[\1]", pointer).replace("/", ".").removeprefix(".")


def check_error(path, status, error):
    """An error body: its schema, and that what it says fits its status."""
    family = SCHEMAS.family(path)
    SCHEMAS.check(f"error_{family}.json", error)
    if family == "llama":
        assert error["error"]["code"] == status, error
    message = error["error"] if family == "tei" else error["error"]["message"]
    assert message, error


def check_frames(path, reply, whole):
    """Every event by the frame's schema; the last one may be an error, in the family's form."""
    route = SCHEMAS.route(path)
    assert reply.field("content-type") == "text/event-stream; charset=utf-8", reply
    assert reply.field("cache-control") == "no-cache", reply
    assert reply.field("x-accel-buffering") == "no", reply
    assert reply.field("content-length") is None, reply
    text = reply.body.decode("utf-8")
    assert text.endswith("\n\n"), text[-80:]
    frames = []
    parts = text[:-2].split("\n\n")
    if route["family"] == "openai" and '"error"' not in parts[-1]:
        assert parts.pop() == "data: [DONE]", text[-80:]
    for frame in parts:
        if frame == ": ping":
            continue
        assert frame.startswith("data: ") and "\n" not in frame, frame
        value = strict_json(frame[len("data: "):])
        if "error" in value:
            assert frame is parts[-1], text[-500:]
            SCHEMAS.check(f"error_{route['family']}.json", value)
        elif whole or value.get("stop") is False:
            SCHEMAS.check(route["frame"], value)
        frames.append(value)
    assert frames, "a stream without a frame"
    return frames


def check_headers(path, reply):
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", reply.field("x-request-id") or ""), reply
    retry = reply.field("retry-after")
    if reply.status in (429, 503):
        assert re.fullmatch(r"[0-9]+", retry or "") and 1 <= int(retry) <= 60, reply
    else:
        assert retry is None, reply
    assert (reply.field("allow") is not None) == (reply.status == 405), reply
    if reply.status == 200 and "endpoint" in SCHEMAS.route(path):
        assert reply.field("x-compute-type") == "cpu", reply
        for name in ("x-compute-characters", "x-compute-tokens", "x-tokenization-time"):
            assert re.fullmatch(r"[0-9]+", reply.field(name) or ""), (name, reply)
        if reply.field("transfer-encoding") is None:
            for name in COMPUTE_MS:
                assert re.fullmatch(r"[0-9]+", reply.field(name) or ""), (name, reply)


def check_reply(path, reply, whole=True):
    """Whatever came back: what every reply of this path owes. Sets reply.value or reply.frames.
    `whole` False: a body, or the last of a stream's parts, was narrowed by response_fields, so its
    schema does not hold."""
    check_headers(path, reply)
    reply.value, reply.frames = None, None
    kind = reply.field("content-type") or ""
    if kind.startswith("text/event-stream"):
        reply.frames = check_frames(path, reply, whole)
    elif reply.status != 200:
        assert kind == "application/json", reply
        reply.value = strict_json(reply.body)
        check_error(path, reply.status, reply.value)
    elif "media" in SCHEMAS.route(path):
        version = " version=0.0.4;" if path == "/metrics" else ""
        assert kind == f"{SCHEMAS.routes[path]['media']};{version} charset=utf-8", reply
    else:
        assert kind == "application/json", reply
        reply.value = strict_json(reply.body)
        if whole:
            SCHEMAS.check(SCHEMAS.route(path)["reply"], reply.value)
    return reply


def ask(server, path, body=None, method=None, fields=(), whole=True):
    """One request on a connection of its own; the checked reply."""
    if method is None:
        method = SCHEMAS.route(path)["method"]
    return check_reply(path, request(server.port, method, path, body, fields), whole)


def ok(server, path, body=None, **options):
    reply = ask(server, path, body, **options)
    assert reply.status == 200, (path, reply)
    return reply


def refused(server, path, body, status, where=None, **options):
    """An error of this status whose param is `where`, a JSON pointer; its body."""
    reply = ask(server, path, body, **options)
    assert reply.status == status, (path, str(body)[:200], reply)
    inner = reply.value if "error_type" in reply.value else reply.value["error"]
    if where is not None:
        assert inner["param"] == param_of(path, where), (path, str(body)[:200], reply)
    return inner


def still_serves(server):
    assert ok(server, "/tokenize", {"content": "the"}).value["tokens"]


def stream_text(reply, path):
    """All text a stream released, put together."""
    if path.startswith("/generate"):
        return "".join(frame["token"]["text"] for frame in reply.frames if frame["token"])
    return "".join(frame.get("content", frame.get("text", "")) for frame in reply.frames[:-1])


def held_stream(server, count):
    """A stream nobody reads: 1.4 KB a frame, so it soon waits for room, and holds what it has."""
    client = Client(server.port, 60 * SCALE, receive_buffer=4096)
    client.send_request("POST", "/generate_stream", {"inputs": "a", "parameters": {
        "max_new_tokens": count, "top_n_tokens": 20}})
    return client


def without_timings(value):
    """A reply without what differs from run to run by nature."""
    if isinstance(value, dict):
        volatile = ("timings", "created", "id", "cached_tokens")
        return {key: without_timings(part) for key, part in value.items()
                if key not in volatile or (key == "id" and not isinstance(part, str))}
    if isinstance(value, list):
        return [without_timings(part) for part in value]
    return value


def settled(server):
    """Everything at rest and every request accounted for; the metrics then."""
    found = {}

    def at_rest():
        found.clear()
        found.update(server.metrics())
        return (found["magnetd_tasks_in_use"] == 0 and found["magnetd_sequences_running"] == 0 and
                queue_depth(found) == 0 and found["magnetd_engine_stalled"] == 0 and
                found['magnetd_cache_pages{state="used"}'] == 0 and
                found['magnetd_cache_pages{state="shared"}'] == 0 and
                all(found[f'magnetd_requests_in_flight{{kind="{kind}"}}'] == 0 for kind in KINDS))

    try:
        wait_for(at_rest, "gauges at zero")
    except AssertionError:
        print({name: value for name, value in found.items()
               if value != 0 and re.search("in_use|running|depth|state|in_flight", name)})
        raise
    for kind in KINDS:
        prefix = f'magnetd_requests_finished_total{{kind="{kind}"'
        finished = sum(value for name, value in found.items() if name.startswith(prefix))
        received = found[f'magnetd_requests_received_total{{kind="{kind}"}}']
        assert received == finished, f"{kind}: {received} received, {finished} finished"
    return found
