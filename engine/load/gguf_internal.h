/* What the files of the GGUF reader share: gguf_scan.c fills a struct gguf from bytes, gguf_check.c
 * checks it as a whole, gguf.c answers questions about it. */
#ifndef ENGINE_LOAD_GGUF_INTERNAL_H
#define ENGINE_LOAD_GGUF_INTERNAL_H

#include "engine/base/arena.h"
#include "engine/load/gguf.h"

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "file sizes are computed in size_t");

/* One metadata pair. Positions, not pointers: the buffer moves while it grows. */
struct gguf_key {
    const char *name; /* NUL-terminated, in the arena */
    uint64_t at;      /* of the record in the file */
    enum gguf_type type;
    enum gguf_type element;            /* of an array */
    size_t count;                      /* elements of an array, bytes of a string */
    size_t value_at;                   /* first byte of number, string or first element */
    const struct gguf_string *strings; /* arrays of strings, filled by gguf_check */
};

struct gguf {
    int fd;                     /* -1 for bytes in memory */
    unsigned char *buffer;      /* what was read of the file; NULL for bytes in memory */
    const unsigned char *bytes; /* buffer, or the caller's */
    size_t held;                /* bytes [0, held) of the file are there */
    uint64_t file_bytes;

    struct arena arena; /* everything below */
    struct gguf_key *keys;
    const struct gguf_key **keys_by_name;
    int32_t key_count;
    struct gguf_tensor *tensors;
    const struct gguf_tensor **tensors_by_name;
    int32_t tensor_count;
    size_t directory_end;
};

/* Reads and checks header, metadata and directory piece by piece; tensor offsets are still those of
 * the file, counted from the start of the data. */
MUST_USE enum err gguf_scan(struct gguf *gguf, struct err_info *info);
/* Checks what only the whole shows (duplicates, alignment, data ranges), turns tensor offsets into
 * those from the start of the file and builds the tables. */
MUST_USE enum err gguf_check(struct gguf *gguf, struct err_info *info);
/* err_set with a byte offset. */
enum err gguf_fail(struct err_info *info, enum err code, const char *where, uint64_t offset,
    const char *format, ...) PRINTF_LIKE(5, 6);
const struct gguf_key *gguf_find_key(const struct gguf *gguf, const char *name);
/* Bytes of one element; 0 for strings and arrays. */
size_t gguf_type_bytes(enum gguf_type type);
const char *gguf_type_word(enum gguf_type type);

#endif
