/* See wordpiece.h. One walk through the trie a piece, so a word costs what it has bytes, times the
 * longest piece at worst. */
#include "engine/text/wordpiece.h"

#include <string.h>

#include "engine/base/utf8.h"
#include "engine/text/encoding.h"
#include "engine/text/vocab.h"

enum err wordpiece_load(struct wordpiece *wordpiece, const struct vocab *vocab, int32_t unknown,
    size_t characters_max, const char *where, struct err_info *info)
{
    memset(wordpiece, 0, sizeof(*wordpiece));
    wordpiece->unknown = unknown;
    wordpiece->characters_max = characters_max;
    enum err err = trie_init(&wordpiece->trie);
    for (int32_t id = 0; id < vocab->count && err == ERR_OK; id++) {
        size_t count;
        const char *text = pieces_get(&vocab->text, id, &count);
        if (vocab->flags[id] == VOCAB_SPELLABLE) {
            err = trie_add(&wordpiece->trie, text, count, id);
        }
    }
    if (err != ERR_OK) {
        wordpiece_free(wordpiece);
        return err_set(info, err, where, "no room for the vocabulary");
    }
    wordpiece->begin = trie_next(&wordpiece->trie, TRIE_ROOT, ' ');
    return ERR_OK;
}

void wordpiece_free(struct wordpiece *wordpiece)
{
    trie_free(&wordpiece->trie);
    memset(wordpiece, 0, sizeof(*wordpiece));
}

size_t wordpiece_memory(const struct wordpiece *wordpiece)
{
    return trie_memory(&wordpiece->trie);
}

/* The longest piece that starts at `from`, behind `node`; its end through *out_end. -1 for none. */
static int32_t longest_at(const struct trie *trie, int32_t node, const char *text, size_t from,
    size_t to, size_t *out_end)
{
    int32_t found = -1;
    for (size_t at = from; node >= 0 && at < to; at++) {
        node = trie_next(trie, node, (unsigned char)text[at]);
        if (node >= 0 && trie->ids[node] >= 0) {
            found = trie->ids[node];
            *out_end = at + 1;
        }
    }
    return found;
}

static enum err add_unknown(
    const struct wordpiece *wordpiece, struct encoding *encoding, size_t from, size_t to)
{
    if (wordpiece->unknown < 0) {
        return err_set(encoding->info, ERR_TOKENIZER, NULL,
            "the vocabulary cannot spell a word of the text and has no unknown token");
    }
    return encoding_add(encoding, wordpiece->unknown, from, to);
}

enum err wordpiece_encode(const struct wordpiece *wordpiece, struct encoding *encoding,
    const char *text, size_t from, size_t to)
{
    if (to - from > wordpiece->characters_max &&
        utf8_length(text + from, to - from) > wordpiece->characters_max) {
        return add_unknown(wordpiece, encoding, from, to);
    }
    int32_t count_before = encoding->list->count;
    size_t spans_before = encoding->span_count;
    int32_t node = wordpiece->begin;
    for (size_t at = from; at < to;) {
        size_t end = at;
        int32_t id = longest_at(&wordpiece->trie, node, text, at, to, &end);
        if (id < 0) { /* what is out already belongs to a word that is none */
            encoding->list->count = count_before;
            encoding->span_count = spans_before;
            return add_unknown(wordpiece, encoding, from, to);
        }
        enum err err = encoding_add(encoding, id, at, end);
        if (err != ERR_OK) {
            return err;
        }
        node = TRIE_ROOT;
        at = end;
    }
    return ERR_OK;
}
