/*
 * The panel layout shared by the hand-written rungs: the file's own bytes, turned so that the same
 * piece of 16 outputs lies side by side. Nothing is rounded, nothing grows: a panel takes the
 * bytes of its 16 rows.
 *
 * Every block of every format is a few f16 numbers (scales, minima) and a few 32-bit words (packed
 * quants, packed 6-bit scales). A panel holds, block after block along the inputs:
 *
 *     [halves][16 outputs] u16      f16 numbers, in the order of the file's block
 *     [words ][16 outputs] u32      the words, in the order of the file's block
 *
 * F32 is one word and no halves per "block" of one number, F16 and BF16 one half and no words. So
 * packing is a transposition that knows no format, beyond a few bits that are turned over, and a
 * vector of 8 (16) lanes reads one word of 8 (16) outputs.
 */
#ifndef ENGINE_KERNELS_PANEL_H
#define ENGINE_KERNELS_PANEL_H

#include "engine/kernels/kernels.h"

/* Where a file's block keeps its pieces. halves * 2 + words * 4 are its bytes. */
struct panel_layout {
    int32_t halves, words;
    int32_t halves_at, words_at; /* byte offsets in the file's block */
    /* Words [turned_from, turned_to) have the bits of `turned` turned over in a panel. They are the
     * top bits of unsigned quants: so these become signed, less the middle of their range. */
    int32_t turned_from, turned_to;
    uint32_t turned;
};

enum { PANEL_BLOCK_BYTES_MAX = 256 };

struct panel_layout panel_layout_of(enum tensor_type type);
/* Entries of the kernel table. */
size_t panel_bytes(enum tensor_type type, int32_t inputs);
void panel_pack(
    const struct packed *packed, int32_t output_from, int32_t output_count, const void *file_rows);
void panel_unpack_row(const struct packed *packed, int32_t output, float *out);
/* The file's bytes of the block of one output that begins at number `from`. */
void panel_block(const struct packed *packed, int32_t output, int32_t from,
    unsigned char out[PANEL_BLOCK_BYTES_MAX]);
/* Exact values of numbers [from, from + count) of one output; both multiples of the block. */
void panel_unpack(
    const struct packed *packed, int32_t output, int32_t from, int32_t count, float *out);

#endif
