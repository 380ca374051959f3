/* See the header. The buffer holds the longest line, its end and what one read may bring. */
#include "batch/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "engine/base/assert.h"
#include "engine/base/mem.h"

enum { READ_BYTES = 64 << 10, ROOM_BYTES = LIMIT_LINE_BYTES + 2 + READ_BYTES };

enum err lines_open(const char *path, struct lines *out_lines, struct err_info *info)
{
    struct lines lines = {.fd = STDIN_FILENO};
    if (path[0] != '\0') {
        lines.fd = open(path, O_RDONLY | O_CLOEXEC);
        if (lines.fd < 0) {
            return err_set(info, ERR_IO, "input", "cannot be read: %s", strerror(errno));
        }
    }
    lines.bytes = mem_alloc(MEM_OTHER, ROOM_BYTES);
    if (lines.bytes == NULL) {
        lines_close(&lines);
        return err_set(info, ERR_NO_MEMORY, "input", "no memory for a line");
    }
    *out_lines = lines;
    return ERR_OK;
}

void lines_close(struct lines *lines)
{
    if (lines->fd != STDIN_FILENO) {
        (void)close(lines->fd);
    }
    mem_free(lines->bytes);
}

enum err lines_read(struct lines *lines, struct err_info *info)
{
    ASSERT(!lines->ended);
    if (lines->from > 0) {
        memmove(lines->bytes, lines->bytes + lines->from, lines->to - lines->from);
        lines->to -= lines->from;
        lines->looked_to -= lines->from;
        lines->from = 0;
    }
    ASSERT(ROOM_BYTES - lines->to >= READ_BYTES);
    ssize_t count = read(lines->fd, lines->bytes + lines->to, READ_BYTES);
    if (count < 0) {
        return errno == EINTR || errno == EAGAIN
                   ? ERR_OK
                   : err_set(info, ERR_IO, "input", "cannot be read: %s", strerror(errno));
    }
    lines->ended = count == 0;
    lines->to += (size_t)count;
    return ERR_OK;
}

/* A whole line stands from `from` to `end`, which is behind its newline if it has one. */
static struct line cut(struct lines *lines, size_t end)
{
    struct line line = {.bytes = lines->bytes + lines->from, .count = end - lines->from};
    if (line.count > 0 && line.bytes[line.count - 1] == '\n') {
        line.count--;
    }
    if (line.count > 0 && line.bytes[line.count - 1] == '\r') {
        line.count--;
    }
    if (lines->skipping || line.count > LIMIT_LINE_BYTES) {
        line.bytes = NULL;
        line.count = 0;
    }
    lines->skipping = false;
    lines->from = lines->looked_to = end;
    line.number = ++lines->number;
    static const char mark[] = {'\xEF', '\xBB', '\xBF'};
    if (line.number == 1 && line.count >= sizeof(mark) &&
        memcmp(line.bytes, mark, sizeof(mark)) == 0) {
        line.bytes += sizeof(mark);
        line.count -= sizeof(mark);
    }
    return line;
}

bool lines_take(struct lines *lines, struct line *out_line)
{
    const char *feed = lines->looked_to < lines->to ? memchr(lines->bytes + lines->looked_to, '\n',
                                                          lines->to - lines->looked_to)
                                                    : NULL;
    lines->looked_to = lines->to;
    if (feed != NULL) {
        *out_line = cut(lines, (size_t)(feed - lines->bytes) + 1);
        return true;
    }
    if (lines->ended && (lines->to > lines->from || lines->skipping)) {
        *out_line = cut(lines, lines->to);
        return true;
    }
    if (lines->to - lines->from > LIMIT_LINE_BYTES + 1) { /* one more may be its "\r" */
        lines->skipping = true;
        lines->from = lines->to;
    }
    return false;
}
