/* Fuzz target: any bytes as a safetensors file. A directory that is accepted lies within the file,
 * covers its data, and every number in it can be read. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/load/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sum; /* keeps reads from being dropped */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct safetensors all = {0};
    struct err_info info = {0};
    size_t covered = 0;
    arena_init(&arena, MEM_OTHER, 1 << 12, (size_t)1 << 24);
    if (safetensors_read_memory(data, size, "fuzz", &arena, &all, &info) != ERR_OK) {
        ASSERT(info.where[0] != '\0' && info.text[0] != '\0');
        all.count = 0;
    }
    for (size_t i = 0; i < all.count; i++) {
        const struct safetensors_tensor *tensor = &all.tensors[i];
        ASSERT(tensor->dims >= 1 && tensor->dims <= SAFETENSORS_DIMS);
        ASSERT(
            tensor->bytes > 0 && tensor->offset <= size && tensor->bytes <= size - tensor->offset);
        ASSERT(i == 0 || tensor->offset == all.tensors[i - 1].offset + all.tensors[i - 1].bytes);
        covered += tensor->bytes;
        for (size_t at = 0; at < tensor->bytes; at++) {
            sum += data[tensor->offset + at];
        }
        sum += strlen(tensor->name);
    }
    ASSERT(all.count == 0 ||
           all.tensors[all.count - 1].offset + all.tensors[all.count - 1].bytes == size);
    ASSERT(covered <= size);
    arena_drop(&arena);
    return 0;
}
