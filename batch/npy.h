/*
 * NumPy's file of one array, format version 1.0: little-endian float32 [rows, dim] in C order. The
 * header has one length whatever it says, so it is written first and once more at the end, when the
 * number of rows is known.
 */
#ifndef BATCH_NPY_H
#define BATCH_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { NPY_HEADER_BYTES = 128 };

void npy_header(uint64_t rows, int32_t dim, char out[NPY_HEADER_BYTES]);
/* Appends rows. False when the file does not take them; errno says why. */
bool npy_write(FILE *file, const float *values, size_t count);

#endif
