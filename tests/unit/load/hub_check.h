/* What the tests of folders share: opening one as --check-model does, and tables of changes. */
#ifndef TESTS_UNIT_LOAD_HUB_CHECK_H
#define TESTS_UNIT_LOAD_HUB_CHECK_H

#include "engine/load/checkpoint.h"
#include "engine/types.h"
#include "tests/unit/load/hub_files.h"

/* Opens the folder and reads every tensor. *out_model may be NULL. */
enum err hub_open_all(
    const char *path, struct gguf **out_gguf, struct model_info *out_model, struct err_info *info);
/* The error, or ERR_OK, of opening a folder: its code and place, in 100 ms, without a path. */
void hub_expect(const struct hub_files *files, const char *what, enum err err, const char *where);

struct hub_change {
    const char *what, *from, *to;
    enum err err;
    const char *where; /* of ERR_OK: unused */
};

/* hub_expect of a good folder after `prepare` (may be NULL) and one change. */
void hub_check_change(
    const char *file, const struct hub_change *change, void (*prepare)(struct hub_files *));

#endif
