/* See hub_names.h. The numbers of layers are written in one way only, without zeros before them, so
 * that no two names of a file become one of ours. */
#include "engine/load/hub_names.h"

#include <stdio.h>
#include <string.h>
#include "engine/base/attr.h"

enum { NUMBER_DIGITS = 4 }; /* LIMIT_LAYERS and more */

/* Digits at `text` that are a layer's number; 0 = none. */
static size_t number_at(const char *text)
{
    const size_t count = strspn(text, "0123456789");
    const bool plain = count > 0 && count <= NUMBER_DIGITS && (text[0] != '0' || count == 1);
    return plain ? count : 0;
}

/* Whether `name` is the pattern with a number in it; *out_number is where, NULL where the pattern
 * has none. */
static bool matches(
    const char *pattern, const char *name, const char **out_number, size_t *out_digits)
{
    const char *gap = strchr(pattern, '#');
    *out_number = NULL;
    *out_digits = 0;
    if (gap == NULL) {
        return strcmp(pattern, name) == 0;
    }
    const size_t before = (size_t)(gap - pattern);
    if (strncmp(pattern, name, before) != 0) {
        return false;
    }
    *out_number = name + before;
    *out_digits = number_at(*out_number);
    return *out_digits > 0 && strcmp(gap + 1, *out_number + *out_digits) == 0;
}

/* The pattern with the number put in. */
static void fill(const char *pattern, const char *number, size_t digits, char *out, size_t bytes)
{
    const size_t before = strcspn(pattern, "#");
    if (pattern[before] == '\0') {
        (void)snprintf(out, bytes, "%s", pattern);
        return;
    }
    (void)snprintf(
        out, bytes, "%.*s%.*s%s", (int)before, pattern, (int)digits, number, pattern + before + 1);
}

const struct hub_name *hub_names_find(
    const struct hub_names *names, const char *theirs, char out_ours[HUB_OURS_BYTES])
{
    const size_t prefix = strlen(names->prefix);
    const bool prefixed = strncmp(theirs, names->prefix, prefix) == 0;
    const char *name = theirs + (prefixed ? prefix : 0);
    for (size_t i = 0; i < names->count; i++) {
        const struct hub_name *row = &names->rows[i];
        const char *number;
        size_t digits;
        if (!(row->bare && prefixed) && matches(row->theirs, name, &number, &digits)) {
            fill(row->ours == NULL ? "" : row->ours, number, digits, out_ours, HUB_OURS_BYTES);
            return row;
        }
    }
    return NULL;
}

void hub_names_back(const struct hub_names *names, const char *ours, char *out, size_t bytes)
{
    out[0] = '\0';
    for (size_t i = 0; i < names->count; i++) {
        const struct hub_name *row = &names->rows[i];
        const char *number;
        size_t digits;
        if (row->ours != NULL && matches(row->ours, ours, &number, &digits)) {
            const size_t used = (size_t)snprintf(out, bytes, "%s", row->bare ? "" : names->prefix);
            fill(row->theirs, number, digits, out + used, bytes - used);
            return;
        }
    }
}
