/*
 * A bounded, growing byte buffer with a sticky error, so that a writer can run to its end and be
 * asked once whether everything fitted. NUL-terminated whenever bytes != NULL.
 */
#ifndef ENGINE_BASE_BUF_H
#define ENGINE_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include "engine/base/attr.h"
#include "engine/base/mem.h"

struct buf {
    char *bytes;
    size_t count;     /* bytes used, without the NUL */
    size_t capacity;  /* bytes held */
    size_t bytes_max; /* bound of count */
    enum mem_pool pool;
    bool failed; /* an append did not fit; the content is then useless */
};

void buf_init(struct buf *buf, enum mem_pool pool, size_t bytes_max);
void buf_append(struct buf *buf, const void *bytes, size_t count);
void buf_text(struct buf *buf, const char *text);
void buf_char(struct buf *buf, char c);
void buf_printf(struct buf *buf, const char *format, ...) PRINTF_LIKE(2, 3);
/* Room for `count` more bytes at the end, to be taken with buf_took; NULL on failure. */
MUST_USE char *buf_reserve(struct buf *buf, size_t count);
void buf_took(struct buf *buf, size_t count);
void buf_clear(struct buf *buf);
void buf_free(struct buf *buf);

#endif
