/*
 * Words are a list of offsets, and each step makes the next list. Only the two kinds of step that
 * put something into the text copy it.
 */
#include "engine/text/splitter.h"

#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/utf8.h"
#include "engine/text/char_class.h"
#include "engine/text/encoding.h"

static const char SPACE_MARK[] = "\u2581"; /* U+2581 */
enum { SPACE_MARK_BYTES = sizeof(SPACE_MARK) - 1 };

/* One step over one word. */
struct word_cutter {
    const struct split_step *step;
    const char *text;
    struct cuts *out;
    struct err_info *info;
    bool any;         /* a piece of this word is out */
    bool after_match; /* and it was a match */
};

/* ---- matches -------------------------------------------------------------------------------- */

static bool is_match(enum split_match match, int32_t code_point)
{
    switch ((int)match) {
    case SPLIT_MATCH_SPACE:
        return char_is_space(code_point);
    case SPLIT_MATCH_PUNCTUATION:
        return char_is_punctuation(code_point);
    default:
        return char_is_number(code_point);
    }
}

enum word_class { CLASS_BLANK, CLASS_WORD, CLASS_SIGN };

static enum word_class word_class_of(int32_t code_point)
{
    if (char_is_word(code_point)) {
        return CLASS_WORD;
    }
    return char_is_space(code_point) ? CLASS_BLANK : CLASS_SIGN;
}

/* End of the run of the class of the character at `at`, and whether it matches. */
static size_t run_of_words(const char *text, size_t at, size_t to, bool *out_match)
{
    int32_t code_point;
    size_t length = (size_t)utf8_decode(text + at, to - at, &code_point);
    enum word_class class = word_class_of(code_point);
    *out_match = class != CLASS_BLANK;
    do {
        at += length;
        if (at < to) {
            length = (size_t)utf8_decode(text + at, to - at, &code_point);
        }
    } while (at < to && word_class_of(code_point) == class);
    return at;
}

static size_t literal_end(
    const struct split_step *step, const char *text, size_t at, size_t to, bool *out_match)
{
    const char *found = memmem(text + at, to - at, step->literal, step->literal_count);
    *out_match = found == text + at;
    if (*out_match) {
        return at + step->literal_count;
    }
    return found == NULL ? to : (size_t)(found - text);
}

/* End of the segment that starts at `at`: one match, or all up to the next one. */
static size_t segment_end(
    const struct split_step *step, const char *text, size_t at, size_t to, bool *out_match)
{
    if (step->match == SPLIT_MATCH_LITERAL) {
        return literal_end(step, text, at, to, out_match);
    }
    if (step->match == SPLIT_MATCH_WORDS) {
        return run_of_words(text, at, to, out_match);
    }
    int32_t code_point;
    size_t length = (size_t)utf8_decode(text + at, to - at, &code_point);
    *out_match = is_match(step->match, code_point);
    if (*out_match) {
        return at + length;
    }
    do {
        at += length;
        if (at < to) {
            length = (size_t)utf8_decode(text + at, to - at, &code_point);
        }
    } while (at < to && !is_match(step->match, code_point));
    return at;
}

static enum err add_segment(struct word_cutter *cutter, size_t from, size_t to, bool match)
{
    bool joins = false;
    switch (cutter->step->behavior) {
    case SPLIT_REMOVED:
        if (match) {
            return ERR_OK;
        }
        break;
    case SPLIT_ISOLATED:
        break;
    case SPLIT_CONTIGUOUS:
        joins = match == cutter->after_match;
        break;
    case SPLIT_MERGED_WITH_PREVIOUS:
        joins = match && !cutter->after_match;
        break;
    case SPLIT_MERGED_WITH_NEXT:
        joins = !match && cutter->after_match;
        break;
    }
    joins = joins && cutter->any;
    cutter->any = true;
    cutter->after_match = match;
    if (joins) {
        cutter->out->items[cutter->out->count - 1].to = (int32_t)to;
        return ERR_OK;
    }
    return cuts_add(cutter->out, from, to, cutter->info);
}

static enum err cut_matches(struct word_cutter *cutter, size_t from, size_t to)
{
    enum err err = ERR_OK;
    cutter->any = false;
    while (from < to && err == ERR_OK) {
        bool match;
        size_t end = segment_end(cutter->step, cutter->text, from, to, &match);
        err = add_segment(cutter, from, end, match != cutter->step->invert);
        from = end;
    }
    return err;
}

static enum err cut_scan(const struct word_cutter *cutter, size_t from, size_t to)
{
    enum err err = ERR_OK;
    const char *word = cutter->text + from;
    for (size_t at = 0; at < to - from && err == ERR_OK;) {
        size_t end = pretokenize_next(cutter->step->scan, word, to - from, at);
        err = cuts_add(cutter->out, from + at, from + end, cutter->info);
        at = end;
    }
    return err;
}

/* ---- steps that add to the text ------------------------------------------------------------- */

/* Whether a word gets a prefix; `has` = it begins with one. */
static bool wants_prefix(const struct split_step *step, const struct encoding *encoding,
    bool continues, size_t at, bool has)
{
    bool is_start = encoding_origin(encoding, at) == 0;
    if (has || (continues && is_start)) {
        return false;
    }
    return step->prefix == SPLIT_PREFIX_ALWAYS || (step->prefix == SPLIT_PREFIX_FIRST && is_start);
}

static enum err copy_word(const struct split_step *step, const struct encoding *encoding,
    const char *text, struct cut word, bool continues, struct normal *out)
{
    bool marks = step->kind == SPLIT_METASPACE;
    const char *prefix = marks ? SPACE_MARK : " ";
    size_t prefix_bytes = marks ? SPACE_MARK_BYTES : 1;
    size_t at = (size_t)word.from;
    size_t to = (size_t)word.to;
    size_t shift = encoding->shift;
    bool has = text[at] == ' ' ||
               (marks && to - at >= prefix_bytes && memcmp(text + at, prefix, prefix_bytes) == 0);
    enum err err = ERR_OK;
    if (wants_prefix(step, encoding, continues, at, has)) {
        err = normal_append_changed(
            out, prefix, prefix_bytes, shift + at, shift + at, encoding->info);
    }
    while (at < to && err == ERR_OK) {
        size_t from = at;
        while (at < to && !(marks && text[at] == ' ')) {
            at++;
        }
        err = normal_append_same(out, text + from, at - from, shift + from, encoding->info);
        if (err == ERR_OK && at < to) {
            err = normal_append_changed(
                out, SPACE_MARK, SPACE_MARK_BYTES, shift + at, shift + at + 1, encoding->info);
            at++;
        }
    }
    return err;
}

static const struct split_step before_marks = {
    .kind = SPLIT_MATCHES,
    .match = SPLIT_MATCH_LITERAL,
    .behavior = SPLIT_MERGED_WITH_NEXT,
    .literal_count = SPACE_MARK_BYTES,
    .literal = "\u2581",
};

/* Writes the words with their prefixes to `out`, and their places in it to `cuts`. */
static enum err add_prefixes(const struct split_step *step, struct encoding *encoding,
    const char *text, bool continues, const struct cuts *words, struct cuts *cuts,
    struct normal *out)
{
    enum err err = ERR_OK;
    normal_clear(out);
    for (size_t i = 0; i < words->count && err == ERR_OK; i++) {
        size_t start = out->count;
        err = copy_word(step, encoding, text, words->items[i], continues, out);
        if (err != ERR_OK) {
            continue;
        }
        if (step->kind == SPLIT_METASPACE && step->split) {
            struct word_cutter cutter = {
                .step = &before_marks, .text = out->bytes, .out = cuts, .info = encoding->info};
            err = cut_matches(&cutter, start, out->count);
        } else {
            err = cuts_add(cuts, start, out->count, encoding->info);
        }
    }
    if (err == ERR_OK && encoding->with_map) {
        if (encoding->map != NULL) {
            normal_compose(out, encoding->map);
        }
        encoding->map = out;
        encoding->shift = 0;
    }
    return err;
}

/* ---- the chain ------------------------------------------------------------------------------ */

static enum err cut_words(const struct split_step *step, const char *text, const struct cuts *words,
    struct cuts *out, struct err_info *info)
{
    struct word_cutter cutter = {.step = step, .text = text, .out = out, .info = info};
    enum err err = ERR_OK;
    for (size_t i = 0; i < words->count && err == ERR_OK; i++) {
        size_t from = (size_t)words->items[i].from;
        size_t to = (size_t)words->items[i].to;
        err =
            step->kind == SPLIT_SCAN ? cut_scan(&cutter, from, to) : cut_matches(&cutter, from, to);
    }
    return err;
}

void splitter_add_bert(struct splitter *splitter)
{
    ASSERT(splitter->count + 2 <= SPLITTER_STEPS_MAX);
    splitter->steps[splitter->count++] = (struct split_step){
        .kind = SPLIT_MATCHES, .match = SPLIT_MATCH_SPACE, .behavior = SPLIT_REMOVED};
    splitter->steps[splitter->count++] = (struct split_step){
        .kind = SPLIT_MATCHES, .match = SPLIT_MATCH_PUNCTUATION, .behavior = SPLIT_ISOLATED};
}

bool splitter_needs_origin(const struct splitter *splitter)
{
    for (int32_t i = 0; i < splitter->count; i++) {
        enum split_kind kind = splitter->steps[i].kind;
        if (kind == SPLIT_PREFIX_SPACE || kind == SPLIT_METASPACE) {
            return true;
        }
    }
    return false;
}

enum err splitter_apply(const struct splitter *splitter, struct encoding *encoding, bool continues,
    const char **text, size_t bytes)
{
    struct cuts *words = &encoding->cuts[0];
    struct cuts *next = &encoding->cuts[1];
    struct normal *out = &encoding->split[0];
    words->count = 0;
    enum err err = bytes == 0 ? ERR_OK : cuts_add(words, 0, bytes, encoding->info);
    for (int32_t i = 0; i < splitter->count && err == ERR_OK; i++) {
        const struct split_step *step = &splitter->steps[i];
        next->count = 0;
        if (step->kind == SPLIT_PREFIX_SPACE || step->kind == SPLIT_METASPACE) {
            err = add_prefixes(step, encoding, *text, continues, words, next, out);
            *text = out->bytes == NULL ? "" : out->bytes;
            out = out == &encoding->split[0] ? &encoding->split[1] : &encoding->split[0];
        } else {
            err = cut_words(step, *text, words, next, encoding->info);
        }
        struct cuts spare = *words; /* what is the words' stays cuts[0], whatever the count */
        *words = *next;
        *next = spare;
    }
    return err;
}
