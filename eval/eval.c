/* See the header. */
#include "eval/eval.h"

#include <string.h>
#include "engine/base/assert.h"

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
