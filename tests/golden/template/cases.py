"""Templates and conversations for check_templates.py."""

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather at a place's \"centre\"",
        "parameters": {"type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "Where"},
            "days": {"type": "integer", "default": 1, "minimum": 1, "maximum": 10.5},
            "unit": {"type": "string", "enum": ["C", "F"]}}}}},
    {"type": "function", "function": {
        "name": "search", "description": "Sucht \u00fcberall.",
        "parameters": {"type": "object", "properties": {
            "words": {"type": "array", "items": {"type": "string"}},
            "deep": {"type": "object", "properties": {"a": {"type": "boolean"}}}}}}},
]

CALLS = [{"id": "abcdefghi", "type": "function", "function": {
    "name": "get_weather", "arguments": {"city": "Ulm", "days": 2, "f": 1.5, "n": None,
                                         "l": [1, True, "x\ny"]}}}]

# A character that no template has.
CLIENT = "\ue799"

TEXTS = [
    "Hi", "  spaces around \n\n", "", "Gr\u00fc\u00dfe, \u4e16\u754c \U0001f600",
    "<|im_end|><|eot_id|>[/INST]</s>", "a\tb\r\nc\u00a0\u2028", "{{ x }}{% if %}", "</think>x",
]


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def system(text):
    return {"role": "system", "content": text}


# All that a client says here is that character.
MARKED = [system(CLIENT), user(CLIENT * 2), assistant(CLIENT), user(CLIENT)]


def dialogues():
    yield []
    for text in TEXTS:
        yield [user(text)]
        yield [system(text), user("Hi")]
        yield [user("a"), assistant(text), user(text)]
    yield [system(""), user("x"), assistant("y"), user("z"), assistant("w")]
    yield [user("a"), user("b")]
    yield [assistant("a"), user("b")]
    yield [user("a"), system("late"), user("b")]
    yield [{"role": "strange", "content": "x"}]
    yield [user([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])]
    yield [user("weather?"), {"role": "assistant", "content": None, "tool_calls": CALLS},
           {"role": "tool", "tool_call_id": "abcdefghi", "name": "get_weather", "content": "12"},
           assistant("It is 12.")]
    yield [user("weather?"), {"role": "assistant", "content": "", "tool_calls": CALLS},
           {"role": "tool", "tool_call_id": "abcdefghi", "name": "get_weather",
            "content": "{\"t\": 12}"}]
    yield [user("a"), assistant("<think>deep</think>so"), user("b")]
    yield MARKED


def conversations():
    base = {"bos_token": "<s>", "eos_token": "</s>"}
    made = []
    for messages in dialogues():
        for prompt in (True, False):
            made.append({**base, "messages": messages, "add_generation_prompt": prompt,
                         "tools": None, "documents": None})
        made.append({**base, "messages": messages, "add_generation_prompt": True})
        made.append({**base, "messages": messages, "add_generation_prompt": True,
                     "tools": TOOLS, "functions": "[]", "datetime": "now"})
        made.append({**base, "messages": messages, "add_generation_prompt": False,
                     "tools": TOOLS[:1], "custom_tools": TOOLS, "tools_in_user_message": False,
                     "builtin_tools": ["brave_search", "code_interpreter"],
                     "documents": [{"title": "T", "text": "body"}], "date_string": "1 Jan"})
    return made


M = {"messages": [system("s"), user(" u "), assistant("a")], "n": 3, "x": 1.5, "t": True,
     "z": None, "m": {"a": 1, "items": 2, "b": {"c": "d"}}, "l": [3, 1, 2], "w": "Hello World",
     "u": "\u00c4h \u4e16", "e": [], "d": {}, "q": "a,b,,c", "ws": " \t a  b \u00a0"}


def short(*sources):
    return [(source, M) for source in sources]


SHORT = short(
    # White space beside tags
    'a\n{% if t %}\nb\n{% endif %}\nc\n', 'a \n  {% if t %}  \n b {%- endif -%}\n\n c',
    '  {%+ if t %} x {% endif +%}\n y', '{{ n }}\n{{ n }}\n\n', '{{- n -}}  x', '  {{- n }} \n',
    '{# c #}\n x', '  {# c #} y', 'a {#- c -#} b', 'a\r\n{% if t %}\r\nb{% endif %}\r\n\r\n',
    'x\n   {%- if t %}\n  y{% endif %}', '{% if t %}\n\n{% endif %}',
    '  \n  {% set a = 1 %}\n{{ a }}', "{{ '{{' }", "a {{ 'b' }}\t\n",
    '\xa0{%- if t %}x{% endif -%}\u2003y', '{%- if t -%} {%- endif -%}', '{#+ a +#}\nb',
    '{% set x %}\n  a\n{% endset %}[{{ x }}]',
    # Values as text
    '{{ n }} {{ x }} {{ t }} {{ z }} {{ nope }} {{ 2.0 }}', '{{ 10 / 2 }}',
    '{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 7.5 % 2 }} {{ -7.5 // 2 }}',
    '{{ 1.0 }} {{ 0.1 + 0.2 }} {{ 100000000000000000.0 }} {{ 0.00001 }} {{ 1.5 * 2 }}',
    '{{ 123456789012345.0 * 10 }} {{ 123456789012345.0 * 100 }} {{ 1 / 3 }} {{ 2 / 3 * 1000000 '
    '}}',
    '{{ \'a\' \'b\' "c" }}', "{{ '\\n\\t\\\\\\'\\x41\\u00e9\\U0001f600' }}", "{{ 'a\nb' }}",
    # Operators
    '{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -n }} {{ +n }} {{ - -n }}',
    "{{ 'a' + 'b' ~ 1 ~ z }}", '{{ 1 ~ 2 }}', "{{ 'ab' * 3 }} {{ 2 * 'x' }} {{ 'x' * -1 }}|",
    '{{ [1] + [2] == [1, 2] }} {{ (1, 2) == [1, 2] }} {{ [1] * 2 == [1, 1] }}',
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ t == 1 }} {{ 'a' != 'b' "
    '}}',
    "{{ 1 in l }} {{ 9 not in l }} {{ 'lo' in w }} {{ 'a' in m }} {{ 'x' in nope }} {{ '' in w }}",
    "{{ not t }} {{ not not t }} {{ t and n }} {{ e or 'x' }} {{ z and nope.y }} {{ n or z.y }}",
    "{{ 'y' if t else 'n' }} {{ 'y' if e }} {{ 'a' if z else 'b' if z else 'c' }}",
    '{{ not 1 == 2 }} {{ 1 + 1 if t else 0 }} {{ nope == nope }} {{ nope == z }} {{ z == none }}',
    "{{ {'a': 1} == {'a': 1.0} }} {{ {} == d }} {{ [[1, {'a': [2]}]] == [[1, {'a': [2]}]] }}",
    "{{ none == None }} {{ true == True }} {{ 3 == '3' }} {{ t + t }} {{ t * 3 }}",
    # Members and slices
    "{{ m.a }} {{ m['a'] }} {{ m.b.c }} {{ m['items'] }} {{ m.nope }} {{ messages[0].role }}",
    "{{ m.items is defined }} {{ m.items is string }} {{ m['keys'] is defined }} {{ n.x }}|{{ "
    'z.x }}',
    "{{ messages[0]['role'] }} {{ messages[-1].content }} {{ messages[9] }}| {{ l['a'] }} {{ "
    'w[0] }}',
    '{{ w[1:3] }} {{ w[::-1] }} {{ w[-3:] }} {{ w[:-3] }} {{ w[::2] }} {{ w[5:1] }}| {{ u[0] '
    '}} {{ u[::-1] }}',
    "{{ l[1:] | join(',') }} {{ l[::-1] | join }} {{ l[-2:] | length }} {{ w[100:] }} {{ "
    'w[-100:2] }}',
    '{{ u[1:] }} {{ u[-1] }} {{ l[t] }} {{ l[5] is defined }} {{ w[99] is defined }} {{ '
    'messages[1:][0].content }}',
    '{{ l[3:0:-1] | join }} {{ l[:1:-1] | join }} {{ w[8:2:-2] }} {{ (1, 2, 3)[1:] | length }}',
    "{{ w['a':] }}", '{{ w[::0] }}', "{{ (l|map('int'))[:1] }}",
    # Loops
    '{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ '
    'loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.depth }}{{ i }};{% endfor %}',
    '{% for i in l %}{{ loop.previtem }}<{{ loop.nextitem }};{% endfor %}',
    '{% for i in e %}x{% else %}none{% endfor %} {% for i in l %}x{% else %}none{% endfor %}',
    '{% for i in l if i > 1 %}{{ i }}{{ loop.length }}{{ loop.last }}{% else %}-{% endfor %}',
    '{% for i in l if i > 9 %}{{ i }}{% else %}-{% endfor %}',
    '{% for k, v in m.items() %}{{ k }}={{ v if v is not mapping }};{% endfor %}',
    '{% for k in m %}{{ k }}{% endfor %}{% for c in u %}[{{ c }}]{% endfor %}{% for x in nope '
    '%}x{% endfor %}',
    '{% for k, v in m|items %}{{ k }}{% endfor %}{% for v in m.values() %}{{ v is mapping }}{% '
    'endfor %}',
    '{% for i in range(3) %}{{ i }}{% endfor %}{% for i in range(5, 1, -2) %}{{ i }}{% endfor %}',
    '{% for i in l %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}',
    '{% for i in l %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}',
    '{% for i in l %}{{ i }}{% break %}{% else %}E{% endfor %}{% for i in l %}{{ i }}{% continue %}'
    '{% else %}E{% endfor %}{% for i in l %}{% if i == 2 %}{% break %}{% endif %}{% else %}E{% '
    'endfor %}',
    "{% for i in [1, 2] %}{% for j in 'ab' %}{{ i }}{{ j }}{{ loop.depth0 }}{% endfor %}{{ "
    'loop.index }}{% endfor %}',
    '{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}',
    '{% set ns = namespace(x=0) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x '
    '}} {{ ns.y }}',
    '{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}{% for (a, b) in [(1, 2)] '
    '%}{{ b }}{% endfor %}',
    '{% for i in l %}{% set i = 9 %}{{ i }}{% endfor %}{{ i }}',
    '{% set ns = namespace() %}{% for i in l %}{% set ns.l = loop %}{% endfor %}{{ ns.l.index }}{{ '
    'ns.l.last }}{{ ns.l.previtem }}{{ ns.l.nextitem }}',
    '{{ "a\\x00b" "c" }}',
    '{% for m in messages %}{% set loop_m = m %}{{ loop_m.role }}{% endfor %}{{ loop_m is '
    'defined }}',
    # Branches and sets
    '{% if z %}1{% elif e %}2{% elif t %}3{% else %}4{% endif %}',
    '{% if z %}1{% else %}{% if t %}2{% endif %}3{% endif %}',
    '{% if z %}1{% elif e %}2{% else %}{% if e %}3{% endif %}{{ n }}{% endif %}',
    '{% set a, b = [1, 2] %}{{ a }}{{ b }}', '{% if t %}{% set q = 5 %}{% endif %}{{ q }}',
    '{% set a %}x{{ n }}{% endset %}{{ a }}{{ a|length }}',
    '{% set ns = namespace(d, y=2) %}{{ ns.y }}',
    "{% set ns = namespace() %}{% set ns.a = 'b' %}{{ ns.a }}{{ ns['a'] }}",
    '{{ dict(a=1, b=2)|length }}{{ dict(m, a=9).a }}', '{% filter upper %}a{{ w }}{% endfilter %}',
    '{% filter trim|length %}  ab {% endfilter %}',
    '{% generation %}x{{ n }}{% set y = 1 %}{% endgeneration %}{{ y }}',
    # Macros
    "{% macro f(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} "
    '{{ f(1, c=4) }} {{ f() }}',
    '{% macro f(a) %}{% if a > 0 %}{{ a }}{{ f(a - 1) }}{% endif %}{% endmacro %}{{ f(3) }}',
    '{% macro f() %}{{ n }}{{ y }}{% endmacro %}{% set y = 7 %}{{ f() }}{% for y in [1] %}{{ '
    'f() }}{% endfor %}',
    '{% macro g(a) %}{{ f(a) }}!{% endmacro %}{% macro f(a) %}<{{ a }}>{% endmacro %}{{ '
    'g(f(g(1))) }}',
    '{% macro f(a, b=a) %}{{ b }}{% endmacro %}{{ f(3) }}',
    "{% macro f(a) %}{% set a = a ~ 1 %}{{ a }}{% endmacro %}{{ f('x') }}{{ a }}",
    '{% macro f(x, y) %}{{ x }}-{{ y }}{% endmacro %}{% macro k(v) %}{{ v }}{% endmacro %}{{ '
    'f(k(1), f(k(2), k(3))) }}',
    '{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}', '{% macro f(a) %}{% endmacro %}{{ f(b=2) }}',
    '{{ f(1) }}{% macro f(a) %}{% endmacro %}',
    '{% macro f(a) %}{% for i in range(a) %}{{ i }}{{ f(i) }}{% endfor %}{% endmacro %}{{ '
    'f(3)|upper|trim }}',
    # Filters
    '{{ n|indent }}', "{{ w|indent(1, true) }}", '{{ nope|indent }}',
    "[{{ ws|trim }}] [{{ 'xxaxx'|trim('x') }}] [{{ n|trim }}] [{{ nope|trim }}]",
    "{{ w|upper }} {{ w|lower }} {{ 'aB cD'|capitalize }} {{ 'aB-cD eF'|title }}",
    "{{ l|join(', ') }} {{ l|join }} {{ messages|join('|', attribute='role') }} {{ w|join('.') "
    "}} {{ [1, none, 'a', t]|join('+') }}",
    "{{ nope|default('d') }} {{ z|default('d') }} {{ z|default('d', true) }} {{ e|default('d', "
    "boolean=true) }} {{ nope|d }}|{{ w|d('x') }}",
    '{{ l|first }} {{ l|last }} {{ e|first }}| {{ w|last }} {{ w|first }} {{ m|first }} {{ '
    'l|length }} {{ u|length }} {{ m|count }} {{ nope|length }}',
    "{{ w|replace('o', '0') }} {{ w|replace('o', '0', 1) }} {{ 'aaa'|replace('aa', 'b') }} {{ "
    "n|replace('3', 'x') }}",
    '{{ m|items|list|length }} {{ nope|items|list|length }} {{ w|list|length }} {{ m|list|join }}',
    '{{ l|reverse|join }} {{ w|reverse }} {{ u|reverse }}',
    "{{ ['a', 'A', 'b', 'a']|unique|join }} {{ ['a', 'A', "
    "'a']|unique(case_sensitive=true)|join }} {{ [1, 1.0, 2]|unique|list|length }}",
    "{{ '12'|int }} {{ ' 12 '|int }} {{ 'x1'|int(7) if false else 0 }} {{ 3.9|int }} {{ "
    "-3.9|int }} {{ '3.7'|int }} {{ t|int }} {{ z|int(4) }} {{ nope|int }}",
    "{{ ''|int(5) }}",
    "{{ '1.5'|float }} {{ 2|float }} {{ z|float }} {{ -3|abs }} {{ (-2.5)|abs }} {{ (0 - "
    'n)|abs }}',
    "{{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ "
    "messages|rejectattr('role', 'eq', 'user')|map(attribute='role')|join(',') }}",
    "{{ messages|selectattr('nope')|list|length }} {{ messages|selectattr('role', "
    "'defined')|map(attribute='content')|list|join('|') }} {{ messages|map(attribute='nope', "
    "default='q')|join }}",
    "{{ l|select('gt', 1)|join }} {{ l|reject('odd')|join }} {{ l|select|list|length }} {{ ['a "
    "', ' b']|map('trim')|join('|') }} {{ ['a', 'b']|map('upper')|join }} {{ "
    "l|map('string')|join }}",
    "{{ messages|map(attribute='content')|map('length')|join('-') }} {{ "
    "z|map('trim')|list|length }} {{ nope|selectattr('x')|list|length }} {{ 'yes' if "
    "l|select('gt', 9) else 'no' }}",
    "{{ messages|selectattr('role', 'in', ['user', 'system'])|list|length }} {{ [{'a': {'b': "
    "1}}]|map(attribute='a.b')|join }} {{ [[1, 2]]|map(attribute='1')|join }} {{ "
    "messages|selectattr('role', 'ne', 'user')|first|length }}",
    "{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb\n\nc'|indent(2, true) }}|{{ 'a\nb\n\nc'|indent(2, "
    "first=true, blank=true) }}|{{ 'a\nb\n'|indent('> ') }}|{{ ''|indent(3, true) }}|{{ "
    "'a\r\nb\x0bc'|indent(1) }}",
    '{{ w|safe }} {{ \'it\'|safe + "\'s" }} {{ \'<\' + \'b\'|safe }} {{ \'a\'|safe + '
    "'b'|safe + '&' }}",
    "{{ n|string + 'x' }} {{ x|string }} {{ z|string }} {{ nope|string|length }}",
    # tojson
    '{{ m|tojson }} {{ l|tojson }} {{ w|tojson }} {{ u|tojson }} {{ z|tojson }} {{ t|tojson }} '
    '{{ x|tojson }} {{ [[], {}, ()]|tojson }}',
    "{{ messages|tojson(indent=4) }} {{ e|tojson(indent=2) }} {{ m|tojson(indent='\t') }} {{ "
    '[1, [2]]|tojson(indent=0) }}',
    '{{ \'a"b\\\\c\n\r\t\x08\x0c\x01\x7f/<\'|tojson }} {{ {1: 2, \'a\': (1, 2)}|tojson }} {{ '
    '0.5|tojson }}',
    # Tests
    '{{ n is defined }} {{ nope is defined }} {{ nope is not defined }} {{ nope is undefined '
    '}} {{ z is none }} {{ w is string }} {{ m is mapping }} {{ l is iterable }} {{ w is '
    'iterable }} {{ n is iterable }} {{ m is iterable }}',
    '{{ t is boolean }} {{ n is number }} {{ t is number }} {{ x is float }} {{ n is integer '
    '}} {{ t is integer }} {{ w is sequence }} {{ m is sequence }} {{ l is sequence }} {{ n is '
    'sequence }} {{ nope is sequence }} {{ nope is iterable }} {{ z is sequence }}',
    '{{ t is true }} {{ t is false }} {{ n is odd }} {{ n is even }} {{ n is divisibleby 3 }} '
    '{{ n is equalto 3 }} {{ n is eq(3) }} {{ n is ne 4 }} {{ n is gt 2 }} {{ n is le 2 }} {{ '
    "n is in [3] }} {{ 'a' is in w }} {{ n is lt(4) and t }}",
    '{{ messages is string or messages is iterable }} {{ not n is string }} {{ n is not string '
    "and t }} {{ (m.items() is sequence) }} {{ (l|map('string')) is iterable }} {{ range(3) is "
    'sequence }} {{ strftime_now is defined }} {{ namespace is defined }}',
    # Methods
    "[{{ ws.strip() }}] [{{ ws.lstrip() }}] [{{ ws.rstrip() }}] {{ 'xyaxy'.strip('yx') }} {{ "
    "'xxa'.lstrip('x') }} {{ 'axx'.rstrip('x') }} {{ '\xe4a\xe4'.strip('\xe4') }} {{ "
    "'a'.strip(none) }}",
    "{{ q.split(',')|join('|') }} {{ ws.split()|join('|') }} {{ q.split(',', 1)|last }} {{ ' a "
    "b c '.split(none, 1)|last }}| {{ q.split('zz')|length }} {{ ''.split()|length }} {{ "
    "''.split(',')|length }} {{ 'a</think>b'.split('</think>')[-1] }} {{ q.split(sep=',', "
    'maxsplit=2)|length }}',
    "{{ w.startswith('He') }} {{ w.endswith('x') }} {{ w.startswith(('x', 'H')) }} {{ "
    "w.endswith('') }} {{ w.replace('l', 'L') }} {{ w.replace('l', 'L', 1) }} {{ w.upper() }} "
    "{{ w.lower() }} {{ 'a1b c'.title() }} {{ 'aBC'.capitalize() }}",
    "{{ ', '.join(['a', 'b']) }} {{ w.removeprefix('Hello ') }} {{ w.removesuffix('World') }} "
    "{{ w.removeprefix('x') }} {{ m.get('a') }} {{ m.get('zz') }} {{ m.get('zz', 5) }} {{ "
    "m.keys()|join }} {{ m.keys()|length }} {{ 'a' in m.keys() }} {{ m.items()|length }}",
    '{{ m.items()|first|first }} {{ m.values()|list|length }} {{ m.keys()[0] is defined }} {{ '
    '(m.items()|list)[0][0] }}',
    # Functions
    "{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d %H:%M:%S %A %B %j %%') }}",
    "{{ raise_exception('no: ' + w) }}", "{% if t %}{{ raise_exception('x') }}{% endif %}",
    '{{ range(3)|list|length }} {{ range(2, 5)|join }}',
    # What fails there fails here
    '{{ nope.x }}', "{{ nope + 'a' }}", "{{ 'a' + 1 }}", '{{ 1 / 0 }}', '{{ n.upper() }}',
    '{{ none + 1 }}', "{{ 'a' < 1 }}", '{% for i in n %}{% endfor %}',
    '{% for a, b in l %}{% endfor %}', '{{ n in z }}', '{{ z|length }}',
    "{{ messages|selectattr('role')|length }}", '{% set n.x = 1 %}', '{{ l[::0] }}',
    '{{ 1 in w }}', '{{ nope|tojson }}', '{{ m.nope.x }}', '{{ range(200000)|length }}',
    '{{ z[1:] }}', "{{ (l|map('string'))|last }}", '{% for i in z %}{% endfor %}',
    "{{ ','.join(l) }}", '{{ m.strip() }}', "{{ '' .split('') }}", '{{ d.x.y }}', '{{ z.x.y }}',
    '{{ messages[0].content.nope }}|{{ loop }}|{{ w.nope }}|{{ w.title is defined }}',
    '{{ (messages|first).role }}', "{{ messages|length > 2 and messages[0].role == 'system' }}",
    '{{ -3|abs }}{{ 2 - -1 }}{{ 1 -1 }}',
    "{{ [1,2,][1] }}{{ (1,)|length }}{{ {'a':1,}|length }}{{ ()|length }}",
)

REFUSED = [
    "{% include 'x' %}", '{% raw %}{% endraw %}', '{% call f() %}{% endcall %}',
    '{% block a %}{% endblock %}', '{% do x %}', '{% with a = 1 %}{% endwith %}',
    '{{ x|wordcount }}', '{{ x is callable }}', '{{ f(1) }}', '{{ x.append(1) }}',
    '{{ x.format(1) }}', '{{ 2 ** 3 }}', '{{ x.__class__ }}', "{{ x|map('map', 'trim') }}",
    '{{ f(*a) }}', '{% for x in y recursive %}{% endfor %}', '{{ 0x10 }}', '{{ 1e3 }}',
    '{{ 1_000 }}', "{{ '\\N{DASH}' }}", '{{ x', '{% if x %}', '{# x', "{{ 'x }}",
    '{% for i in l %}{% macro f() %}{% endmacro %}{% endfor %}', '{% break %}',
    '{{ x|select(y) }}', '{% set x %}{% break %}{% endset %}', '{{ a b }}', '{% endif %}',
    '{% if x %}{% endfor %}', '{{ }}', '{{ x. }}', '{{ x[] }}', '{{ x|join(1, 2, 3) }}',
    '{{ x|trim(nope=1) }}', '{{ varargs }}', '{{ $ }}', '{{ 99999999999999999999 }}',
    '{% set loop = 1 %}', '{{ lipsum() }}', '{{ cycler(1) }}', '{{ x|default(a=1) }}',
    "{{ x|replace('a') }}", "{{ ['a'] }}", "{{ {'a': 1} }}", "{{ '\xc4'|lower }}", "{{ 'a' % 1 }}",
    '{{ 999999999999999999 * 999999999999999999 }}', '{{ [1] < [2] }}',
    "{% set x = [1]|map('string') %}{{ x|join }}{{ x|join }}", "{{ {'a': 1}.items }}",
    "{{ 'a'|safe ~ 'b' }}",
]
