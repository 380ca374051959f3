/*
 * A unit of the double array holds a label, an offset and whether the key may end here:
 *
 *     bit 31: the unit is a value (the rest of it)   bit 9: the offset is in steps of 256
 *     bits 10-30: offset                             bit 8: a key ends here
 *     bits 0-7: label
 *
 * Nothing of a file is trusted: a walk that leaves the array ends, and so does one that goes in
 * circles; a value that is not the start of a character of the strings is no replacement.
 */
#include "engine/text/charsmap.h"

#include <string.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"

static uint32_t read_u32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

/* The last byte is NUL. */
static size_t longest_string(const char *strings, size_t bytes)
{
    size_t longest = 0;
    for (size_t at = 0; at < bytes;) {
        size_t count = strlen(strings + at);
        longest = MAX(longest, count);
        at += count + 1;
    }
    return longest;
}

enum err charsmap_load(struct charsmap *map, const unsigned char *blob, size_t bytes,
    const char *where, struct err_info *info)
{
    memset(map, 0, sizeof(*map));
    if (bytes == 0) {
        return ERR_OK;
    }
    uint32_t trie_bytes = bytes < sizeof(uint32_t) ? 0 : read_u32(blob);
    if (trie_bytes < sizeof(uint32_t) || trie_bytes % sizeof(uint32_t) != 0 ||
        trie_bytes >= bytes - sizeof(uint32_t) || blob[bytes - 1] != '\0') {
        return err_set(info, ERR_FORMAT, where, "is no table of characters");
    }
    const unsigned char *strings = blob + sizeof(uint32_t) + trie_bytes;
    size_t string_bytes = bytes - sizeof(uint32_t) - trie_bytes;
    if (!utf8_valid((const char *)strings, string_bytes)) {
        return err_set(info, ERR_FORMAT, where, "holds a replacement that is not UTF-8");
    }
    if (longest_string((const char *)strings, string_bytes) > CHARSMAP_STRING_BYTES_MAX) {
        return err_set(info, ERR_LIMIT, where, "holds a replacement of more than %d bytes",
            CHARSMAP_STRING_BYTES_MAX);
    }
    map->unit_count = trie_bytes / sizeof(uint32_t);
    map->string_bytes = string_bytes;
    map->units = mem_array(MEM_TOKENIZER, map->unit_count, sizeof(*map->units));
    map->strings = mem_alloc(MEM_TOKENIZER, string_bytes);
    if (map->units == NULL || map->strings == NULL) {
        charsmap_free(map);
        return err_set(info, ERR_NO_MEMORY, where, "no memory for a table of %zu bytes", bytes);
    }
    for (size_t i = 0; i < map->unit_count; i++) {
        map->units[i] = read_u32(blob + sizeof(uint32_t) * (i + 1));
    }
    memcpy(map->strings, strings, string_bytes);
    return ERR_OK;
}

static int32_t base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

enum err charsmap_load_base64(
    struct charsmap *map, const char *text, size_t bytes, const char *where, struct err_info *info)
{
    memset(map, 0, sizeof(*map));
    size_t digits = bytes;
    while (digits > 0 && bytes - digits < 2 && text[digits - 1] == '=') {
        digits--;
    }
    if (bytes % 4 != 0) {
        return err_set(info, ERR_FORMAT, where, "is not base64");
    }
    unsigned char *blob = mem_alloc(MEM_TOKENIZER, bytes / 4 * 3);
    if (blob == NULL) {
        return err_set(info, ERR_NO_MEMORY, where, "no memory for a table of %zu bytes", bytes);
    }
    size_t count = 0;
    uint32_t held = 0;
    enum err err = ERR_OK;
    for (size_t i = 0; i < digits && err == ERR_OK; i++) {
        int32_t digit = base64_digit(text[i]);
        if (digit < 0) {
            err = err_at(info, i, err_set(info, ERR_FORMAT, where, "is not base64"));
        }
        held = held << 6 | (uint32_t)(digit & 63);
        if (i % 4 != 0) { /* the second, third and fourth digit each complete a byte */
            blob[count++] = (unsigned char)(held >> (6 - 2 * (i % 4)));
        }
    }
    if (err == ERR_OK) {
        err = charsmap_load(map, blob, count, where, info);
    }
    mem_free(blob);
    return err;
}

void charsmap_free(struct charsmap *map)
{
    mem_free(map->units);
    mem_free(map->strings);
    memset(map, 0, sizeof(*map));
}

size_t charsmap_memory(const struct charsmap *map)
{
    return map->unit_count * sizeof(*map->units) + map->string_bytes;
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

static bool is_string(const struct charsmap *map, size_t value)
{
    return value < map->string_bytes && (map->strings[value] & 0xC0) != 0x80;
}

bool charsmap_find(const struct charsmap *map, const char *text, size_t bytes, bool longest,
    const char **out_string, size_t *out_string_bytes, size_t *out_prefix)
{
    const char *string = NULL;
    size_t end = MIN(bytes, (size_t)CHARSMAP_KEY_BYTES_MAX);
    size_t at = map->unit_count == 0 ? 0 : offset_of(map->units[0]);
    for (size_t i = 0; i < end && text[i] != '\0' && (longest || string == NULL); i++) {
        at ^= (unsigned char)text[i];
        if (at >= map->unit_count ||
            (map->units[at] & (1u << 31 | 0xFF)) != (unsigned char)text[i]) {
            break;
        }
        uint32_t unit = map->units[at];
        at ^= offset_of(unit);
        size_t value = at < map->unit_count ? map->units[at] & ~(1u << 31) : map->string_bytes;
        if ((unit & 1u << 8) != 0 && is_string(map, value)) {
            string = map->strings + value;
            *out_prefix = i + 1;
        }
    }
    if (string == NULL) {
        return false;
    }
    *out_string = string;
    *out_string_bytes = strlen(string);
    return true;
}
