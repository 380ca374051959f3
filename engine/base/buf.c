/*
 * The growing buffer. Capacity doubles, so that appending n bytes one by one copies O(n) bytes in
 * all, but never past bytes_max and its NUL.
 */
#include "engine/base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/checked.h"

enum { FIRST_CAPACITY = 256 };

void buf_init(struct buf *buf, enum mem_pool pool, size_t bytes_max)
{
    ASSERT(bytes_max < SIZE_MAX);
    *buf = (struct buf){.pool = pool, .bytes_max = bytes_max};
}

char *buf_reserve(struct buf *buf, size_t count)
{
    if (buf->failed) {
        return NULL;
    }
    if (count > buf->bytes_max - buf->count) {
        buf->failed = true;
        return NULL;
    }
    size_t need = buf->count + count + 1; /* the NUL; cannot wrap: count <= bytes_max < SIZE_MAX */
    if (need > buf->capacity) {
        size_t doubled = buf->capacity > SIZE_MAX / 2 ? SIZE_MAX : buf->capacity * 2;
        size_t capacity = MIN(MAX(MAX(doubled, need), FIRST_CAPACITY), buf->bytes_max + 1);
        char *grown = mem_grow(buf->pool, buf->bytes, capacity);
        if (grown == NULL) {
            buf->failed = true;
            return NULL;
        }
        buf->bytes = grown;
        buf->capacity = capacity;
    }
    return buf->bytes + buf->count;
}

void buf_took(struct buf *buf, size_t count)
{
    ASSERT(buf->bytes != NULL && count < buf->capacity - buf->count);
    buf->count += count;
    buf->bytes[buf->count] = '\0';
}

void buf_append(struct buf *buf, const void *bytes, size_t count)
{
    char *room = buf_reserve(buf, count);
    if (room == NULL) {
        return;
    }
    if (count != 0) {
        memcpy(room, bytes, count);
    }
    buf_took(buf, count);
}

void buf_text(struct buf *buf, const char *text)
{
    buf_append(buf, text, strlen(text));
}

void buf_char(struct buf *buf, char c)
{
    buf_append(buf, &c, 1);
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int count = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (count < 0) {
        buf->failed = true;
    } else {
        char *room = buf_reserve(buf, (size_t)count);
        if (room != NULL) {
            (void)vsnprintf(room, (size_t)count + 1, format, again);
            buf_took(buf, (size_t)count);
        }
    }
    va_end(again);
}

void buf_clear(struct buf *buf)
{
    buf->count = 0;
    buf->failed = false;
    if (buf->bytes != NULL) {
        buf->bytes[0] = '\0';
    }
}

void buf_free(struct buf *buf)
{
    mem_free(buf->bytes);
    buf->bytes = NULL;
    buf->count = 0;
    buf->capacity = 0;
    buf->failed = false;
}
