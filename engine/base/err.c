/*
 * The error list's words and the one place that fills an err_info. Long text is cut at a character
 * border, because `text` and `where` end up inside JSON, which has to stay valid UTF-8.
 */
#include "engine/base/err.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/utf8.h"

static const char *const words[ERR_COUNT] = {
#define X(name, word) [ERR_##name] = word,
    ERR_MAP(X)
#undef X
};

const char *err_word(enum err code)
{
    ASSERT((int)code >= 0 && code < ERR_COUNT);
    return words[code];
}

/* A text that filled its field may have been cut inside a character: drop the unfinished end. */
static void cut_at_border(char *text, size_t field_bytes)
{
    size_t count = strlen(text);
    if (count + 1 == field_bytes) {
        text[utf8_complete(text, count)] = '\0';
    }
}

enum err err_set(struct err_info *info, enum err code, const char *where, const char *format, ...)
{
    ASSERT(code != ERR_OK);
    ASSERT(format != NULL);
    if (info == NULL) {
        return code;
    }
    memset(info, 0, sizeof *info);
    info->code = code;
    info->offset = -1;
    (void)snprintf(info->where, sizeof info->where, "%s", where == NULL ? "" : where);
    cut_at_border(info->where, sizeof info->where);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(info->text, sizeof info->text, format, args);
    va_end(args);
    cut_at_border(info->text, sizeof info->text);
    return code;
}
