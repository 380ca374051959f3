/*
 * Ids to text. A byte that may still become part of a character waits in `held`; three bytes at
 * most can. What can never become one is replaced by U+FFFD, one for each longest run of bytes that
 * began as a character might (the Unicode standard's recommended practice, and what the reference
 * decoders do).
 */
#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/utf8.h"
#include "engine/text/tokenizer_internal.h"

enum {
    HELD_MAX = 3,
    REPLACEMENT_BYTES = 3,
};
static const char REPLACEMENT[] = "\xEF\xBF\xBD";

_Static_assert(
    sizeof(((struct detokenizer *)0)->held) >= HELD_MAX + 1, "a character is joined there");

struct output {
    char *bytes;
    size_t count, capacity;
    bool full; /* something did not fit: nothing more is written, or text would have holes */
};

static void write_whole(struct output *output, const char *bytes, size_t count)
{
    if (output->full || count > output->capacity - output->count) {
        output->full = true;
        return;
    }
    memcpy(output->bytes + output->count, bytes, count);
    output->count += count;
}

/* Bytes at the front that began as a character might but did not go on as one. */
static size_t broken_part(const char *bytes, size_t count)
{
    size_t part = MIN(count, (size_t)HELD_MAX);
    while (part > 1 && utf8_complete(bytes, part) != 0) {
        part--;
    }
    return part;
}

/* Writes out bytes[0..count), which end at no unfinished character. */
static void write_complete(struct output *output, const char *bytes, size_t count)
{
    for (size_t at = 0; at < count;) {
        int32_t code_point;
        size_t length = (size_t)utf8_decode(bytes + at, count - at, &code_point);
        if (code_point >= 0) {
            write_whole(output, bytes + at, length);
        } else {
            length = broken_part(bytes + at, count - at);
            write_whole(output, REPLACEMENT, REPLACEMENT_BYTES);
        }
        at += length;
    }
}

void detokenizer_init(
    struct detokenizer *d, const struct tokenizer *tokenizer, bool show_control, bool continues)
{
    *d = (struct detokenizer){.tokenizer = tokenizer, .show_control = show_control};
    d->first = !continues && tokenizer->drops_first_space;
}

/* Adds bytes to those held until they end in a whole character or prove not to begin one. Returns
 * how many it took. */
static size_t finish_held(
    struct detokenizer *d, const char *piece, size_t bytes, struct output *output)
{
    size_t taken = 0;
    while (d->held_count > 0 && taken < bytes) {
        d->held[d->held_count++] = piece[taken++];
        size_t count = (size_t)d->held_count;
        if (utf8_complete(d->held, count) == 0) {
            continue;
        }
        if (utf8_valid(d->held, count)) {
            write_whole(output, d->held, count);
        } else { /* the new byte belongs to something else */
            taken--;
            write_whole(output, REPLACEMENT, REPLACEMENT_BYTES);
        }
        d->held_count = 0;
    }
    return taken;
}

size_t detokenizer_push(struct detokenizer *d, int32_t token, char *out, size_t capacity)
{
    size_t bytes;
    const char *piece = tokenizer_piece(d->tokenizer, token, d->show_control, &bytes);
    if (bytes == 0) {
        return 0;
    }
    if (d->first && piece[0] == ' ' && d->tokenizer->vocab.types[token] == TOKEN_TYPE_NORMAL) {
        piece++; /* the prefix that encoding put in front */
        bytes--;
    }
    d->first = false;
    struct output output = {.bytes = out, .capacity = capacity};
    size_t taken = finish_held(d, piece, bytes, &output);
    piece += taken;
    bytes -= taken;
    size_t complete = utf8_complete(piece, bytes);
    write_complete(&output, piece, complete);
    if (complete < bytes) {
        ASSERT(d->held_count == 0 && bytes - complete <= HELD_MAX);
        memcpy(d->held, piece + complete, bytes - complete);
        d->held_count = (int32_t)(bytes - complete);
    }
    return output.count;
}

size_t detokenizer_end(struct detokenizer *d, bool replace, char *out, size_t capacity)
{
    struct output output = {.bytes = out, .capacity = capacity};
    if (d->held_count > 0 && replace) {
        write_whole(&output, REPLACEMENT, REPLACEMENT_BYTES);
    }
    d->held_count = 0;
    return output.count;
}

size_t detokenizer_bound(const struct tokenizer *tokenizer)
{
    /* Every byte of the piece and the unfinished character before it may become a U+FFFD. */
    return REPLACEMENT_BYTES * (tokenizer->vocab.text_longest + 1);
}
