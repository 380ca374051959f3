/* One line that tells how far a command has come; on a terminal it is written over. */
#ifndef BATCH_PROGRESS_H
#define BATCH_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct progress {
    FILE *file; /* NULL = silent */
    bool terminal;
    const char *unit; /* "pairs" */
    int64_t began_us, shown_us;
};

void progress_begin(struct progress *progress, FILE *file, bool terminal, const char *unit);
/* At most once a second where it is no terminal, and at the end. `all` 0: nobody knows; `tokens` 0
 * are not shown. */
void progress_show(struct progress *progress, size_t done, size_t all, int64_t tokens, bool end);

#endif
