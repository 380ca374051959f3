/*
 * Merges are kept by ids, not by strings: a hash from (left, right) to (rank, joined token). The
 * file must therefore name only tokens it has, which the reference tokenizers demand too.
 *
 * A byte for which the vocabulary has no token (SmolLM2 lacks some control characters) is left
 * out, and its neighbours become neighbours, as in the reference tokenizer. The file's unknown
 * token is no way out: there it is <|endoftext|>, and text must not be able to say that.
 */
#include "engine/text/bpe.h"

#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/text/encoding.h"
#include "engine/text/vocab.h"

static const char PRE_KEY[] = "tokenizer.ggml.pre";
static const char MERGES_KEY[] = "tokenizer.ggml.merges";

struct bpe_pair {
    int32_t left, right; /* left = -1: empty */
    int32_t joined;
    uint32_t rank;
};

enum { MERGES_MAX = 1 << 24 };

static struct bpe_pair *home_of(const struct bpe *bpe, int32_t left, int32_t right)
{
    uint64_t hash = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right);
    hash = (hash ^ (hash >> 31)) * UINT64_C(0x9E3779B97F4A7C15);
    return &bpe->pairs[(hash >> 32) & bpe->pair_mask];
}

/* The slot of the pair, or the empty one where it belongs. */
static struct bpe_pair *slot_of(const struct bpe *bpe, int32_t left, int32_t right)
{
    struct bpe_pair *pair = home_of(bpe, left, right);
    while (pair->left >= 0 && (pair->left != left || pair->right != right)) {
        pair = pair == &bpe->pairs[bpe->pair_mask] ? bpe->pairs : pair + 1;
    }
    return pair;
}

/* ---- loading -------------------------------------------------------------------------------- */

/* One line of the list: "left right", and the two in one. */
struct merge_line {
    const char *left, *right;
    size_t left_count, right_count;
    char joined[2 * VOCAB_PIECE_BYTES_MAX];
};

static bool split_line(const struct gguf_string *line, struct merge_line *out)
{
    /* The first letter may itself be a space in files that do not use the byte alphabet. */
    const char *space = line->count < 2 ? NULL : memchr(line->bytes + 1, ' ', line->count - 1);
    if (space == NULL || line->count > sizeof(out->joined)) {
        return false;
    }
    out->left = line->bytes;
    out->left_count = (size_t)(space - line->bytes);
    out->right = space + 1;
    out->right_count = line->count - out->left_count - 1;
    memcpy(out->joined, out->left, out->left_count);
    memcpy(out->joined + out->left_count, out->right, out->right_count);
    return true;
}

enum { BLOCK = 16 }; /* lines whose memory is fetched together: the tables do not fit the cache */

struct merge_block {
    const struct gguf_string *lines;
    size_t first, count; /* lines [first, first + count) of the list */
    uint64_t hashes[BLOCK][3];
    struct bpe_pair pairs[BLOCK];
};

static enum err bad_line(const char *what, size_t number, struct err_info *info)
{
    return err_set(info, ERR_FORMAT, MERGES_KEY, "merge %zu %s", number, what);
}

static enum err prepare_block(
    struct merge_block *block, const struct pieces *stored, struct err_info *info)
{
    struct merge_line line;
    for (size_t i = 0; i < block->count; i++) {
        if (!split_line(&block->lines[block->first + i], &line)) {
            return bad_line("is not two tokens and a space", block->first + i, info);
        }
        block->hashes[i][0] = pieces_prepare(stored, line.left, line.left_count);
        block->hashes[i][1] = pieces_prepare(stored, line.right, line.right_count);
        block->hashes[i][2] =
            pieces_prepare(stored, line.joined, line.left_count + line.right_count);
    }
    return ERR_OK;
}

static enum err resolve_block(struct merge_block *block, const struct bpe *bpe,
    const struct vocab *vocab, struct err_info *info)
{
    const struct pieces *stored = &vocab->stored;
    struct merge_line line;
    for (size_t i = 0; i < block->count; i++) {
        const uint64_t *hashes = block->hashes[i];
        struct bpe_pair *pair = &block->pairs[i];
        if (!split_line(&block->lines[block->first + i], &line)) {
            return bad_line("is not two tokens and a space", block->first + i, info);
        }
        pair->rank = (uint32_t)(block->first + i);
        pair->left = pieces_find_prepared(stored, hashes[0], line.left, line.left_count);
        pair->right = pieces_find_prepared(stored, hashes[1], line.right, line.right_count);
        pair->joined = pieces_find_prepared(
            stored, hashes[2], line.joined, line.left_count + line.right_count);
        if (pair->left < 0 || pair->right < 0 || pair->joined < 0) {
            return bad_line("is not of tokens of this file", block->first + i, info);
        }
        if (vocab_is_control(vocab, pair->joined)) {
            return bad_line("gives a control token", block->first + i, info);
        }
        __builtin_prefetch(home_of(bpe, pair->left, pair->right), 1);
    }
    return ERR_OK;
}

static enum err read_merges(struct bpe *bpe, const struct vocab *vocab,
    const struct gguf_array *merges, struct err_info *info)
{
    size_t slot_count = 16;
    while (slot_count * 5 < merges->count * 8) { /* at most 5/8 full */
        slot_count *= 2;
    }
    bpe->pairs = mem_array(MEM_TOKENIZER, slot_count, sizeof(*bpe->pairs));
    if (bpe->pairs == NULL) {
        return err_set(info, ERR_NO_MEMORY, MERGES_KEY, "no memory for %zu merges", merges->count);
    }
    bpe->pair_mask = slot_count - 1;
    for (size_t i = 0; i < slot_count; i++) {
        bpe->pairs[i].left = -1;
    }
    struct merge_block block = {.lines = merges->strings};
    for (; block.first < merges->count; block.first += block.count) {
        block.count = MIN((size_t)BLOCK, merges->count - block.first);
        enum err err = prepare_block(&block, &vocab->stored, info);
        if (err != ERR_OK || (err = resolve_block(&block, bpe, vocab, info)) != ERR_OK) {
            return err;
        }
        for (size_t i = 0; i < block.count; i++) {
            struct bpe_pair *slot = slot_of(bpe, block.pairs[i].left, block.pairs[i].right);
            if (slot->left < 0) { /* of equal merges the first counts */
                *slot = block.pairs[i];
            }
        }
    }
    return ERR_OK;
}

enum err bpe_load(
    struct bpe *bpe, const struct vocab *vocab, const struct gguf *gguf, struct err_info *info)
{
    memset(bpe, 0, sizeof(*bpe));
    struct gguf_string pre = {0};
    enum err err = gguf_get_string(gguf, PRE_KEY, true, &pre, info);
    if (err != ERR_OK) {
        return err;
    }
    if (!pretokenize_find(pre.bytes, pre.count, &bpe->pretokenizer)) {
        return err_set(info, ERR_UNSUPPORTED, PRE_KEY, "pre-tokenizer \"%.*s\" is not supported",
            (int)MIN(pre.count, (size_t)64), pre.bytes);
    }
    bpe->whole_first = bpe->pretokenizer == PRETOKENIZER_LLAMA_BPE;
    bpe->nfc = bpe->pretokenizer == PRETOKENIZER_QWEN2;
    struct gguf_array merges = {0};
    if ((err = gguf_get_array(gguf, MERGES_KEY, true, GGUF_STRING, &merges, info)) != ERR_OK) {
        return err;
    }
    if (merges.count > MERGES_MAX) {
        return err_set(info, ERR_FORMAT, MERGES_KEY, "%zu merges; at most %d are supported",
            merges.count, MERGES_MAX);
    }
    if ((err = read_merges(bpe, vocab, &merges, info)) != ERR_OK) {
        bpe_free(bpe);
    }
    return err;
}

void bpe_free(struct bpe *bpe)
{
    mem_free(bpe->pairs);
    memset(bpe, 0, sizeof(*bpe));
}

size_t bpe_memory(const struct bpe *bpe)
{
    return bpe->pairs == NULL ? 0 : (bpe->pair_mask + 1) * sizeof(*bpe->pairs);
}

/* ---- encoding ------------------------------------------------------------------------------- */

static uint32_t rank_of(
    const void *context, const struct merger *merger, int32_t left, int32_t right, int32_t *out_id)
{
    const struct bpe *bpe = context;
    const struct bpe_pair *pair = slot_of(bpe, merger->symbols[left].id, merger->symbols[right].id);
    if (pair->left < 0) {
        return MERGE_NONE;
    }
    *out_id = pair->joined;
    return pair->rank;
}

/* One symbol a byte; returns the first, -1 when no byte has a token. */
static int32_t fill_symbols(
    const struct vocab *vocab, struct merge_symbol *symbols, const char *word, size_t bytes)
{
    int32_t head = -1;
    int32_t previous = -1;
    for (int32_t at = 0; at < (int32_t)bytes; at++) {
        int32_t id = vocab->byte_ids[(unsigned char)word[at]];
        if (id < 0) {
            continue;
        }
        symbols[at] = (struct merge_symbol){.previous = previous, .next = -1, .id = id};
        if (previous >= 0) {
            symbols[previous].next = at;
        } else {
            head = at;
        }
        previous = at;
    }
    return head;
}

/* Word at [from, to) of the text. */
static enum err encode_word(const struct bpe *bpe, const struct vocab *vocab,
    struct encoding *encoding, const char *text, size_t from, size_t to)
{
    const char *word = text + from;
    size_t bytes = to - from;
    int32_t whole = bpe->whole_first ? pieces_find(&vocab->text, word, bytes) : -1;
    if (whole >= 0) {
        return encoding_add(encoding, whole, from, to);
    }
    enum err err = merge_reserve(&encoding->merger, bytes, encoding->info);
    if (err != ERR_OK) {
        return err;
    }
    struct merge_symbol *symbols = encoding->merger.symbols;
    int32_t head = fill_symbols(vocab, symbols, word, bytes);
    merge_run(&encoding->merger, head, rank_of, bpe);
    for (int32_t at = head; at >= 0; at = symbols[at].next) {
        size_t end = symbols[at].next < 0 ? bytes : (size_t)symbols[at].next;
        err = encoding_add(encoding, symbols[at].id, from + (size_t)at, from + end);
        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
}

enum err bpe_encode(const struct bpe *bpe, const struct vocab *vocab, struct encoding *encoding,
    const char *text, size_t bytes)
{
    if (bpe->nfc && !normal_is_nfc_plain(text, bytes)) {
        normal_clear(&encoding->normal);
        enum err err = normal_append_nfc(&encoding->normal, text, bytes, encoding->info);
        if (err != ERR_OK) {
            return err;
        }
        encoding->is_mapped = encoding->with_spans;
        text = encoding->normal.bytes;
        bytes = encoding->normal.count;
    }
    for (size_t from = 0; from < bytes;) {
        size_t to = pretokenize_next(bpe->pretokenizer, text, bytes, from);
        enum err err = encode_word(bpe, vocab, encoding, text, from, to);
        if (err != ERR_OK) {
            return err;
        }
        from = to;
    }
    return ERR_OK;
}
