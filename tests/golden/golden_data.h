/*
 * Where golden numbers come from: fixtures in the repository, and reference data and model files
 * that lie outside it. A test whose data is absent says so and skips; data that is there but broken
 * ends the test.
 */
#ifndef TESTS_GOLDEN_GOLDEN_DATA_H
#define TESTS_GOLDEN_GOLDEN_DATA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/attr.h"

enum { GOLDEN_PATH_BYTES = 4096, GOLDEN_SKIP = 77 /* meson's exit status of a skipped test */ };

/* Each writes a path of at most GOLDEN_PATH_BYTES and says whether the file is there.
 * golden_fixture: below tests/golden/fixtures. golden_reference: below $MAGNETD_DATA, default
 * ../shared/data beside the source tree. golden_model: $MAGNETD_MODEL, default the cache folder
 * that deploy/fetch_model.sh fills; golden_minilm: $MAGNETD_MINILM, likewise, a folder. */
bool golden_fixture(const char *name, char *out_path);
bool golden_reference(const char *name, char *out_path);
bool golden_model(char *out_path);
bool golden_minilm(char *out_path);
/* Prints that `what` is absent and ends the test as skipped. */
NORETURN void golden_skip(const char *what);

/* The objects of a file with one JSON value a line, or the one value of a whole file. Owned. */
json_t *golden_json_lines(const char *path);
json_t *golden_json(const char *path);
/* A whole file, as it is or as little-endian floats; freed with free(). */
unsigned char *golden_bytes(const char *path, size_t *out_count);
float *golden_floats(const char *path, size_t *out_count);

/* Members of an object that must be there. Lists become malloc'ed arrays with room for one
 * element more. */
json_t *golden_member(const json_t *object, const char *key);
int32_t golden_int(const json_t *object, const char *key);
int32_t *golden_ints(const json_t *object, const char *key, int32_t *out_count);
double *golden_numbers(const json_t *object, const char *key, int32_t *out_count);

#endif
