/* See builtin.h. */
#include "engine/template/builtin.h"

#include <string.h>
#include "engine/base/attr.h"

const struct builtin builtin_table[BUILTIN_COUNT] = {
#define X(id, use, name, parameters, needed) {BUILTIN_##use, name, parameters, needed},
    BUILTIN_MAP(X)
#undef X
};

int32_t builtin_find(enum builtin_use use, struct text name)
{
    for (int32_t i = 0; i < BUILTIN_COUNT; i++) {
        if (builtin_table[i].use == use && text_is(name, builtin_table[i].name)) {
            return i;
        }
    }
    return -1;
}

/* Walks the names of a list: false at its end. */
static bool next_name(const char **list, struct text *out_name)
{
    while (**list == ' ') {
        (*list)++;
    }
    size_t count = strcspn(*list, " ");
    *out_name = (struct text){.bytes = *list, .count = count};
    *list += count;
    return count > 0;
}

static int32_t find_name(const char *list, struct text wanted)
{
    struct text name;
    for (int32_t i = 0; next_name(&list, &name); i++) {
        if (text_equal(name, wanted)) {
            return i;
        }
    }
    return -1;
}

int32_t builtin_parameters(int32_t id)
{
    const char *list = builtin_table[id].parameters;
    struct text name;
    int32_t count = 0;
    while (next_name(&list, &name)) {
        count++;
    }
    return count;
}

int32_t builtin_parameter(int32_t id, struct text name)
{
    return find_name(builtin_table[id].parameters, name);
}

bool builtin_is_attribute(enum value_kind kind, struct text name)
{
    static const char text_names[] =
        "capitalize casefold center count encode endswith expandtabs find format format_map index "
        "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable "
        "isspace istitle isupper join ljust lower lstrip maketrans partition removeprefix "
        "removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines "
        "startswith strip swapcase title translate upper zfill";
    static const char map_names[] =
        "clear copy fromkeys get items keys pop popitem setdefault update values";
    static const char list_names[] =
        "append clear copy count extend index insert pop remove reverse sort";
    const char *names = kind == VALUE_TEXT   ? text_names
                        : kind == VALUE_MAP  ? map_names
                        : kind == VALUE_LIST ? list_names
                                             : "";
    return find_name(names, name) >= 0;
}
