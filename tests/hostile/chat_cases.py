"""Chat templates that mean harm. A template is never why a model is refused: what cannot be parsed
is said by --check-model and the model serves; what can be is bounded when it is rendered
(tests/unit/template/test_limits.c) and when it is asked with a sample at opening.

CASES: (what, source, the line of --check-model). ERRORS: (what, file, its text, where): no template
at all, which is an error of the model.
"""

READ = "chat template read"
REFUSED = "chat template refused, the model serves without it: "
LOOP = "{% for a in range(100000) %}"

CASES = (
    ("unchanged", "{{ messages[0].content }}", READ),
    ("nothing", "", READ),
    ("nested loops", LOOP * 8 + "{{ a }}" + "{% endfor %}" * 8, READ),
    ("doubles itself", "{% set x = namespace(t='x') %}" + LOOP +
     "{% set x.t = x.t ~ x.t %}{% endfor %}{{ x.t }}", READ),
    ("calls itself", "{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}", READ),
    ("raises", "{{ raise_exception('no') }}", READ),
    ("64 levels", "{% if a %}" * 63 + "x" + "{% endif %}" * 63, READ),
    ("100 000 levels", "{% if a %}" * 20000, REFUSED + "line 1: what is nested too deep"),
    ("100 000 brackets", "{{ " + "(" * 100000, REFUSED + "line 1: what is nested too deep"),
    ("100 000 lists", "{{ " + "[" * 100000, REFUSED + "line 1: what is nested too deep"),
    ("a filter nobody has", "\n\n{{ messages | shuffle }}",
     REFUSED + "line 3: the filter 'shuffle'"),
    ("a statement nobody has", "{% include '/etc/passwd' %}",
     REFUSED + "line 1: the statement 'include'"),
    ("members of Python", "{{ ''.__class__.__mro__ }}",
     REFUSED + "line 1: a member that begins with __"),
    ("methods of Python", "{{ ''.format(x) }}", REFUSED + "line 1: the method 'format'"),
    ("does not end", "{% for a in b %}", REFUSED + "line 1: a block that does not end"),
    ("huge", "x" * 300000, REFUSED + "line 1: 300000 bytes; at most 262144"),
)

ERRORS = (
    ("a number", "tokenizer_config.json", '{"chat_template": 3}',
     "tokenizer_config.json: chat_template"),
    ("no name", "tokenizer_config.json", '{"chat_template": [{"template": "x"}]}',
     "tokenizer_config.json: chat_template"),
    ("a list", "chat_template.json", "[]", "chat_template.json"),
    ("deep lists", "chat_template.json", "[" * 100000, "chat_template.json"),
    ("a key twice", "chat_template.json", '{"chat_template":"a","chat_template":"b"}',
     "chat_template.json"),
)
