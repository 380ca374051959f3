/*
 * The lines of a file of any length, in constant memory: they end in "\n" or "\r\n", the last one
 * perhaps in nothing. A line that is too long is told as such and passed over. A byte order mark at
 * the beginning is the file's, and no part of its first line.
 *
 * Reading and taking are apart, so that a caller can wait for bytes and for other things at once.
 */
#ifndef BATCH_LINES_H
#define BATCH_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include "engine/base/err.h"

enum { LIMIT_LINE_BYTES = 4 << 20 }; /* the server's default for a body, which a line may be */

struct line {
    const char *bytes; /* until the next lines_read; not terminated; NULL when too long */
    size_t count;      /* without the end of the line */
    size_t number;     /* from 1 */
};

struct lines {
    int fd;
    char *bytes;
    size_t from, to;  /* what was read and not yet taken */
    size_t looked_to; /* there is no newline before this */
    size_t number;    /* of the newest line taken */
    bool skipping;    /* within a line that is too long */
    bool ended;       /* no more to read */
};

/* `path` "" is standard input. */
MUST_USE enum err lines_open(const char *path, struct lines *out_lines, struct err_info *info);
void lines_close(struct lines *lines);
/* One read, which may wait; not called while a line can be taken, nor when `ended`. */
MUST_USE enum err lines_read(struct lines *lines, struct err_info *info);
/* False: not before more is read, or never when `ended`. */
MUST_USE bool lines_take(struct lines *lines, struct line *out_line);

#endif
