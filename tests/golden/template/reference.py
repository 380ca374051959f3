"""Chat templates as the reference renders them: jinja2, set up as transformers sets it up."""
import datetime
import functools
import json

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = datetime.datetime(2025, 3, 9, 7, 5, 2)  # taken for UTC
SECONDS = int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp())


class Raised(Exception):
    """raise_exception of a template."""


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what a model has said, and prints its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_support")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _support(self, caller):
        return caller()


def raise_exception(message):
    raise Raised(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = to_json
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: NOW.strftime(form)
    return env


@functools.lru_cache(maxsize=1)
def compiled(source):
    return environment().from_string(source)


def render(source, values):
    """("text", text), ("raised", message) or ("error", what)."""
    try:
        return "text", compiled(source).render(**values)
    except Raised as raised:
        return "raised", str(raised)
    except Exception as error:  # whatever a template runs into
        return "error", f"{type(error).__name__}: {error}"
