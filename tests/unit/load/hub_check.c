/* See hub_check.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <time.h>
#include "engine/model/model.h"
#include "tests/scale.h"
#include "tests/unit/load/hub_check.h"

/* Reads everything, as --check-model does before it makes a tokenizer. */
enum err hub_open_all(
    const char *path, struct gguf **out_gguf, struct model_info *out_model, struct err_info *info)
{
    struct kernels kernels;
    struct model *model = NULL;
    *out_gguf = NULL;
    *info = (struct err_info){.offset = -1};
    assert_int_equal(kernels_select("ref", &kernels, NULL), ERR_OK);
    enum err err = checkpoint_open(path, out_gguf, info);
    if (err == ERR_OK) {
        err = model_open(*out_gguf, &kernels, NULL, false, &model, info);
    }
    if (err == ERR_OK && out_model != NULL) {
        *out_model = *model_info(model);
    }
    model_close(model);
    return err;
}

void hub_expect(const struct hub_files *files, const char *what, enum err err, const char *where)
{
    struct gguf *gguf = NULL;
    struct err_info info;
    const clock_t from = clock();
    const enum err got = hub_open_all(files->folder, &gguf, NULL, &info);
    const double ms = 1e3 * (double)(clock() - from) / CLOCKS_PER_SEC; /* whatever else runs */
    gguf_close(gguf);
    if (got != err || (err != ERR_OK && strcmp(info.where, where) != 0)) {
        fail_msg("%s: %s at \"%s\" (%s), expected %s at \"%s\"", what, err_word(got), info.where,
            info.text, err_word(err), where);
    }
    if (got != ERR_OK && ms > 100 * test_scale()) {
        fail_msg("%s: %.0f ms for an error", what, ms);
    }
    const char *name = files->folder + strlen("/tmp");
    if (got != ERR_OK && (info.text[0] == '\0' || strstr(info.text, name) != NULL ||
                             strstr(info.where, name) != NULL)) {
        fail_msg("%s: the error says nothing or holds a path: %s", what, info.text);
    }
}

void hub_check_change(
    const char *file, const struct hub_change *change, void (*prepare)(struct hub_files *))
{
    struct hub_files files;
    hub_files_open(&files);
    if (prepare != NULL) {
        prepare(&files);
    }
    hub_files_change(&files, file, change->from, change->to);
    hub_expect(&files, change->what, change->err, change->where);
    hub_files_close(&files);
}
