/* See golden_data.h. Reference data is trusted: whatever is wrong with it ends the test at once. */
#include "tests/golden/golden_data.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static NORETURN void broken(const char *what, const char *name)
{
    fprintf(stderr, "golden data: %s: %s\n", what, name);
    exit(1);
}

/* ---- paths ---- */

static bool join(char *out_path, const char *format, ...) PRINTF_LIKE(2, 3);

static bool join(char *out_path, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(out_path, GOLDEN_PATH_BYTES, format, arguments);
    va_end(arguments);
    if (length < 0 || length >= GOLDEN_PATH_BYTES) {
        broken("path too long", format);
    }
    return access(out_path, R_OK) == 0;
}

static const char *source_root(void)
{
    const char *root = getenv("MAGNETD_SOURCE");
    return root != NULL ? root : ".";
}

bool golden_fixture(const char *name, char *out_path)
{
    return join(out_path, "%s/tests/golden/fixtures/%s", source_root(), name);
}

bool golden_reference(const char *name, char *out_path)
{
    const char *data = getenv("MAGNETD_DATA");
    if (data != NULL && data[0] != '\0') {
        return join(out_path, "%s/%s", data, name);
    }
    return join(out_path, "%s/../shared/data/%s", source_root(), name);
}

/* What deploy/fetch_model.sh fetched: where `variable` says, or under its name in the cache. */
static bool fetched(const char *variable, const char *name, char *out_path)
{
    const char *path = getenv(variable);
    if (path != NULL && path[0] != '\0') {
        return join(out_path, "%s", path);
    }
    const char *cache = getenv("XDG_CACHE_HOME");
    if (cache != NULL && cache[0] != '\0') {
        return join(out_path, "%s/magnetd/%s", cache, name);
    }
    const char *home = getenv("HOME");
    return join(out_path, "%s/.cache/magnetd/%s", home != NULL ? home : "", name);
}

bool golden_model(char *out_path)
{
    return fetched("MAGNETD_MODEL", "SmolLM2-135M-Instruct.Q4_1.gguf", out_path);
}

bool golden_minilm(char *out_path)
{
    return fetched("MAGNETD_MINILM", "all-MiniLM-L6-v2", out_path);
}

void golden_skip(const char *what)
{
    printf("skipped: %s is not there\n", what);
    exit(GOLDEN_SKIP);
}

/* ---- files ---- */

json_t *golden_json(const char *path)
{
    json_error_t error;
    json_t *value = json_load_file(path, 0, &error);
    if (value == NULL) {
        broken(error.text, path);
    }
    return value;
}

json_t *golden_json_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    json_t *lines = json_array();
    if (file == NULL || lines == NULL) {
        broken("cannot read", path);
    }
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) >= 0) {
        json_error_t error;
        if (json_array_append_new(lines, json_loads(line, 0, &error)) != 0) {
            broken(error.text, path);
        }
    }
    free(line);
    fclose(file);
    return lines;
}

unsigned char *golden_bytes(const char *path, size_t *out_count)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        broken("cannot read", path);
    }
    long count = ftell(file);
    rewind(file);
    unsigned char *bytes = malloc((size_t)count + 1);
    if (count < 0 || bytes == NULL || fread(bytes, 1, (size_t)count, file) != (size_t)count) {
        broken("cannot read", path);
    }
    fclose(file);
    *out_count = (size_t)count;
    return bytes;
}

float *golden_floats(const char *path, size_t *out_count)
{
    size_t bytes;
    float *floats = (void *)golden_bytes(path, &bytes);
    *out_count = bytes / sizeof(float);
    return floats;
}

/* ---- members ---- */

json_t *golden_member(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (value == NULL) {
        broken("no member", key);
    }
    return value;
}

int32_t golden_int(const json_t *object, const char *key)
{
    return (int32_t)json_integer_value(golden_member(object, key));
}

double *golden_numbers(const json_t *object, const char *key, int32_t *out_count)
{
    const json_t *list = golden_member(object, key);
    size_t count = json_array_size(list);
    double *numbers = malloc((count + 1) * sizeof(*numbers));
    if (numbers == NULL) {
        broken("out of memory", key);
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *number = json_array_get(list, i);
        if (!json_is_number(number)) {
            broken("not a number", key);
        }
        numbers[i] = json_number_value(number);
    }
    *out_count = (int32_t)count;
    return numbers;
}

int32_t *golden_ints(const json_t *object, const char *key, int32_t *out_count)
{
    double *numbers = golden_numbers(object, key, out_count);
    int32_t *ints = malloc(((size_t)*out_count + 1) * sizeof(*ints));
    if (ints == NULL) {
        broken("out of memory", key);
    }
    for (int32_t i = 0; i < *out_count; i++) {
        ints[i] = (int32_t)numbers[i];
    }
    free(numbers);
    return ints;
}
