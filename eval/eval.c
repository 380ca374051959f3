/* See the header. */
#include "eval/eval.h"

#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/clock.h"

struct eval_kind {
    const char *name;
    const char *what;
    enum err (*run)(const struct eval_options *options, struct buf *out, struct err_info *info);
};

static const struct eval_kind kinds[] = {
    {"sts", "Spearman's rank correlation of /embed with people, on scored pairs of sentences",
        eval_sts},
};

static const struct eval_kind *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

enum err eval_check(const char *kind, struct err_info *info)
{
    return find(kind) != NULL
               ? ERR_OK
               : err_set(info, ERR_CONFIG, "eval", "no such kind; see magnetd eval --help");
}

enum err eval_run(
    const char *kind, const struct eval_options *options, struct buf *out, struct err_info *info)
{
    const struct eval_kind *row = find(kind);
    ASSERT(row != NULL);
    return row->run(options, out, info);
}

void eval_help(FILE *file)
{
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        fprintf(file, "  %-36s %s\n", kinds[i].name, kinds[i].what);
    }
}

/* ---- progress ---- */

enum { PERIOD_US = 1000000, PERIOD_TERMINAL_US = 100000 };

void eval_progress_begin(
    struct eval_progress *progress, const struct eval_options *options, const char *unit)
{
    int64_t now_us = clock_now_us(NULL);
    *progress = (struct eval_progress){
        .options = options, .unit = unit, .began_us = now_us, .shown_us = now_us};
}

void eval_progress_show(struct eval_progress *progress, size_t done, size_t all)
{
    const struct eval_options *options = progress->options;
    int64_t now_us = clock_now_us(NULL);
    int64_t period_us = options->terminal ? PERIOD_TERMINAL_US : PERIOD_US;
    if (options->progress == NULL || (done < all && now_us - progress->shown_us < period_us)) {
        return;
    }
    double seconds = (double)(now_us - progress->began_us) * 1e-6;
    fprintf(options->progress, "%s%zu of %zu %s, %.0f a second%s", options->terminal ? "\r" : "",
        done, all, progress->unit, seconds > 0 ? (double)done / seconds : 0,
        options->terminal && done < all ? "" : "\n");
    (void)fflush(options->progress);
    progress->shown_us = now_us;
}
