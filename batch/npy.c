/* See the header. */
#include "batch/npy.h"

#include <inttypes.h>
#include <string.h>
#include "engine/base/assert.h"
#include "engine/base/attr.h"

enum { MAGIC_BYTES = 10, PIECE_VALUES = 1024 };

/* Magic, version, length of the text behind them in 16 bits; a dict of Python padded with blanks so
 * that the whole is a multiple of 64, and ends in a newline. */
void npy_header(uint64_t rows, int32_t dim, char out[NPY_HEADER_BYTES])
{
    const char magic[MAGIC_BYTES] = {
        '\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, (char)(NPY_HEADER_BYTES - MAGIC_BYTES), 0};
    char text[NPY_HEADER_BYTES];
    int bytes = snprintf(text, sizeof(text),
        "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRIu64 ", %" PRId32 "), }", rows,
        dim);
    ASSERT(bytes > 0 && bytes < NPY_HEADER_BYTES - MAGIC_BYTES);
    memset(out, ' ', NPY_HEADER_BYTES);
    memcpy(out, magic, MAGIC_BYTES);
    memcpy(out + MAGIC_BYTES, text, (size_t)bytes);
    out[NPY_HEADER_BYTES - 1] = '\n';
}

bool npy_write(FILE *file, const float *values, size_t count)
{
    unsigned char piece[4 * PIECE_VALUES];
    for (size_t from = 0; from < count; from += PIECE_VALUES) {
        const size_t some = MIN(count - from, (size_t)PIECE_VALUES);
        for (size_t i = 0; i < some; i++) {
            uint32_t bits;
            memcpy(&bits, &values[from + i], sizeof(bits));
            for (size_t byte = 0; byte < 4; byte++) {
                piece[4 * i + byte] = (unsigned char)(bits >> (8 * byte));
            }
        }
        if (fwrite(piece, 4, some, file) != some) {
            return false;
        }
    }
    return true;
}
