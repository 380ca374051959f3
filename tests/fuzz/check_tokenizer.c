/* See check_tokenizer.h. */
#include "tests/fuzz/check_tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"

static void check_tokens(const struct tokenizer *tokenizer)
{
    for (int32_t id = 0; id < tokenizer_vocab(tokenizer); id++) {
        size_t bytes;
        (void)tokenizer_piece(tokenizer, id, true, &bytes);
        ASSERT(bytes >= 1 && 3 * bytes <= detokenizer_bound(tokenizer));
        ASSERT(tokenizer_stored_piece(tokenizer, id) != NULL);
    }
    for (int32_t which = 0; which < TOKEN_SPECIAL_COUNT; which++) {
        int32_t id = tokenizer_special(tokenizer, (enum token_special)which);
        ASSERT(id >= -1 && id < tokenizer_vocab(tokenizer));
    }
    int32_t ends[LIMIT_END_TOKENS];
    ASSERT(tokenizer_ends(tokenizer, ends) <= LIMIT_END_TOKENS);
}

static void check_text(const struct tokenizer *tokenizer)
{
    static const char text[] = " ab abab <s>a</s> e\xCC\x81\xE2\x96\x81\n\n123 "
                               "\xEF\xAC\x81\xE4\xB8\x80\xC4\xB0\xEF\xBD\xB6\xEF\xBE\x9E's!";
    struct token_list list;
    int32_t(*spans)[2] = NULL;
    token_list_init(&list, 1000);
    enum err err = tokenizer_encode_spans(
        tokenizer, text, sizeof(text) - 1, TOKENIZE_SPECIAL | TOKENIZE_ADD, &list, &spans, NULL);
    /* The limits are those of growth in the file's chains, and of the list. */
    ASSERT(err == ERR_OK || err == ERR_TOKENIZER || err == ERR_LIMIT);
    struct detokenizer d;
    size_t bound = detokenizer_bound(tokenizer);
    char *out = malloc(bound);
    ASSERT(out != NULL);
    detokenizer_init(&d, tokenizer, false, false);
    for (int32_t i = 0; i < list.count; i++) {
        ASSERT(list.ids[i] >= 0 && list.ids[i] < tokenizer_vocab(tokenizer));
        ASSERT(detokenizer_push(&d, list.ids[i], out, bound) <= bound);
    }
    free(out);
    mem_free(spans);
    token_list_free(&list);
}

void check_tokenizer(const struct tokenizer *tokenizer)
{
    check_tokens(tokenizer);
    check_text(tokenizer);
}
