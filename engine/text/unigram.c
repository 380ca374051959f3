/*
 * The best way to every border of characters, from left to right; of equal ones that whose last
 * piece starts first, as in both reference implementations. Over a run of equal characters the sums
 * of many ways differ in rounding alone, so it matters that they are rounded as there: to float in
 * SentencePiece, to double in the readers of tokenizer.json.
 */
#include "engine/text/unigram.h"

#include <math.h>
#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/text/encoding.h"
#include "engine/text/vocab.h"

/* What an unknown character costs more than the worst piece, in both references. */
static const double UNKNOWN_PENALTY = 10.0;

struct unigram_way {
    double score;
    int32_t from; /* where its last piece starts; then, on the way back, where the next one ends */
    int32_t id;   /* of that piece, -1 = unknown */
};

enum { NOT_REACHED = -1 };

enum err unigram_load(struct unigram *unigram, const struct vocab *vocab, double *scores,
    int32_t unknown, const char *where, struct err_info *info)
{
    memset(unigram, 0, sizeof(*unigram));
    unigram->scores = scores;
    unigram->unknown = unknown;
    enum err err = trie_init(&unigram->trie);
    double worst = INFINITY;
    for (int32_t id = 0; id < vocab->count && err == ERR_OK; id++) {
        size_t count;
        const char *piece = pieces_get(&vocab->stored, id, &count);
        if (vocab->flags[id] == VOCAB_SPELLABLE) {
            worst = fmin(worst, scores[id]);
            err = trie_add(&unigram->trie, piece, count, id);
        }
    }
    if (err != ERR_OK) {
        unigram_free(unigram);
        return err_set(info, err, where, "no room for the vocabulary");
    }
    unigram->unknown_score = (isinf(worst) ? 0 : worst) - UNKNOWN_PENALTY;
    return ERR_OK;
}

void unigram_free(struct unigram *unigram)
{
    trie_free(&unigram->trie);
    mem_free(unigram->scores);
    memset(unigram, 0, sizeof(*unigram));
}

size_t unigram_memory(const struct unigram *unigram, const struct vocab *vocab)
{
    size_t scores = unigram->scores == NULL ? 0 : (size_t)vocab->count * sizeof(*unigram->scores);
    return trie_memory(&unigram->trie) + scores;
}

static enum err reserve_ways(struct encoding *encoding, size_t count)
{
    if (count <= encoding->way_capacity) {
        return ERR_OK;
    }
    size_t capacity = MAX(count, 2 * encoding->way_capacity);
    void *ways = mem_grow(MEM_REQUESTS, encoding->ways, capacity * sizeof(*encoding->ways));
    if (ways == NULL) {
        return err_set(encoding->info, ERR_NO_MEMORY, NULL, "no memory for %zu ways", capacity);
    }
    encoding->ways = ways;
    encoding->way_capacity = capacity;
    return ERR_OK;
}

static double rounded(const struct unigram *unigram, double sum)
{
    return unigram->single ? (double)(float)sum : sum;
}

/* SentencePiece compares the sum before it rounds it. */
static void offer(
    const struct unigram *unigram, struct unigram_way *way, double score, int32_t from, int32_t id)
{
    if (way->from == NOT_REACHED || score > way->score) {
        *way = (struct unigram_way){rounded(unigram, score), from, id};
    }
}

static void find_ways(
    const struct unigram *unigram, struct unigram_way *ways, const char *word, size_t bytes)
{
    for (size_t i = 0; i <= bytes; i++) {
        ways[i].from = NOT_REACHED;
    }
    ways[0].score = 0;
    for (size_t at = 0; at < bytes;) {
        int32_t code_point;
        size_t length = (size_t)utf8_decode(word + at, bytes - at, &code_point);
        bool has_single = false;
        int32_t node = TRIE_ROOT;
        for (size_t end = at; end < bytes;) {
            node = trie_next(&unigram->trie, node, (unsigned char)word[end++]);
            if (node < 0) {
                break;
            }
            int32_t id = unigram->trie.ids[node];
            if (id >= 0) {
                double score = ways[at].score + unigram->scores[id];
                offer(unigram, &ways[end], score, (int32_t)at, id);
                has_single = has_single || end == at + length;
            }
        }
        if (!has_single) {
            double score = rounded(unigram, ways[at].score + unigram->unknown_score);
            offer(unigram, &ways[at + length], score, (int32_t)at, -1);
        }
        at += length;
    }
}

/* Turns the links of the best way around: afterwards ways[at] holds the piece that starts there and
 * its end in `from`. */
static void turn_links(struct unigram_way *ways, size_t bytes)
{
    int32_t end = (int32_t)bytes;
    int32_t at = ways[end].from;
    int32_t id = ways[end].id;
    while (end > 0) {
        int32_t before = ways[at].from;
        int32_t before_id = ways[at].id;
        ways[at].from = end;
        ways[at].id = id;
        end = at;
        at = before;
        id = before_id;
    }
}

static enum err add_unknown(const struct unigram *unigram, const struct vocab *vocab,
    struct encoding *encoding, const char *text, size_t from, size_t to)
{
    enum err err = ERR_OK;
    for (size_t at = from; vocab->byte_fallback && at < to && err == ERR_OK; at++) {
        err = encoding_add(encoding, vocab->byte_ids[(unsigned char)text[at]], at, at + 1);
    }
    if (vocab->byte_fallback) {
        return err;
    }
    if (unigram->unknown < 0) {
        return err_set(encoding->info, ERR_TOKENIZER, NULL,
            "the vocabulary cannot spell a character of the text");
    }
    return encoding_add(encoding, unigram->unknown, from, to);
}

enum err unigram_encode(const struct unigram *unigram, const struct vocab *vocab,
    struct encoding *encoding, const char *text, size_t from, size_t to)
{
    enum err err = reserve_ways(encoding, to - from + 1);
    if (err != ERR_OK) {
        return err;
    }
    struct unigram_way *ways = encoding->ways;
    find_ways(unigram, ways, text + from, to - from);
    turn_links(ways, to - from);
    for (size_t at = 0; at < to - from && err == ERR_OK;) {
        int32_t id = ways[at].id;
        size_t end = (size_t)ways[at].from;
        if (id >= 0) {
            err = encoding_add(encoding, id, from + at, from + end);
        } else { /* a run of unknown characters is one piece */
            while (end < to - from && ways[end].id < 0) {
                end = (size_t)ways[end].from;
            }
            err = add_unknown(unigram, vocab, encoding, text, from + at, from + end);
        }
        at = end;
    }
    return err;
}
