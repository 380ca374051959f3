/*
 * Fuzz target: any bytes as a GGUF file with a vocabulary. One that opens must be sound
 * (check_tokenizer.h).
 */
#include <stddef.h>
#include <stdint.h>

#include "engine/base/assert.h"
#include "engine/load/gguf.h"
#include "tests/fuzz/check_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf *gguf = NULL;
    struct tokenizer *tokenizer = NULL;
    struct err_info info = {0};
    if (gguf_open_memory(data, size, &gguf, &info) != ERR_OK) {
        return 0;
    }
    if (tokenizer_open_gguf(gguf, &tokenizer, &info) == ERR_OK) {
        gguf_close(gguf); /* nothing of it is needed any more */
        check_tokenizer(tokenizer);
        tokenizer_close(tokenizer);
    } else {
        ASSERT(info.where[0] != '\0' && info.text[0] != '\0');
        gguf_close(gguf);
    }
    return 0;
}
