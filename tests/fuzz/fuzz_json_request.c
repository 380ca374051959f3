/*
 * Fuzz target: any bytes as the body of every request. What is refused has a place: an offset
 * within the bytes for syntax, a JSON pointer for a field; what is accepted is bound.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "api/bind.h"
#include "engine/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const struct schema *schema, const char *body, size_t bytes)
{
    struct arena arena;
    struct bound bound = {0};
    struct err_info info = {0};
    arena_init(&arena, MEM_REQUESTS, 1 << 16, (size_t)256 << 20);
    const enum err err = bind_request(&arena, schema, body, bytes, &bound, &info);
    switch ((int)err) {
    case ERR_OK:
        ASSERT(bound.request != NULL);
        ASSERT(bound.ignored_count >= 0);
        break;
    case ERR_JSON:
        ASSERT(info.offset >= 0 && info.offset <= (int64_t)bytes);
        ASSERT(info.line >= 1 && info.column >= 1);
        break;
    default:
        ASSERT(err == ERR_INVALID || err == ERR_UNSUPPORTED_FIELD);
        ASSERT(info.where[0] == '/');
        break;
    }
    arena_drop(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    if (!ready) {
        json_in_init();
        ready = true;
    }
    for (int32_t i = 0; i < schema_request_count; i++) {
        run(schema_requests[i].schema, (const char *)data, size);
    }
    return 0;
}
