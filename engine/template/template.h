/*
 * Templates in the part of Jinja that chat templates use, as transformers sets it up: trim_blocks,
 * lstrip_blocks, loop controls, its tojson, raise_exception and strftime_now. What is outside of
 * that part is an error when a template is parsed, with its line, and never rendered otherwise than
 * Jinja would. docs/chat-templates.md lists it.
 *
 * A parsed template is read-only: any thread may render it. Rendering is bounded in work, time,
 * memory, depth and output, whatever the template says.
 */
#ifndef ENGINE_TEMPLATE_TEMPLATE_H
#define ENGINE_TEMPLATE_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/template/value.h"

struct template;

/* 0 = the default of engine_limits.h (LIMIT_TEMPLATE_...). */
struct template_limits {
    int64_t steps;
    int64_t time_us;
    size_t output_bytes;
    size_t memory_bytes;
    int32_t depth;
    const struct clock *clock; /* of time_us; NULL = what the calling thread computes */
};

/* Text that was rendered, in the arena that was given. */
struct rendered {
    const char *bytes;      /* NUL-terminated */
    const uint8_t *foreign; /* [count] 1 = the byte comes from a value that a client supplied */
    size_t count;
};

/* ERR_UNSUPPORTED with "line N: what it is" as text; ERR_NO_MEMORY. */
MUST_USE enum err template_open(
    const char *source, size_t bytes, struct template **out_template, struct err_info *info);
void template_close(struct template *template); /* NULL allowed */

/* `values` are the variables, a map with text keys; `now` is the time in seconds since 1970, which
 * strftime_now shows as UTC. The result goes into `arena`, work space does not.
 *
 * ERR_INVALID: the template raises an exception (whose message is the text, without what a client
 * supplied), or these values do not fit it; ERR_LIMIT; ERR_NOT_CAPABLE: it came upon something that
 * is not built; ERR_NO_MEMORY. */
MUST_USE enum err template_render(const struct template *template, const struct map *values,
    int64_t now, const struct template_limits *limits, struct arena *arena,
    struct rendered *out_rendered, struct err_info *info);
/* Whether a string of the template is or holds this word. */
bool template_mentions(const struct template *template, const char *word);

#endif
