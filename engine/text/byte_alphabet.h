/*
 * The printable alphabet in which byte-level BPE vocabularies spell bytes: 188 bytes stand for
 * themselves as Latin-1 letters and signs, the other 68 (controls, the space, 0xAD) are numbered
 * from U+0100 on, so that a vocabulary file holds no unprintable character.
 */
#ifndef ENGINE_TEXT_BYTE_ALPHABET_H
#define ENGINE_TEXT_BYTE_ALPHABET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The byte a letter of the alphabet stands for, -1 for any other code point. */
int32_t byte_alphabet_byte(int32_t code_point);
/* Writes the bytes a piece spells to out (at least `count` bytes) and their count. False, with
 * nothing written to *out_count, when some character is not of the alphabet. */
bool byte_alphabet_decode(const char *piece, size_t count, char *out, size_t *out_count);

#endif
