/* Regular files, read with pread: opening cannot hang on a FIFO or a device, and a file that
 * becomes shorter is an error, not a signal. Errors never hold paths. */
#ifndef ENGINE_LOAD_FILE_H
#define ENGINE_LOAD_FILE_H

#include <stdbool.h>
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

/* What stands behind the last slash but those at the end; of "/" nothing. */
const char *file_last_name(const char *path, size_t *out_bytes);
/* A folder to open files in; false when `path` is none. The caller closes *out_folder. */
MUST_USE bool file_folder(const char *path, int *out_folder);
/* True also when only looking fails, and for a link that leads nowhere, as in a folder that was
 * copied in part: opening then says why. */
bool file_exists(int folder, const char *name);
/* file_open of a file in a folder; errors name it. */
MUST_USE enum err file_open_in(
    int folder, const char *name, int *out_fd, uint64_t *out_bytes, struct err_info *info);
/* A whole small file, freed with mem_free; ERR_LIMIT past `bytes_max`. */
MUST_USE enum err file_load_in(int folder, const char *name, size_t bytes_max, char **out_bytes,
    size_t *out_count, struct err_info *info);
/* The same by path, named by `where`. */
MUST_USE enum err file_load(const char *path, const char *where, size_t bytes_max, char **out_bytes,
    size_t *out_count, struct err_info *info);

#endif
