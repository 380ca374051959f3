/* Regular files, read with pread: opening cannot hang on a FIFO or a device, and a file that
 * becomes shorter is an error, not a signal. Errors never hold paths. */
#ifndef ENGINE_LOAD_FILE_H
#define ENGINE_LOAD_FILE_H

#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"

/* Links are followed (hub caches consist of them). *out_fd is the caller's to close. `where` names
 * the file in errors. */
MUST_USE enum err file_open(
    const char *path, const char *where, int *out_fd, uint64_t *out_bytes, struct err_info *info);
/* Exactly `count` bytes; ERR_IO with the offset reached on a short read. */
MUST_USE enum err file_read(
    int fd, uint64_t from, size_t count, void *out, const char *where, struct err_info *info);

#endif
