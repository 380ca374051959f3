/* What the files of the GGUF reader share: gguf_scan.c fills a struct gguf from bytes, gguf_put.c
 * from what a folder says, gguf_check.c checks it as a whole, gguf.c answers questions about it. */
#ifndef ENGINE_LOAD_GGUF_INTERNAL_H
#define ENGINE_LOAD_GGUF_INTERNAL_H

#include "engine/base/arena.h"
#include "engine/engine_limits.h"
#include "engine/load/gguf.h"

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "file sizes are computed in size_t");

struct hub_names;

/* One metadata pair. Positions, not pointers: the buffer moves while it grows. */
struct gguf_key {
    const char *name;  /* NUL-terminated, in the arena */
    const char *shown; /* what errors call it; NULL = `name` */
    uint64_t at;       /* of the record in the file */
    enum gguf_type type;
    enum gguf_type element;            /* of an array */
    size_t count;                      /* elements of an array, bytes of a string */
    size_t value_at;                   /* first byte of number, string or first element */
    const struct gguf_string *strings; /* arrays of strings, filled by gguf_check */
};

struct gguf {
    int fds[LIMIT_FILE_PARTS]; /* of the files that hold tensors; none for bytes in memory */
    int32_t fd_count;
    unsigned char *buffer;         /* what was read of the file, or put; NULL for bytes in memory */
    const unsigned char *bytes;    /* buffer, or the caller's */
    size_t held;                   /* bytes [0, held) of the file are there */
    size_t buffer_bytes;           /* gguf_put: size of the buffer */
    size_t tensor_room;            /* gguf_put: entries of `tensors` */
    uint64_t file_bytes;           /* of all files */
    const struct hub_names *names; /* a folder's names of tensors; NULL for a file */

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
/* The part of gguf_check that builds the tables and finds what appears twice. */
MUST_USE enum err gguf_sort(struct gguf *gguf, struct err_info *info);

/* An empty one, to be put into; NULL when memory is short. */
struct gguf *gguf_create(void);
/* Keys and tensors of a checkpoint that is no GGUF file, up to LIMIT_PUT_KEYS keys. Names and
 * `shown` are copied. ERR_NO_MEMORY, ERR_LIMIT. */
/* Room for `tensors` in all, those put before included; before the second one is put. */
MUST_USE enum err gguf_put_room(struct gguf *gguf, size_t tensors, struct err_info *info);
MUST_USE enum err gguf_put_i64(
    struct gguf *gguf, const char *key, const char *shown, int64_t value, struct err_info *info);
MUST_USE enum err gguf_put_f64(
    struct gguf *gguf, const char *key, const char *shown, double value, struct err_info *info);
MUST_USE enum err gguf_put_bool(
    struct gguf *gguf, const char *key, const char *shown, bool value, struct err_info *info);
MUST_USE enum err gguf_put_string(struct gguf *gguf, const char *key, const char *shown,
    const char *bytes, size_t count, struct err_info *info);
MUST_USE enum err gguf_put_i32s(struct gguf *gguf, const char *key, const char *shown,
    const int32_t *values, size_t count, struct err_info *info);
/* A vector that is in no file. */
MUST_USE enum err gguf_put_vector(
    struct gguf *gguf, const char *name, const float *values, size_t count, struct err_info *info);
MUST_USE enum err gguf_put_tensor(
    struct gguf *gguf, const struct gguf_tensor *tensor, struct err_info *info);

/* err_set with a byte offset. */
enum err gguf_fail(struct err_info *info, enum err code, const char *where, uint64_t offset,
    const char *format, ...) PRINTF_LIKE(5, 6);
const struct gguf_key *gguf_find_key(const struct gguf *gguf, const char *name);
/* Bytes of one element; 0 for strings and arrays. */
size_t gguf_type_bytes(enum gguf_type type);
const char *gguf_type_word(enum gguf_type type);

#endif
