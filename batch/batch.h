/*
 * `magnetd embed|infill|generate|classify`: one endpoint over the lines of a file, in this process,
 * without a server. A line is a text, or with `jsonl` a body of the route; it is answered by one
 * line, the reply of the route or its error, at the same place. Memory does not grow with the file.
 *
 * As an array (.npy) there is no place for an error, so the first one ends it and leaves no file.
 */
#ifndef BATCH_BATCH_H
#define BATCH_BATCH_H

#include <stdbool.h>
#include <stdio.h>
#include "engine/base/err.h"
#include "engine/engine.h"

struct batch_options {
    struct engine_config engine;
    const char *endpoint; /* "embed" */
    const char *input;    /* a file; "" = standard input */
    const char *output;   /* a file, an array if its name ends in .npy; "" = standard output */
    const char *body;     /* an object: fields that go with every text; "" = none */
    const char *served_name, *aliases; /* of the model, as in struct call; NULL = none */
    bool jsonl;
    FILE *progress; /* NULL = none */
    bool terminal;  /* `progress` is one: its line is written over */
    FILE *messages; /* what is no failure and should be known: cut inputs, unknown fields */
};

/* ERR_OK when every line was answered. After an error that a line has the others were answered
 * nevertheless, and it is the first one, by its number. */
MUST_USE enum err batch_run(const struct batch_options *options, struct err_info *info);

#endif
