/*
 * Fuzz target: any bytes as a tokenizer.json; what follows a NUL, if there is one, as the
 * tokenizer_config.json beside it. One that opens must be sound (check_tokenizer.h).
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/assert.h"
#include "engine/text/tokenizer_json.h"
#include "tests/fuzz/check_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct tokenizer_json files = {.tokenizer = text, .tokenizer_bytes = size, .bos = -1};
    const char *border = size > 0 ? memchr(text, '\0', size) : NULL;
    if (border != NULL) {
        files.tokenizer_bytes = (size_t)(border - text);
        files.config = border + 1;
        files.config_bytes = size - files.tokenizer_bytes - 1;
    }
    struct tokenizer *tokenizer = NULL;
    struct err_info info = {0};
    if (tokenizer_open_json(&files, &tokenizer, &info) == ERR_OK) {
        check_tokenizer(tokenizer);
        tokenizer_close(tokenizer);
    } else {
        ASSERT(info.where[0] != '\0' && info.text[0] != '\0');
    }
    return 0;
}
