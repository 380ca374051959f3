/* See checkpoint_text.h. Here the files of a folder that are text meet those that are numbers: the
 * tokenizer knows neither folders nor config.json. */
#include "engine/checkpoint_text.h"

#include <unistd.h>
#include "engine/base/mem.h"
#include "engine/load/checkpoint.h"
#include "engine/load/file.h"
#include "engine/text/tokenizer_json.h"

/* What config.json and generation_config.json say. */
static enum err read_ids(
    const struct gguf *gguf, struct tokenizer_json *files, struct err_info *info)
{
    int64_t begin = -1;
    struct gguf_array ends = {.type = GGUF_I32};
    enum err err = gguf_get_i64(gguf, HUB_BEGIN_KEY, false, 0, LIMIT_VOCAB, &begin, info);
    if (err == ERR_OK) {
        err = gguf_get_array(gguf, HUB_ENDS_KEY, false, GGUF_I32, &ends, info);
    }
    if (err != ERR_OK) {
        return err;
    }
    files->bos = (int32_t)begin;
    files->end_count = (int32_t)MIN(ends.count, (size_t)LIMIT_END_TOKENS);
    for (int32_t i = 0; i < files->end_count; i++) {
        files->ends[i] = gguf_array_i32(&ends, (size_t)i);
    }
    return ERR_OK;
}

static enum err open_folder(int folder, struct tokenizer_json *files,
    struct tokenizer **out_tokenizer, struct err_info *info)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json"};
    char *texts[ARRAY_COUNT(names)] = {NULL, NULL};
    size_t bytes[ARRAY_COUNT(names)] = {0, 0};
    enum err err = ERR_OK;
    for (size_t i = 0; i < ARRAY_COUNT(names) && err == ERR_OK; i++) {
        if (i == 0 || file_exists(folder, names[i])) {
            err = file_load_in(folder, names[i], LIMIT_TOKENIZER_BYTES, &texts[i], &bytes[i], info);
        }
    }
    if (err == ERR_OK) {
        files->tokenizer = texts[0];
        files->tokenizer_bytes = bytes[0];
        files->config = texts[1];
        files->config_bytes = bytes[1];
        err = tokenizer_open_json(files, out_tokenizer, info);
    }
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        mem_free(texts[i]);
    }
    return err;
}

enum err checkpoint_text_open(const char *path, const struct gguf *gguf, int32_t rows,
    struct tokenizer **out_tokenizer, struct err_info *info)
{
    struct tokenizer_json files = {.rows = rows};
    int folder = -1;
    if (!gguf_is_folder(gguf)) {
        return tokenizer_open_gguf(gguf, out_tokenizer, info);
    }
    enum err err = read_ids(gguf, &files, info);
    if (err == ERR_OK && !file_folder(path, &folder)) {
        err = err_set(info, ERR_IO, "tokenizer.json", "its folder is no longer there");
    }
    if (err == ERR_OK) {
        err = open_folder(folder, &files, out_tokenizer, info);
        close(folder);
    }
    return err;
}
