/*
 * The normalization forms of Unicode, stretch by stretch. A stretch is a character that never joins
 * one before it, and those behind it that may: marks, and the vowels and finals of Hangul. They do
 * not influence each other, so each is decomposed, ordered and composed alone, and its bytes map
 * back to its bytes.
 *
 * utf8proc decomposes and composes; ordering is done here, because utf8proc orders by swapping
 * neighbours, which a text of a million marks turns into hours.
 */
#include "engine/text/normalize.h"

#include <string.h>
#include <utf8proc.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"

enum {
    /* Decompositions have at most 18 code points (Unicode 15, U+FDFA), canonical ones 4. */
    DECOMPOSED_MAX = 18,
    /* Below U+0300, whose first byte this is, nothing changes under NFC or joins backwards. */
    FIRST_MARK_LEAD = 0xCC,
    FIRST_LEAD = 0x80, /* in the other forms only ASCII is that plain */
};

void normal_free(struct normal *normal)
{
    mem_free(normal->bytes);
    mem_free(normal->from);
    mem_free(normal->to);
    mem_free(normal->points);
    *normal = (struct normal){0};
}

void normal_clear(struct normal *normal)
{
    normal->count = 0;
}

static enum err no_memory(struct err_info *info)
{
    return err_set(info, ERR_NO_MEMORY, NULL, "no memory to normalize the text");
}

static enum err reserve(struct normal *normal, size_t more, struct err_info *info)
{
    size_t need = normal->count + more;
    if (need > (normal->count_max > 0 ? normal->count_max : INT32_MAX)) {
        return err_set(info, ERR_LIMIT, NULL, "the normalized text is too long");
    }
    if (need <= normal->capacity) {
        return ERR_OK;
    }
    size_t capacity = MAX(need, MAX((size_t)256, normal->capacity * 2));
    void *bytes = mem_grow(MEM_REQUESTS, normal->bytes, capacity);
    if (bytes == NULL) {
        return no_memory(info);
    }
    normal->bytes = bytes;
    if (normal->mapped) {
        void *from = mem_grow(MEM_REQUESTS, normal->from, capacity * sizeof(*normal->from));
        normal->from = from != NULL ? from : normal->from;
        void *to = mem_grow(MEM_REQUESTS, normal->to, capacity * sizeof(*normal->to));
        normal->to = to != NULL ? to : normal->to;
        if (from == NULL || to == NULL) {
            return no_memory(info);
        }
    }
    normal->capacity = capacity;
    return ERR_OK;
}

enum err normal_append_same(
    struct normal *normal, const char *bytes, size_t count, size_t from, struct err_info *info)
{
    enum err err = reserve(normal, count, info);
    if (err != ERR_OK || count == 0) {
        return err;
    }
    memcpy(normal->bytes + normal->count, bytes, count);
    for (size_t i = 0; normal->mapped && i < count; i++) {
        normal->from[normal->count + i] = (int32_t)(from + i);
        normal->to[normal->count + i] = (int32_t)(from + i + 1);
    }
    normal->count += count;
    return ERR_OK;
}

enum err normal_append_changed(struct normal *normal, const char *bytes, size_t count, size_t from,
    size_t to, struct err_info *info)
{
    enum err err = reserve(normal, count, info);
    if (err != ERR_OK || count == 0) {
        return err;
    }
    memcpy(normal->bytes + normal->count, bytes, count);
    for (size_t i = 0; normal->mapped && i < count; i++) {
        normal->from[normal->count + i] = (int32_t)from;
        normal->to[normal->count + i] = (int32_t)to;
    }
    normal->count += count;
    return ERR_OK;
}

void normal_compose(struct normal *normal, const struct normal *inner)
{
    ASSERT(normal->mapped && inner->mapped);
    for (size_t i = 0; i < normal->count; i++) {
        int32_t from = normal->from[i];
        int32_t to = normal->to[i];
        int32_t end = inner->count > 0 ? inner->to[inner->count - 1] : 0;
        normal->from[i] = (size_t)from < inner->count ? inner->from[from] : end;
        normal->to[i] = to > from ? inner->to[to - 1] : normal->from[i];
    }
}

/* ---- forms ---------------------------------------------------------------------------------- */

static const utf8proc_option_t form_options[] = {
    [NORMAL_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
    [NORMAL_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
    [NORMAL_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
    [NORMAL_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
};

static unsigned char first_changing(enum normal_form form)
{
    return form == NORMAL_NFC ? FIRST_MARK_LEAD : FIRST_LEAD;
}

bool normal_is_plain(enum normal_form form, const char *text, size_t bytes)
{
    unsigned char highest = 0;
    for (size_t i = 0; i < bytes; i++) {
        highest = MAX(highest, (unsigned char)text[i]);
    }
    return highest < first_changing(form);
}

static int32_t class_of(int32_t code_point)
{
    return utf8proc_get_property(code_point)->combining_class;
}

/* May the character join one before it? Every character that does is a mark or a Hangul vowel or
 * final; the converse does not hold, which only makes some stretches longer. A compatible one may
 * become one that does (the half-width voiced sound mark, which is a letter). */
static bool joins_backwards(enum normal_form form, int32_t code_point)
{
    if ((form_options[form] & UTF8PROC_COMPAT) != 0) {
        int32_t points[DECOMPOSED_MAX];
        utf8proc_ssize_t count =
            utf8proc_decompose_char(code_point, points, DECOMPOSED_MAX, form_options[form], NULL);
        ASSERT(count >= 1 && count <= DECOMPOSED_MAX);
        code_point = points[0];
    }
    if (code_point >= 0x1160 && code_point <= 0x11FF) {
        return true;
    }
    int category = (int)utf8proc_category(code_point);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
           category == UTF8PROC_CATEGORY_ME;
}

static enum err reserve_points(struct normal *normal, size_t count, struct err_info *info)
{
    if (2 * count <= normal->point_capacity) { /* the second half is for sorting */
        return ERR_OK;
    }
    size_t capacity = 4 * count;
    void *points = mem_grow(MEM_REQUESTS, normal->points, capacity * sizeof(*normal->points));
    if (points == NULL) {
        return no_memory(info);
    }
    normal->points = points;
    normal->point_capacity = capacity;
    return ERR_OK;
}

/* Stable counting sort by combining class of a run in which none is 0. */
static void order_run(int32_t *points, int32_t *spare, size_t count)
{
    size_t starts[257] = {0};
    for (size_t i = 0; i < count; i++) {
        starts[class_of(points[i]) + 1]++;
    }
    for (int32_t class = 0; class < 256; class ++) {
        starts[class + 1] += starts[class];
    }
    for (size_t i = 0; i < count; i++) {
        spare[starts[class_of(points[i])]++] = points[i];
    }
    memcpy(points, spare, count * sizeof(*points));
}

static void order(int32_t *points, int32_t *spare, size_t count)
{
    for (size_t at = 0; at < count;) {
        size_t end = at;
        bool ordered = true;
        while (end < count && class_of(points[end]) != 0) {
            ordered = ordered && (end == at || class_of(points[end - 1]) <= class_of(points[end]));
            end++;
        }
        if (!ordered) {
            order_run(points + at, spare, end - at);
        }
        at = end + 1;
    }
}

/* Decomposes text[from..to) into normal->points; returns the count through out_count. */
static enum err decompose(struct normal *normal, enum normal_form form, const char *text,
    size_t from, size_t to, size_t *out_count, struct err_info *info)
{
    size_t count = 0;
    while (from < to) {
        enum err err = reserve_points(normal, count + DECOMPOSED_MAX, info);
        if (err != ERR_OK) {
            return err;
        }
        int32_t code_point;
        from += (size_t)utf8_decode(text + from, to - from, &code_point);
        utf8proc_ssize_t written = utf8proc_decompose_char(
            code_point, normal->points + count, DECOMPOSED_MAX, form_options[form], NULL);
        ASSERT(written >= 1 && written <= DECOMPOSED_MAX);
        count += (size_t)written;
    }
    *out_count = count;
    return ERR_OK;
}

static enum err append_stretch(struct normal *normal, enum normal_form form, const char *text,
    size_t from, size_t to, struct err_info *info)
{
    size_t count;
    enum err err = decompose(normal, form, text, from, to, &count, info);
    if (err != ERR_OK) {
        return err;
    }
    order(normal->points, normal->points + normal->point_capacity / 2, count);
    utf8proc_ssize_t composed = (utf8proc_ssize_t)count;
    if ((form_options[form] & UTF8PROC_COMPOSE) != 0) {
        composed = utf8proc_normalize_utf32(normal->points, composed, form_options[form]);
    }
    ASSERT(composed >= 1 && (size_t)composed <= count);
    if ((err = reserve(normal, 4 * (size_t)composed, info)) != ERR_OK) {
        return err;
    }
    char *start = normal->bytes + normal->count;
    size_t written = 0;
    for (utf8proc_ssize_t i = 0; i < composed; i++) {
        written += (size_t)utf8_encode(normal->points[i], start + written);
    }
    bool same = written == to - from && memcmp(start, text + from, written) == 0;
    for (size_t i = 0; normal->mapped && i < written; i++) {
        normal->from[normal->count + i] = (int32_t)(same ? from + i : from);
        normal->to[normal->count + i] = (int32_t)(same ? from + i + 1 : to);
    }
    normal->count += written;
    return ERR_OK;
}

/* End of the characters from `at` on that may join what stands before them. */
static size_t skip_joining(enum normal_form form, const char *text, size_t bytes, size_t at)
{
    while (at < bytes && (unsigned char)text[at] >= first_changing(form)) {
        int32_t code_point;
        size_t length = (size_t)utf8_decode(text + at, bytes - at, &code_point);
        if (!joins_backwards(form, code_point)) {
            break;
        }
        at += length;
    }
    return at;
}

enum err normal_append_form(struct normal *normal, enum normal_form form, const char *text,
    size_t bytes, struct err_info *info)
{
    unsigned char lead = first_changing(form);
    for (size_t at = 0; at < bytes;) {
        size_t start = at;
        size_t last = at; /* where the last plain character starts */
        while (at < bytes && (unsigned char)text[at] < lead) {
            last = ((unsigned char)text[at] & 0xC0) == 0x80 ? last : at;
            at++;
        }
        size_t end = skip_joining(form, text, bytes, at);
        size_t stretch = last;
        if (end == at) { /* the plain ones are complete; what follows starts anew */
            stretch = at;
            if (at < bytes) {
                int32_t code_point;
                end += (size_t)utf8_decode(text + at, bytes - at, &code_point);
                end = skip_joining(form, text, bytes, end);
            }
        }
        enum err err = normal_append_same(normal, text + start, stretch - start, start, info);
        if (err == ERR_OK && stretch < end) {
            err = append_stretch(normal, form, text, stretch, end, info);
        }
        if (err != ERR_OK) {
            return err;
        }
        at = end;
    }
    return ERR_OK;
}
