/*
 * Fuzz target: any bytes as a chat template. It is refused with a line, or renders a chat within
 * its bounds; and what the client wrote is marked wherever it comes out.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/template/chat_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A character for private use, which templates have no word for. */
static const char client_char[] = "\xEE\x9E\x99";

static const struct chat_text texts[] = {
    {" \xEE\x9E\x99 \xEE\x9E\x99", 8}, {"\xEE\x9E\x99\n\xEE\x9E\x99", 7}};
static const struct chat_message messages[] = {
    {.role = CHAT_SYSTEM, .texts = texts, .text_count = 1},
    {.role = CHAT_USER, .texts = texts, .text_count = 2, .parted = true},
    {.role = CHAT_ASSISTANT, .texts = texts, .text_count = 1},
    {.role = CHAT_USER, .texts = texts, .text_count = 1},
};

static void check(const struct rendered *rendered, bool own)
{
    for (size_t i = 0; i < rendered->count; i++) {
        ASSERT(rendered->foreign[i] <= 1);
        bool client = memcmp(rendered->bytes + i, client_char, 1) == 0 &&
                      i + 3 <= rendered->count && memcmp(rendered->bytes + i, client_char, 3) == 0;
        ASSERT(own || !client || rendered->foreign[i] == 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct chat_tokens tokens = {.bos = "<s>", .eos = "</s>"};
    const struct template_limits limits = {.steps = 20000, .output_bytes = 1 << 20};
    const struct chat chat = {
        .messages = messages, .count = 4, .add_generation_prompt = true, .now = 0};
    /* Its own, as bytes or as an escape: then its marks prove nothing. */
    bool own = size > 0 && (memchr(data, 0xEE, size) != NULL || memchr(data, '\\', size) != NULL);
    struct chat_template *template = NULL;
    struct err_info info = {0};
    struct arena arena;
    struct rendered rendered;
    if (chat_template_open((const char *)data, size, &tokens, &template, &info) != ERR_OK) {
        ASSERT(info.code == ERR_NO_MEMORY);
        return 0;
    }
    arena_init(&arena, MEM_OTHER, 4096, (size_t)16 << 20);
    enum err err = chat_template_render(template, &chat, &limits, &arena, &rendered, &info);
    if (err == ERR_OK) {
        check(&rendered, own);
    } else {
        ASSERT(info.text[0] != '\0' || err == ERR_INVALID); /* a template may raise nothing */
        ASSERT(err != ERR_NOT_CAPABLE || strstr(info.text, "line ") != NULL);
    }
    arena_drop(&arena);
    chat_template_close(template);
    return 0;
}
