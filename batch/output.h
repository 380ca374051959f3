/*
 * Where results go: standard output, or a file that appears under its name only when it is whole.
 * Until then it is NAME.PID.part beside it, which is removed after a failure and by the signals
 * that end a process, too. One file at a time.
 */
#ifndef BATCH_OUTPUT_H
#define BATCH_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>
#include "engine/base/err.h"

struct output {
    FILE *file;
    const char *path; /* the caller's; "" = standard output */
};

/* Refuses a path that is there and no regular file: it would be replaced, not written to. */
MUST_USE enum err output_open(const char *path, struct output *out_output, struct err_info *info);
/* An error that says why the last write failed, from errno. */
enum err output_fail(struct err_info *info);
/* Flushes; a file gets its name if `whole`, else it is gone. */
MUST_USE enum err output_close(struct output *output, bool whole, struct err_info *info);

#endif
