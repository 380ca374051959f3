/* Fuzz target: any bytes as a GGUF file. A file that opens is asked for everything it has. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "engine/base/assert.h"
#include "engine/load/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sum; /* keeps reads from being dropped */

static void read_array(const struct gguf *gguf, const char *key, enum gguf_type type)
{
    struct gguf_array array;
    if (gguf_get_array(gguf, key, true, type, &array, NULL) != ERR_OK) {
        return;
    }
    for (size_t i = 0; i < array.count; i++) {
        if (type == GGUF_STRING && array.strings[i].count > 0) {
            sum += (unsigned char)array.strings[i].bytes[array.strings[i].count - 1];
        } else if (type == GGUF_I32) {
            sum += (uint32_t)gguf_array_i32(&array, i);
        } else if (type != GGUF_STRING) {
            sum += array.data[i];
        }
    }
}

static void read_key(const struct gguf *gguf, const char *key)
{
    int64_t integer = 0;
    double number = 0;
    bool flag = false;
    struct gguf_string text = {0};
    ASSERT(gguf_has(gguf, key));
    int right = 0;
    right += gguf_get_i64(gguf, key, true, INT64_MIN, INT64_MAX, &integer, NULL) == ERR_OK;
    right += gguf_get_f64(gguf, key, true, &number, NULL) == ERR_OK;
    right += gguf_get_bool(gguf, key, true, &flag, NULL) == ERR_OK;
    right += gguf_get_string(gguf, key, true, &text, NULL) == ERR_OK;
    ASSERT(right <= 1); /* a value has one type */
    for (size_t i = 0; i < text.count; i++) {
        sum += (unsigned char)text.bytes[i];
    }
    for (int type = GGUF_U8; type <= GGUF_F64; type++) {
        read_array(gguf, key, (enum gguf_type)type);
    }
}

static void read_tensor(const struct gguf *gguf, const struct gguf_tensor *tensor)
{
    ASSERT(gguf_find_tensor(gguf, tensor->name.bytes) == tensor);
    ASSERT(tensor->offset + tensor->bytes <= gguf_file_bytes(gguf));
    const size_t block = (size_t)tensor_type_block(tensor->type);
    float numbers[256];
    unsigned char *bytes = malloc(tensor->bytes);
    if (bytes == NULL) {
        return;
    }
    ASSERT(gguf_read(gguf, tensor, 0, tensor->bytes, bytes, NULL) == ERR_OK);
    sum += tensor_type_finite(tensor->type, bytes, block);
    tensor_type_unpack(tensor->type, bytes, block, numbers);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf *gguf = NULL;
    struct err_info info = {0};
    if (gguf_open_memory(data, size, &gguf, &info) != ERR_OK) {
        ASSERT(info.where[0] != '\0' && info.text[0] != '\0');
        return 0;
    }
    for (int32_t i = 0; i < gguf_key_count(gguf); i++) {
        read_key(gguf, gguf_key(gguf, i));
    }
    for (int32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        read_tensor(gguf, gguf_tensor_at(gguf, i));
    }
    gguf_close(gguf);
    return 0;
}
