/*
 * Merges are kept by ids, not by strings: a hash from (left, right) to (rank, joined token). The
 * file must therefore name only tokens it has, which the reference tokenizers demand too.
 *
 * A byte for which the vocabulary has no token (SmolLM2 lacks some control characters) is left
 * out, and its neighbours become neighbours, as in the reference tokenizer, unless tokenizer.json
 * names an unknown token of the model. The unknown token that a GGUF file names is no way out: it
 * may be <|endoftext|>, and text must not be able to say that.
 */
#include "engine/text/bpe.h"

#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/base/utf8.h"
#include "engine/text/encoding.h"
#include "engine/text/vocab.h"

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
    hash = (hash ^ (hash >> 31)) * bpe->multiplier;
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

/* The halves of a merge, and the two in one. */
struct merge_line {
    struct bpe_halves halves;
    size_t joined_count;
    char joined[2 * VOCAB_PIECE_BYTES_MAX];
};

static bool read_line(const struct bpe_merges *merges, size_t index, struct merge_line *out)
{
    struct bpe_halves *halves = &out->halves;
    if (!merges->get(merges->context, index, halves) ||
        halves->left_count > VOCAB_PIECE_BYTES_MAX || halves->right_count > VOCAB_PIECE_BYTES_MAX) {
        return false;
    }
    out->joined_count = halves->left_count + halves->right_count;
    memcpy(out->joined, halves->left, halves->left_count);
    memcpy(out->joined + halves->left_count, halves->right, halves->right_count);
    return true;
}

enum { BLOCK = 16 }; /* lines whose memory is fetched together: the tables do not fit the cache */

struct merge_block {
    const struct bpe_merges *merges;
    size_t first, count; /* lines [first, first + count) of the list */
    uint64_t hashes[BLOCK][3];
    struct bpe_pair pairs[BLOCK];
};

static enum err bad_line(
    const struct merge_block *block, size_t i, const char *what, struct err_info *info)
{
    return err_set(info, ERR_FORMAT, block->merges->where, "merge %zu %s", block->first + i, what);
}

static enum err prepare_block(
    struct merge_block *block, const struct pieces *stored, struct err_info *info)
{
    struct merge_line line;
    for (size_t i = 0; i < block->count; i++) {
        if (!read_line(block->merges, block->first + i, &line)) {
            return bad_line(block, i, "is not two tokens and a space", info);
        }
        const struct bpe_halves *halves = &line.halves;
        block->hashes[i][0] = pieces_prepare(stored, halves->left, halves->left_count);
        block->hashes[i][1] = pieces_prepare(stored, halves->right, halves->right_count);
        block->hashes[i][2] = pieces_prepare(stored, line.joined, line.joined_count);
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
        if (!read_line(block->merges, block->first + i, &line)) {
            return bad_line(block, i, "is not two tokens and a space", info);
        }
        const struct bpe_halves *halves = &line.halves;
        pair->rank = (uint32_t)(block->first + i);
        pair->left = pieces_find_prepared(stored, hashes[0], halves->left, halves->left_count);
        pair->right = pieces_find_prepared(stored, hashes[1], halves->right, halves->right_count);
        pair->joined = pieces_find_prepared(stored, hashes[2], line.joined, line.joined_count);
        if (pair->left < 0 || pair->right < 0 || pair->joined < 0) {
            return bad_line(block, i, "is not of tokens of this file", info);
        }
        if (vocab_is_control(vocab, pair->joined)) {
            return bad_line(block, i, "gives a control token", info);
        }
        __builtin_prefetch(home_of(bpe, pair->left, pair->right), 1);
    }
    return ERR_OK;
}

static enum err read_merges(struct bpe *bpe, const struct vocab *vocab,
    const struct bpe_merges *merges, struct err_info *info)
{
    if (merges->count > MERGES_MAX) {
        return err_set(info, ERR_FORMAT, merges->where, "%zu merges; at most %d are supported",
            merges->count, MERGES_MAX);
    }
    size_t slot_count = 16;
    while (slot_count * 5 < merges->count * 8) { /* at most 5/8 full */
        slot_count *= 2;
    }
    bpe->pairs = mem_array(MEM_TOKENIZER, slot_count, sizeof(*bpe->pairs));
    if (bpe->pairs == NULL) {
        return err_set(
            info, ERR_NO_MEMORY, merges->where, "no memory for %zu merges", merges->count);
    }
    bpe->pair_mask = slot_count - 1;
    bpe->multiplier = rng_entropy() | 1; /* by lot, as in trie.c */
    for (size_t i = 0; i < slot_count; i++) {
        bpe->pairs[i].left = -1;
    }
    struct merge_block block = {.merges = merges};
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

enum err bpe_set_merges(struct bpe *bpe, const struct vocab *vocab, const struct bpe_merges *merges,
    struct err_info *info)
{
    enum err err = read_merges(bpe, vocab, merges, info);
    if (err != ERR_OK) {
        bpe_free(bpe);
    }
    return err;
}

/* "left right". The first letter may itself be a space in files without the byte alphabet. */
static bool split_line(const void *context, size_t index, struct bpe_halves *out)
{
    const struct gguf_string *line = (const struct gguf_string *)context + index;
    const char *space = line->count < 2 ? NULL : memchr(line->bytes + 1, ' ', line->count - 1);
    if (space == NULL) {
        return false;
    }
    out->left = line->bytes;
    out->left_count = (size_t)(space - line->bytes);
    out->right = space + 1;
    out->right_count = line->count - out->left_count - 1;
    return true;
}

enum err bpe_load(
    struct bpe *bpe, const struct vocab *vocab, const struct gguf *gguf, struct err_info *info)
{
    memset(bpe, 0, sizeof(*bpe));
    bpe->unknown = -1;
    struct gguf_array lines = {0};
    enum err err = gguf_get_array(gguf, MERGES_KEY, true, GGUF_STRING, &lines, info);
    if (err != ERR_OK) {
        return err;
    }
    struct bpe_merges merges = {split_line, lines.strings, lines.count, MERGES_KEY};
    return bpe_set_merges(bpe, vocab, &merges, info);
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

/* Links a symbol behind *tail; offsets are bytes of the word. */
static void add_symbol(
    struct merge_symbol *symbols, int32_t at, int32_t id, int32_t *head, int32_t *tail)
{
    symbols[at] = (struct merge_symbol){.previous = *tail, .next = -1, .id = id};
    if (*tail >= 0) {
        symbols[*tail].next = at;
    } else {
        *head = at;
    }
    *tail = at;
}

/* One symbol a byte; returns the first, -1 when there is none. */
static int32_t fill_bytes(const struct bpe *bpe, const struct vocab *vocab,
    struct merge_symbol *symbols, const char *word, size_t bytes)
{
    int32_t head = -1;
    int32_t tail = -1;
    bool after_unknown = false;
    for (int32_t at = 0; at < (int32_t)bytes; at++) {
        int32_t id = vocab->byte_ids[(unsigned char)word[at]];
        bool known = id >= 0;
        if (!known && !(bpe->fuse_unknown && after_unknown)) {
            id = bpe->unknown;
        }
        if (id >= 0) {
            add_symbol(symbols, at, id, &head, &tail);
        }
        after_unknown = !known;
    }
    return head;
}

/* One symbol a character, or one a byte of a character that has no token. */
static int32_t fill_characters(const struct bpe *bpe, const struct vocab *vocab,
    struct merge_symbol *symbols, const char *word, size_t bytes)
{
    int32_t head = -1;
    int32_t tail = -1;
    bool after_unknown = false;
    int32_t length;
    for (int32_t at = 0; at < (int32_t)bytes; at += length) {
        int32_t code_point;
        length = utf8_decode(word + at, bytes - (size_t)at, &code_point);
        int32_t id = pieces_find(&vocab->stored, word + at, (size_t)length);
        bool known = id >= 0 && (vocab->flags[id] & VOCAB_SPELLABLE) != 0;
        if (known) {
            add_symbol(symbols, at, id, &head, &tail);
        } else if (vocab->byte_fallback) {
            for (int32_t i = 0; i < length; i++) {
                int32_t byte = vocab->byte_ids[(unsigned char)word[at + i]];
                add_symbol(symbols, at + i, byte, &head, &tail);
            }
        } else if (bpe->unknown >= 0 && !(bpe->fuse_unknown && after_unknown)) {
            add_symbol(symbols, at, bpe->unknown, &head, &tail);
        }
        after_unknown = !known;
    }
    return head;
}

/* The token a whole word is, -1 for none. */
static int32_t find_whole(const struct vocab *vocab, const char *word, size_t bytes)
{
    if (vocab->model == VOCAB_BYTE_BPE) {
        return pieces_find(&vocab->text, word, bytes);
    }
    int32_t id = pieces_find(&vocab->stored, word, bytes);
    return id >= 0 && (vocab->flags[id] & VOCAB_SPELLABLE) != 0 ? id : -1;
}

enum err bpe_encode(const struct bpe *bpe, const struct vocab *vocab, struct encoding *encoding,
    const char *text, size_t from, size_t to)
{
    const char *word = text + from;
    size_t bytes = to - from;
    int32_t whole = bpe->whole_first ? find_whole(vocab, word, bytes) : -1;
    if (whole >= 0) {
        return encoding_add(encoding, whole, from, to);
    }
    enum err err = merge_reserve(&encoding->merger, bytes, encoding->info);
    if (err != ERR_OK) {
        return err;
    }
    struct merge_symbol *symbols = encoding->merger.symbols;
    int32_t head = vocab->model == VOCAB_BYTE_BPE
                       ? fill_bytes(bpe, vocab, symbols, word, bytes)
                       : fill_characters(bpe, vocab, symbols, word, bytes);
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
