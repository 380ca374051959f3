/*
 * A file of sentence pairs that people have scored: tab-separated, one pair a line, and as its
 * first line the names of the columns, "subset score sentence1 sentence2". So pair i stands on line
 * i + 2.
 *
 * Bytes of a user's file: whatever is wrong with them is an error that names the line.
 */
#ifndef EVAL_PAIRS_H
#define EVAL_PAIRS_H

#include <stddef.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "eval/spearman.h"

enum {
    LIMIT_PAIRS = SPEARMAN_VALUES_MAX,
    LIMIT_PAIRS_BYTES = 64 << 20, /* 64 a pair; the largest set in use has 0.75 MB */
    LIMIT_SUBSETS = 256,          /* looked for one by one; sets in use have 8 */
};

/* A piece of the file, not terminated. */
struct pairs_text {
    const char *bytes;
    size_t count;
};

struct pair {
    struct pairs_text texts[2];
    double score;
    int32_t subset;
};

struct pairs {
    struct buf file;
    struct pair *items;
    size_t count;
    struct {
        struct pairs_text name;
        size_t count; /* pairs */
    } subsets[LIMIT_SUBSETS];
    int32_t subset_count;
};

/* Opens, reads and checks the whole file. Nothing to close after an error. */
MUST_USE enum err pairs_read(const char *path, struct pairs *out_pairs, struct err_info *info);
/* The same from memory. Takes `file` over, also on failure. */
MUST_USE enum err pairs_parse(struct buf *file, struct pairs *out_pairs, struct err_info *info);
void pairs_close(struct pairs *pairs);
/* An error at the pair's line. */
enum err pairs_fail(struct err_info *info, enum err err, size_t index, const char *what);

#endif
