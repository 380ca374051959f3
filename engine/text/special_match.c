/*
 * Where special tokens stand in a text: their spellings are sorted, so that the longest one at a
 * place is found by narrowing a range byte by byte.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/text/char_class.h"
#include "engine/text/encoding.h"
#include "engine/text/normalizer.h"
#include "engine/text/special.h"
#include "engine/text/vocab.h"

/* Equal spellings by falling id, so that the one tokenizer_find gives comes first. */
static int compare_entries(const void *left, const void *right)
{
    const struct special_entry *a = left;
    const struct special_entry *b = right;
    int order = memcmp(a->bytes, b->bytes, MIN(a->count, b->count));
    if (order != 0) {
        return order;
    }
    if (a->count != b->count) {
        return a->count < b->count ? -1 : 1;
    }
    return a->id > b->id ? -1 : 1;
}

static bool is_matched(const struct vocab *vocab, int32_t id)
{
    return vocab_is_control(vocab, id) || vocab->types[id] == TOKEN_TYPE_USER;
}

static uint8_t rules_of(const uint8_t *rules, int32_t id)
{
    return rules == NULL ? 0 : rules[id];
}

/* Whether a token is of the set, and its own spelling. With rules the file is tokenizer.json, where
 * such a token is as it is stored. */
static bool in_set(const struct vocab *vocab, const uint8_t *rules, bool normalized, int32_t id,
    const char **out_spelling, size_t *out_bytes)
{
    const struct pieces *pieces = rules != NULL ? &vocab->stored : &vocab->text;
    *out_spelling = pieces_get(pieces, id, out_bytes);
    return ((rules_of(rules, id) & SPECIAL_NORMALIZED) != 0) == normalized &&
           is_matched(vocab, id) && utf8_valid(*out_spelling, *out_bytes);
}

static enum err collect(struct special_matcher *matcher, const struct vocab *vocab,
    const uint8_t *rules, bool normalized, struct err_info *info)
{
    const char *spelling;
    size_t bytes;
    int32_t count = 0;
    for (int32_t id = 0; id < vocab->count; id++) {
        count += in_set(vocab, rules, normalized, id, &spelling, &bytes);
    }
    matcher->entries = mem_array(MEM_TOKENIZER, (size_t)count, sizeof(struct special_entry));
    if (matcher->entries == NULL) {
        return err_set(info, ERR_NO_MEMORY, NULL, "no memory for %d special tokens", count);
    }
    matcher->capacity = count;
    for (int32_t id = 0; id < vocab->count; id++) {
        if (in_set(vocab, rules, normalized, id, &spelling, &bytes)) {
            matcher->entries[matcher->count++] =
                (struct special_entry){spelling, (uint32_t)bytes, id, rules_of(rules, id)};
        }
    }
    return ERR_OK;
}

/* Replaces the spellings by what the normalizer makes of them; one that becomes nothing is never
 * found. */
static enum err normalize_entries(
    struct special_matcher *matcher, const struct normalizer *normalizer, struct err_info *info)
{
    struct encoding encoding = {.info = info};
    size_t total = 0;
    enum err err = ERR_OK;
    int32_t kept = 0;
    for (int32_t pass = 0; pass < 2 && err == ERR_OK; pass++) { /* count, then copy */
        size_t used = 0;
        kept = 0;
        for (int32_t i = 0; i < matcher->count && err == ERR_OK; i++) {
            struct special_entry entry = matcher->entries[i];
            const char *text = entry.bytes;
            size_t bytes = entry.count;
            encoding_bound(&encoding, bytes);
            err = normalizer_apply(normalizer, &encoding, true, &text, &bytes);
            if (err == ERR_OK && pass == 0) {
                total += bytes;
            } else if (err == ERR_OK && bytes > 0) {
                entry.bytes = matcher->normalized + used;
                entry.count = (uint32_t)bytes;
                memcpy(matcher->normalized + used, text, bytes);
                matcher->entries[kept++] = entry;
                used += bytes;
            }
        }
        if (err == ERR_OK && pass == 0) {
            matcher->normalized = mem_alloc(MEM_TOKENIZER, total);
            matcher->normalized_bytes = total;
            err = matcher->normalized == NULL
                      ? err_set(info, ERR_NO_MEMORY, NULL, "no memory for special tokens")
                      : ERR_OK;
        }
    }
    matcher->count = kept;
    encoding_free(&encoding);
    return err == ERR_LIMIT ? err_set(info, err, "tokenizer.json#/added_tokens",
                                  "the normalizer makes too much of a token")
                            : err;
}

static void index_entries(struct special_matcher *matcher, const struct vocab *vocab)
{
    qsort(matcher->entries, (size_t)matcher->count, sizeof(struct special_entry), compare_entries);
    for (int32_t i = 0; i < matcher->count; i++) {
        const struct special_entry *entry = &matcher->entries[i];
        if (!vocab_is_control(vocab, entry->id)) {
            matcher->starts_user[(unsigned char)entry->bytes[0]] = true;
        }
    }
    for (int32_t byte = 0, at = 0; byte <= 256; byte++) {
        while (at < matcher->count && (unsigned char)matcher->entries[at].bytes[0] < byte) {
            at++;
        }
        matcher->first[byte] = at;
    }
}

enum err special_matcher_init(struct special_matcher *matcher, const struct vocab *vocab,
    const uint8_t *rules, const struct normalizer *normalizer, struct err_info *info)
{
    memset(matcher, 0, sizeof(*matcher));
    enum err err = collect(matcher, vocab, rules, normalizer != NULL, info);
    if (err == ERR_OK && normalizer != NULL) {
        err = normalize_entries(matcher, normalizer, info);
    }
    if (err != ERR_OK) {
        special_matcher_free(matcher);
        return err;
    }
    index_entries(matcher, vocab);
    return ERR_OK;
}

void special_matcher_free(struct special_matcher *matcher)
{
    mem_free(matcher->entries);
    mem_free(matcher->normalized);
    memset(matcher, 0, sizeof(*matcher));
}

size_t special_matcher_memory(const struct special_matcher *matcher)
{
    return (size_t)matcher->capacity * sizeof(*matcher->entries) + matcher->normalized_bytes;
}

/* First entry in [low, high) whose byte `depth` is at least `byte`; all of them are longer than
 * `depth` and agree before it. */
static int32_t lower_bound(
    const struct special_matcher *matcher, int32_t low, int32_t high, uint32_t depth, int32_t byte)
{
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if ((unsigned char)matcher->entries[middle].bytes[depth] < byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Longest spelling at the start of text[0..bytes), NULL for none: narrows the sorted range byte by
 * byte. The entries that end at the current depth stand in front of those that go on. */
static const struct special_entry *match_here(const struct special_matcher *matcher,
    const struct vocab *vocab, const char *text, size_t bytes, bool control)
{
    int32_t low = matcher->first[(unsigned char)text[0]];
    int32_t high = matcher->first[(unsigned char)text[0] + 1];
    const struct special_entry *found = NULL;
    for (uint32_t depth = 1; low < high; depth++) {
        for (; low < high && matcher->entries[low].count == depth; low++) {
            bool allowed = control || !vocab_is_control(vocab, matcher->entries[low].id);
            if (allowed && !(found != NULL && found->count == depth)) {
                found = &matcher->entries[low];
            }
        }
        if (depth >= bytes) {
            break;
        }
        unsigned char byte = (unsigned char)text[depth];
        low = lower_bound(matcher, low, high, depth, byte);
        high = lower_bound(matcher, low, high, depth, byte + 1);
    }
    return found;
}

/* The character that ends before `at`; moves *at to its start. */
static int32_t character_before(const char *text, size_t *at)
{
    size_t end = *at;
    int32_t code_point;
    do {
        (*at)--;
    } while (*at > 0 && (text[*at] & 0xC0) == 0x80);
    (void)utf8_decode(text + *at, end - *at, &code_point);
    return code_point;
}

static bool stands_alone(const char *text, size_t bytes, size_t from, size_t to)
{
    int32_t code_point = ' ';
    if (to < bytes) {
        (void)utf8_decode(text + to, bytes - to, &code_point);
    }
    return !char_is_word(code_point) && (from == 0 || !char_is_word(character_before(text, &from)));
}

/* Lets a match take along the blanks beside it, on the left not past `from`. */
static void strip_blanks(
    uint8_t rules, const char *text, size_t bytes, size_t from, struct special_match *match)
{
    size_t end = match->at + match->count;
    size_t start = match->at;
    if ((rules & SPECIAL_RIGHT_STRIP) != 0) {
        end = MAX(end, from); /* up to there the match before has seen blanks only */
    }
    while ((rules & SPECIAL_LEFT_STRIP) != 0 && start > from &&
           char_is_space(character_before(text, &start))) {
        match->at = start;
    }
    while ((rules & SPECIAL_RIGHT_STRIP) != 0 && end < bytes) {
        int32_t code_point;
        size_t length = (size_t)utf8_decode(text + end, bytes - end, &code_point);
        if (!char_is_space(code_point)) {
            break;
        }
        end += length;
    }
    match->count = end - match->at;
}

/* The longest token at `at` whose bytes it may take. *own_end is where those that control tokens
 * may take end, kept from place to place. */
static const struct special_entry *match_text(const struct special_matcher *matcher,
    const struct vocab *vocab, const struct special_text *text, size_t at, size_t *own_end)
{
    const char *here = text->bytes + at;
    if (!text->control || text->foreign == NULL) {
        return match_here(matcher, vocab, here, text->count - at, text->control);
    }
    if (at >= *own_end) {
        const uint8_t *end = memchr(text->foreign + at, 1, text->count - at);
        *own_end = end == NULL ? text->count : (size_t)(end - text->foreign);
    }
    const struct special_entry *any =
        *own_end > at ? match_here(matcher, vocab, here, *own_end - at, true) : NULL;
    const struct special_entry *user = match_here(matcher, vocab, here, text->count - at, false);
    return any == NULL || (user != NULL && user->count > any->count) ? user : any;
}

bool special_next(const struct special_matcher *matcher, const struct vocab *vocab,
    const struct special_text *text, size_t from, size_t resume, struct special_match *out_match)
{
    size_t own_end = 0;
    for (size_t at = resume; at < text->count; at++) {
        unsigned char byte = (unsigned char)text->bytes[at];
        bool possible = text->control ? matcher->first[byte] < matcher->first[byte + 1]
                                      : matcher->starts_user[byte];
        const struct special_entry *entry =
            possible ? match_text(matcher, vocab, text, at, &own_end) : NULL;
        if (entry == NULL) {
            continue;
        }
        if ((entry->rules & SPECIAL_SINGLE_WORD) != 0 &&
            !stands_alone(text->bytes, text->count, at, at + entry->count)) {
            at += entry->count - 1;
            continue;
        }
        struct special_match match = {
            .at = at, .count = entry->count, .resume = at + entry->count, .id = entry->id};
        strip_blanks(entry->rules, text->bytes, text->count, from, &match);
        *out_match = match;
        return true;
    }
    return false;
}
