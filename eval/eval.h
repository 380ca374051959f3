/*
 * `magnetd eval KIND ...`: how good a model is, measured by the program that serves it, with the
 * arithmetic and the profile it would serve with. A kind is one row of the table in eval.c and one
 * file: it reads its data, asks through batch/ask.h and writes one JSON object.
 */
#ifndef EVAL_EVAL_H
#define EVAL_EVAL_H

#include <stdio.h>
#include "engine/base/buf.h"
#include "engine/engine.h"

struct eval_options {
    struct engine_config engine;
    const char *data;        /* a file; the kind says of what */
    const char *prompt_name; /* of the profile's prompts; NULL = none */
    FILE *progress;          /* NULL = none */
    bool terminal;           /* `progress` is one: its line is written over */
};

/* ERR_CONFIG for a kind that is not there. */
MUST_USE enum err eval_check(const char *kind, struct err_info *info);
/* Measures, and appends one JSON object without a newline to `out`. */
MUST_USE enum err eval_run(
    const char *kind, const struct eval_options *options, struct buf *out, struct err_info *info);
/* One line a kind. */
void eval_help(FILE *file);

/* ---- the kinds ---- */

MUST_USE enum err eval_sts(
    const struct eval_options *options, struct buf *out, struct err_info *info);

#endif
