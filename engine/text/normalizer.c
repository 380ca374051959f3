/*
 * Each step reads one text and appends to another. Steps that look at one character at a time are
 * one loop over a function from a code point to a few; ASCII that such a step leaves alone, which
 * is nearly everything, is copied run by run.
 */
#include "engine/text/normalizer.h"

#include <string.h>
#include <utf8proc.h>

#include "engine/base/assert.h"
#include "engine/base/utf8.h"
#include "engine/text/char_class.h"
#include "engine/text/encoding.h"

static const char SPACE_MARK[] = "\u2581"; /* U+2581 */

enum {
    SPACE_MARK_BYTES = sizeof(SPACE_MARK) - 1,
    /* A canonical decomposition has 4 code points, each has 2 in lower case; an ideograph has a
     * space on both sides. */
    POINTS_MAX = 8,
    /* tokenizer.json looks up a cluster as a whole only below this. */
    CLUSTER_BYTES = 6,
};

struct step_text {
    const struct normal_step *step;
    const struct charsmap *charsmap;
    const char *text;
    size_t bytes;
    bool starts;
    struct err_info *info;
};

/* ---- one character at a time ---------------------------------------------------------------- */

static int32_t lower_all(int32_t *points, int32_t count)
{
    int32_t source[POINTS_MAX];
    int32_t written = 0;
    memcpy(source, points, (size_t)count * sizeof(*points));
    for (int32_t i = 0; i < count; i++) {
        written += char_lower(source[i], points + written);
    }
    return written;
}

static int32_t bert_points(unsigned flags, int32_t code_point, int32_t out[POINTS_MAX])
{
    if ((flags & NORMAL_BERT_CLEAN) != 0) {
        if (code_point == 0 || char_is_bert_removed(code_point)) {
            return 0;
        }
        code_point = char_is_space(code_point) ? ' ' : code_point;
    }
    int32_t count = 1;
    out[0] = code_point;
    if ((flags & NORMAL_BERT_CJK) != 0 && char_is_cjk(code_point)) {
        out[0] = ' ';
        out[1] = code_point;
        out[2] = ' ';
        count = 3;
    }
    if ((flags & NORMAL_BERT_STRIP_ACCENTS) != 0) {
        int32_t kept = 0;
        int32_t decomposed[POINTS_MAX];
        utf8proc_ssize_t decomposed_count = utf8proc_decompose_char(
            code_point, decomposed, POINTS_MAX, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, NULL);
        ASSERT(decomposed_count >= 1 && decomposed_count <= POINTS_MAX / 2);
        int32_t lead = count / 2; /* the space before an ideograph stays where it is */
        for (utf8proc_ssize_t i = 0; i < decomposed_count; i++) {
            if (!char_is_bert_accent(decomposed[i])) {
                out[lead + kept++] = decomposed[i];
            }
        }
        if (lead > 0) {
            out[lead + kept++] = ' ';
        }
        count = lead + kept;
    }
    return (flags & NORMAL_BERT_LOWERCASE) != 0 ? lower_all(out, count) : count;
}

static int32_t nmt_points(int32_t code_point, int32_t out[POINTS_MAX])
{
    if ((code_point >= 0x01 && code_point <= 0x08) || code_point == 0x0B ||
        (code_point >= 0x0E && code_point <= 0x1F) || code_point == 0x7F || code_point == 0x8F ||
        code_point == 0x9F) {
        return 0;
    }
    bool blank = code_point == 0x09 || code_point == 0x0A || code_point == 0x0C ||
                 code_point == 0x0D || code_point == 0x1680 ||
                 (code_point >= 0x200B && code_point <= 0x200F) || code_point == 0x2028 ||
                 code_point == 0x2029 || code_point == 0x2581 || code_point == 0xFEFF ||
                 code_point == 0xFFFD;
    out[0] = blank ? ' ' : code_point;
    return 1;
}

/* What the step makes of a character; the count may be 0. */
static int32_t points_of(
    const struct normal_step *step, int32_t code_point, int32_t out[POINTS_MAX])
{
    switch ((int)step->kind) {
    case NORMAL_STEP_BERT:
        return bert_points(step->bert, code_point, out);
    case NORMAL_STEP_LOWERCASE:
        return char_lower(code_point, out);
    case NORMAL_STEP_STRIP_ACCENTS:
        out[0] = code_point;
        return char_is_mark(code_point) ? 0 : 1;
    default:
        return nmt_points(code_point, out);
    }
}

static enum err append_points(const struct step_text *in, const int32_t *points, int32_t count,
    size_t from, size_t to, struct normal *out)
{
    char bytes[4 * POINTS_MAX];
    size_t written = 0;
    for (int32_t i = 0; i < count; i++) {
        written += (size_t)utf8_encode(points[i], bytes + written);
    }
    if (written == to - from && memcmp(bytes, in->text + from, written) == 0) {
        return normal_append_same(out, bytes, written, from, in->info);
    }
    return normal_append_changed(out, bytes, written, from, to, in->info);
}

static enum err step_characters(const struct step_text *in, struct normal *out)
{
    bool kept[0x80]; /* ASCII that stays as it is */
    int32_t points[POINTS_MAX];
    for (int32_t c = 0; c < 0x80; c++) {
        kept[c] = points_of(in->step, c, points) == 1 && points[0] == c;
    }
    enum err err = ERR_OK;
    for (size_t at = 0; at < in->bytes && err == ERR_OK;) {
        size_t from = at;
        while (at < in->bytes && (unsigned char)in->text[at] < 0x80 &&
               kept[(unsigned char)in->text[at]]) {
            at++;
        }
        err = normal_append_same(out, in->text + from, at - from, from, in->info);
        if (err == ERR_OK && at < in->bytes) {
            int32_t code_point;
            from = at;
            at += (size_t)utf8_decode(in->text + at, in->bytes - at, &code_point);
            int32_t count = points_of(in->step, code_point, points);
            err = append_points(in, points, count, from, at, out);
        }
    }
    return err;
}

/* ---- tables --------------------------------------------------------------------------------- */

static enum err step_charsmap_spm(const struct step_text *in, struct normal *out)
{
    enum err err = ERR_OK;
    for (size_t at = 0; at < in->bytes && err == ERR_OK;) {
        const char *string;
        size_t string_bytes;
        size_t prefix;
        if (charsmap_find(in->charsmap, in->text + at, in->bytes - at, true, &string, &string_bytes,
                &prefix) &&
            (at + prefix == in->bytes || (in->text[at + prefix] & 0xC0) != 0x80)) {
            err = normal_append_changed(out, string, string_bytes, at, at + prefix, in->info);
        } else {
            int32_t code_point;
            prefix = (size_t)utf8_decode(in->text + at, in->bytes - at, &code_point);
            err = normal_append_same(out, in->text + at, prefix, at, in->info);
        }
        at += prefix;
    }
    return err;
}

/* End of the grapheme cluster that starts at `at`. */
static size_t cluster_end(const char *text, size_t bytes, size_t at)
{
    int32_t state = 0;
    int32_t before;
    at += (size_t)utf8_decode(text + at, bytes - at, &before);
    while (at < bytes) {
        int32_t code_point;
        size_t length = (size_t)utf8_decode(text + at, bytes - at, &code_point);
        if (utf8proc_grapheme_break_stateful(before, code_point, &state)) {
            break;
        }
        before = code_point;
        at += length;
    }
    return at;
}

/* The reference gives a cluster or a character what its shortest prefix in the table maps to, and
 * drops the rest of it. */
static enum err step_charsmap(const struct step_text *in, struct normal *out)
{
    enum err err = ERR_OK;
    for (size_t at = 0; at < in->bytes && err == ERR_OK;) {
        const char *string;
        size_t string_bytes;
        size_t prefix;
        size_t end = cluster_end(in->text, in->bytes, at);
        if (end - at < CLUSTER_BYTES && charsmap_find(in->charsmap, in->text + at, end - at, false,
                                            &string, &string_bytes, &prefix)) {
            err = normal_append_changed(out, string, string_bytes, at, end, in->info);
            at = end;
        }
        while (at < end && err == ERR_OK) {
            int32_t code_point;
            size_t length = (size_t)utf8_decode(in->text + at, end - at, &code_point);
            if (charsmap_find(
                    in->charsmap, in->text + at, length, false, &string, &string_bytes, &prefix)) {
                err = normal_append_changed(out, string, string_bytes, at, at + length, in->info);
            } else {
                err = normal_append_same(out, in->text + at, length, at, in->info);
            }
            at += length;
        }
    }
    return err;
}

/* ---- strings -------------------------------------------------------------------------------- */

static enum err step_replace(const struct step_text *in, struct normal *out)
{
    const struct normal_step *step = in->step;
    enum err err = ERR_OK;
    for (size_t at = 0; at < in->bytes && err == ERR_OK;) {
        const char *rest = in->text + at;
        const char *found = memmem(rest, in->bytes - at, step->find, step->find_count);
        size_t plain = found == NULL ? in->bytes - at : (size_t)(found - rest);
        err = normal_append_same(out, rest, plain, at, in->info);
        at += plain;
        if (err == ERR_OK && found != NULL) {
            err = normal_append_changed(
                out, step->put, step->put_count, at, at + step->find_count, in->info);
            at += step->find_count;
        }
    }
    return err;
}

static size_t blank_length(const struct step_text *in, size_t at)
{
    if (at >= in->bytes) {
        return 0;
    }
    int32_t code_point;
    size_t length = (size_t)utf8_decode(in->text + at, in->bytes - at, &code_point);
    bool blank = in->step->any_blank ? char_is_space(code_point) : code_point == ' ';
    return blank ? length : 0;
}

static enum err step_runs(const struct step_text *in, struct normal *out)
{
    enum err err = ERR_OK;
    for (size_t at = 0; at < in->bytes && err == ERR_OK;) {
        size_t from = at;
        size_t count = 0;
        for (size_t length; (length = blank_length(in, at)) > 0; at += length) {
            count++;
        }
        if (count >= in->step->least) {
            err =
                normal_append_changed(out, in->step->put, in->step->put_count, from, at, in->info);
            continue;
        }
        while (at < in->bytes && blank_length(in, at) == 0) {
            at++; /* the bytes of a character behind its first are no blanks */
        }
        err = normal_append_same(out, in->text + from, at - from, from, in->info);
    }
    return err;
}

static enum err step_strip(const struct step_text *in, struct normal *out)
{
    size_t from = 0;
    size_t to = in->bytes;
    int32_t code_point;
    while (in->step->left && from < to) {
        size_t length = (size_t)utf8_decode(in->text + from, to - from, &code_point);
        if (!char_is_space(code_point)) {
            break;
        }
        from += length;
    }
    while (in->step->right && from < to) {
        size_t start = to - 1;
        while (start > from && (in->text[start] & 0xC0) == 0x80) {
            start--;
        }
        (void)utf8_decode(in->text + start, to - start, &code_point);
        if (!char_is_space(code_point)) {
            break;
        }
        to = start;
    }
    return normal_append_same(out, in->text + from, to - from, from, in->info);
}

static enum err step_prepend(const struct step_text *in, struct normal *out)
{
    enum err err = ERR_OK;
    if (in->bytes > 0 && in->starts) {
        err = normal_append_changed(out, in->step->put, in->step->put_count, 0, 0, in->info);
    }
    return err != ERR_OK ? err : normal_append_same(out, in->text, in->bytes, 0, in->info);
}

static enum err step_spaces_spm(const struct step_text *in, struct normal *out)
{
    bool extra = (in->step->spm & NORMAL_SPM_EXTRA_SPACES) != 0;
    size_t at = 0;
    size_t end = in->bytes;
    enum err err = ERR_OK;
    while (extra && end > 0 && in->text[end - 1] == ' ') {
        end--;
    }
    while (extra && in->starts && at < end && in->text[at] == ' ') {
        at++;
    }
    if (in->starts && (in->step->spm & NORMAL_SPM_PREFIX) != 0 && at < end) {
        err = normal_append_changed(out, SPACE_MARK, SPACE_MARK_BYTES, at, at, in->info);
    }
    while (at < end && err == ERR_OK) {
        size_t from = at;
        while (at < end && in->text[at] != ' ') {
            at++;
        }
        err = normal_append_same(out, in->text + from, at - from, from, in->info);
        if (err == ERR_OK && at < end) {
            from = at++;
            while (extra && in->text[at] == ' ') { /* `end` is behind another character */
                at++;
            }
            err = normal_append_changed(out, SPACE_MARK, SPACE_MARK_BYTES, from, at, in->info);
        }
    }
    return err;
}

/* ---- the chain ------------------------------------------------------------------------------ */

static enum err run_step(const struct step_text *in, struct normal *out)
{
    switch (in->step->kind) {
    case NORMAL_STEP_FORM:
        return normal_append_form(out, in->step->form, in->text, in->bytes, in->info);
    case NORMAL_STEP_BERT:
    case NORMAL_STEP_LOWERCASE:
    case NORMAL_STEP_STRIP_ACCENTS:
    case NORMAL_STEP_NMT:
        return step_characters(in, out);
    case NORMAL_STEP_CHARSMAP:
        return step_charsmap(in, out);
    case NORMAL_STEP_CHARSMAP_SPM:
        return step_charsmap_spm(in, out);
    case NORMAL_STEP_REPLACE:
        return step_replace(in, out);
    case NORMAL_STEP_RUNS:
        return step_runs(in, out);
    case NORMAL_STEP_PREPEND:
        return step_prepend(in, out);
    case NORMAL_STEP_STRIP:
        return step_strip(in, out);
    case NORMAL_STEP_SPACES_SPM:
        break;
    }
    return step_spaces_spm(in, out);
}

/* True where the step is known to change nothing. */
static bool is_idle(const struct step_text *in)
{
    return in->step->kind == NORMAL_STEP_FORM &&
           normal_is_plain(in->step->form, in->text, in->bytes);
}

enum err normalizer_apply(const struct normalizer *normalizer, struct encoding *encoding,
    bool starts, const char **text, size_t *bytes)
{
    struct normal *out = &encoding->normal[0];
    for (int32_t i = 0; i < normalizer->count; i++) {
        struct step_text in = {
            &normalizer->steps[i], &normalizer->charsmap, *text, *bytes, starts, encoding->info};
        if (is_idle(&in)) {
            continue;
        }
        normal_clear(out);
        enum err err = run_step(&in, out);
        if (err != ERR_OK) {
            return err;
        }
        if (encoding->with_map) {
            if (encoding->map != NULL) {
                normal_compose(out, encoding->map);
            }
            encoding->map = out;
        }
        *text = out->bytes == NULL ? "" : out->bytes;
        *bytes = out->count;
        out = out == &encoding->normal[0] ? &encoding->normal[1] : &encoding->normal[0];
    }
    return ERR_OK;
}

void normalizer_free(struct normalizer *normalizer)
{
    charsmap_free(&normalizer->charsmap);
    memset(normalizer, 0, sizeof(*normalizer));
}

size_t normalizer_memory(const struct normalizer *normalizer)
{
    return charsmap_memory(&normalizer->charsmap);
}
