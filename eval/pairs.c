/* See the header. The file stays in memory as it came; texts and names point into it. */
#include "eval/pairs.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/mem.h"
#include "engine/base/utf8.h"

enum { COLUMNS = 4, READ_BYTES = 1 << 16, SCORE_BYTES = 32 };

static const char header[] = "subset\tscore\tsentence1\tsentence2";

enum err pairs_fail(struct err_info *info, enum err err, size_t index, const char *what)
{
    char where[ERR_WHERE_BYTES];
    (void)snprintf(where, sizeof(where), "data, line %zu", index + 2);
    return err_set(info, err, where, "%s", what);
}

static struct pairs_text take_line(const char **at, const char *end)
{
    struct pairs_text line = {.bytes = *at};
    const char *feed = memchr(*at, '\n', (size_t)(end - *at));
    *at = feed != NULL ? feed + 1 : end;
    line.count = (size_t)((feed != NULL ? feed : end) - line.bytes);
    if (line.count > 0 && line.bytes[line.count - 1] == '\r') {
        line.count--;
    }
    return line;
}

/* Columns of a line; more than COLUMNS are counted and not kept. */
static size_t split(struct pairs_text line, struct pairs_text out[COLUMNS])
{
    const char *at = line.bytes, *end = line.bytes + line.count;
    size_t count = 0;
    for (bool more = true; more; count++) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        const char *stop = tab != NULL ? tab : end;
        if (count < COLUMNS) {
            out[count] = (struct pairs_text){at, (size_t)(stop - at)};
        }
        more = tab != NULL;
        at = more ? stop + 1 : stop;
    }
    return count;
}

/* A finite number and nothing else. */
static bool read_score(struct pairs_text text, double *out)
{
    char copy[SCORE_BYTES];
    char *end = NULL;
    if (text.count == 0 || text.count >= sizeof(copy) ||
        strchr("+-.0123456789", text.bytes[0]) == NULL) {
        return false;
    }
    memcpy(copy, text.bytes, text.count);
    copy[text.count] = '\0';
    double score = strtod(copy, &end);
    if (end != copy + text.count || !isfinite(score)) {
        return false;
    }
    *out = score;
    return true;
}

/* Index of a subset, which it may be the first of; -1 when there are too many. */
static int32_t subset_of(struct pairs *pairs, struct pairs_text name)
{
    for (int32_t i = 0; i < pairs->subset_count; i++) {
        const struct pairs_text *known = &pairs->subsets[i].name;
        if (known->count == name.count && memcmp(known->bytes, name.bytes, name.count) == 0) {
            pairs->subsets[i].count++;
            return i;
        }
    }
    if (pairs->subset_count == LIMIT_SUBSETS) {
        return -1;
    }
    pairs->subsets[pairs->subset_count].name = name;
    pairs->subsets[pairs->subset_count].count = 1;
    return pairs->subset_count++;
}

static enum err read_pair(struct pairs *pairs, struct pairs_text line, struct err_info *info)
{
    struct pairs_text columns[COLUMNS];
    struct pair *pair = &pairs->items[pairs->count];
    size_t count = split(line, columns);
    if (count != COLUMNS) {
        char what[64];
        (void)snprintf(what, sizeof(what), "%zu columns instead of %d", count, COLUMNS);
        return pairs_fail(info, ERR_INVALID, pairs->count, what);
    }
    if (!utf8_valid(line.bytes, line.count)) {
        return pairs_fail(info, ERR_INVALID, pairs->count, "not UTF-8");
    }
    if (memchr(line.bytes, '\0', line.count) != NULL) { /* which no request may have */
        return pairs_fail(info, ERR_INVALID, pairs->count, "a NUL byte");
    }
    if (!read_score(columns[1], &pair->score)) {
        return pairs_fail(info, ERR_INVALID, pairs->count, "the score is no finite number");
    }
    if (columns[0].count == 0 || columns[2].count == 0 || columns[3].count == 0) {
        return pairs_fail(info, ERR_EMPTY, pairs->count, "a column is empty");
    }
    pair->subset = subset_of(pairs, columns[0]);
    if (pair->subset < 0) {
        return pairs_fail(info, ERR_LIMIT, pairs->count, "too many subsets (256 at most)");
    }
    pair->texts[0] = columns[2];
    pair->texts[1] = columns[3];
    pairs->count++;
    return ERR_OK;
}

static size_t count_lines(const char *at, const char *end)
{
    size_t lines = 0;
    while (at < end) {
        (void)take_line(&at, end);
        lines++;
    }
    return lines;
}

static enum err parse(struct pairs *pairs, struct err_info *info)
{
    if (pairs->file.count == 0) {
        return err_set(info, ERR_EMPTY, "data", "the file is empty");
    }
    const char *at = pairs->file.bytes, *end = at + pairs->file.count;
    struct pairs_text line = take_line(&at, end);
    if (line.count != strlen(header) || memcmp(line.bytes, header, line.count) != 0) {
        return err_set(info, ERR_INVALID, "data, line 1",
            "the columns are not named subset, score, sentence1, sentence2, with tabs between");
    }
    size_t lines = count_lines(at, end);
    if (lines == 0) {
        return err_set(info, ERR_EMPTY, "data", "the file has no pairs");
    }
    if (lines > LIMIT_PAIRS) {
        return pairs_fail(info, ERR_LIMIT, LIMIT_PAIRS, "too many pairs (1048576 at most)");
    }
    pairs->items = mem_array(MEM_OTHER, lines, sizeof(*pairs->items));
    if (pairs->items == NULL) {
        return err_set(info, ERR_NO_MEMORY, "data", "no memory for %zu pairs", lines);
    }
    enum err err = ERR_OK;
    while (err == ERR_OK && at < end) {
        err = read_pair(pairs, take_line(&at, end), info);
    }
    return err;
}

enum err pairs_parse(struct buf *file, struct pairs *out_pairs, struct err_info *info)
{
    struct pairs pairs = {.file = *file};
    enum err err = parse(&pairs, info);
    if (err != ERR_OK) {
        pairs_close(&pairs);
        return err;
    }
    *out_pairs = pairs;
    return ERR_OK;
}

void pairs_close(struct pairs *pairs)
{
    buf_free(&pairs->file);
    mem_free(pairs->items);
    *pairs = (struct pairs){0};
}

static enum err too_large(struct err_info *info)
{
    return err_set(
        info, ERR_LIMIT, "data", "the file does not fit: %d MiB at most", LIMIT_PAIRS_BYTES >> 20);
}

/* Not only regular files: a shell's <(...) is welcome, so the size shows in the reading. */
static enum err read_file(FILE *stream, struct buf *file, struct err_info *info)
{
    size_t got;
    do {
        char *room = buf_reserve(file, READ_BYTES);
        if (room == NULL) {
            return file->count > LIMIT_PAIRS_BYTES
                       ? too_large(info)
                       : err_set(info, ERR_NO_MEMORY, "data", "no memory for the file");
        }
        got = fread(room, 1, READ_BYTES, stream);
        buf_took(file, got);
    } while (got == READ_BYTES);
    if (ferror(stream)) {
        return err_set(info, ERR_IO, "data", "the file cannot be read: %s", strerror(errno));
    }
    return file->count <= LIMIT_PAIRS_BYTES ? ERR_OK : too_large(info);
}

enum err pairs_read(const char *path, struct pairs *out_pairs, struct err_info *info)
{
    struct buf file;
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        return err_set(info, ERR_IO, "data", "the file cannot be opened: %s", strerror(errno));
    }
    buf_init(&file, MEM_OTHER, LIMIT_PAIRS_BYTES + READ_BYTES);
    enum err err = read_file(stream, &file, info);
    (void)fclose(stream);
    if (err != ERR_OK) {
        buf_free(&file);
        return err;
    }
    return pairs_parse(&file, out_pairs, info);
}
