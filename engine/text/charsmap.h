/*
 * The table of character replacements that SentencePiece compiles into a model
 * (precompiled_charsmap): a trie over UTF-8 as a double array, and the strings it leads to.
 *
 *     u32 bytes of the trie | the trie, u32 units | strings, each ended by a NUL
 */
#ifndef ENGINE_TEXT_CHARSMAP_H
#define ENGINE_TEXT_CHARSMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"

/* So that a table of a file cannot make a text cost the square of its length. Those in use have
 * keys of up to a dozen bytes and strings of up to 33 (U+FDFA). */
enum {
    CHARSMAP_KEY_BYTES_MAX = 256, /* longer keys are not found */
    CHARSMAP_STRING_BYTES_MAX = 256,
};

struct charsmap {
    uint32_t *units; /* NULL: no table */
    char *strings;   /* valid UTF-8, its last byte is a NUL */
    size_t unit_count, string_bytes;
};

/* An empty blob is no table. `where` names it in errors. On failure *map is left freed. */
MUST_USE enum err charsmap_load(struct charsmap *map, const unsigned char *blob, size_t bytes,
    const char *where, struct err_info *info);
/* The same from base64. */
MUST_USE enum err charsmap_load_base64(
    struct charsmap *map, const char *text, size_t bytes, const char *where, struct err_info *info);
void charsmap_free(struct charsmap *map);
size_t charsmap_memory(const struct charsmap *map);

/* Looks for a replacement of the start of text[0..bytes): of its longest prefix that has one, as
 * SentencePiece does, or of its shortest, as tokenizer.json does. False when none has. */
bool charsmap_find(const struct charsmap *map, const char *text, size_t bytes, bool longest,
    const char **out_string, size_t *out_string_bytes, size_t *out_prefix);

#endif
