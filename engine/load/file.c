/* See file.h. O_NONBLOCK is for the opening alone: regular files ignore it when read. */
#include "engine/load/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "engine/base/mem.h"

static enum err open_at(int folder, const char *name, const char *where, int *out_fd,
    uint64_t *out_bytes, struct err_info *info)
{
    const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return err_set(info, ERR_IO, where, "cannot be opened: %s", strerrordesc_np(errno));
    }
    struct stat status;
    const bool known = fstat(fd, &status) == 0;
    if (!known || !S_ISREG(status.st_mode)) {
        close(fd);
        return err_set(info, ERR_IO, where, known ? "is not a regular file" : "cannot be examined");
    }
    *out_fd = fd;
    *out_bytes = (uint64_t)status.st_size;
    return ERR_OK;
}

enum err file_open(
    const char *path, const char *where, int *out_fd, uint64_t *out_bytes, struct err_info *info)
{
    return open_at(AT_FDCWD, path, where, out_fd, out_bytes, info);
}

enum err file_open_in(
    int folder, const char *name, int *out_fd, uint64_t *out_bytes, struct err_info *info)
{
    return open_at(folder, name, name, out_fd, out_bytes, info);
}

enum err file_read(
    int fd, uint64_t from, size_t count, void *out, const char *where, struct err_info *info)
{
    unsigned char *bytes = out;
    size_t done = 0;
    while (done < count) {
        const ssize_t got = pread(fd, bytes + done, count - done, (off_t)(from + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return err_at(info, from + done,
                err_set(info, ERR_IO, where, "cannot be read: %s", strerrordesc_np(errno)));
        }
        if (got == 0) {
            return err_at(
                info, from + done, err_set(info, ERR_IO, where, "the file became shorter"));
        }
        done += (size_t)got;
    }
    return ERR_OK;
}

const char *file_last_name(const char *path, size_t *out_bytes)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') {
        end--;
    }
    size_t from = end;
    while (from > 0 && path[from - 1] != '/') {
        from--;
    }
    *out_bytes = end - from;
    return path + from;
}

bool file_folder(const char *path, int *out_folder)
{
    *out_folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return *out_folder >= 0;
}

bool file_exists(int folder, const char *name)
{
    struct stat status;
    return fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

static enum err load_at(int folder, const char *name, const char *where, size_t bytes_max,
    char **out_bytes, size_t *out_count, struct err_info *info)
{
    int fd = -1;
    uint64_t count = 0;
    char *bytes = NULL;
    enum err err = open_at(folder, name, where, &fd, &count, info);
    if (err != ERR_OK) {
        return err;
    }
    if (count > bytes_max) {
        err = err_set(info, ERR_LIMIT, where, "has more than %zu bytes", bytes_max);
    } else {
        bytes = mem_alloc(MEM_OTHER, (size_t)count);
        err = bytes == NULL ? err_set(info, ERR_NO_MEMORY, where, "no memory to read it")
                            : file_read(fd, 0, (size_t)count, bytes, where, info);
    }
    close(fd);
    if (err != ERR_OK) {
        mem_free(bytes);
        return err;
    }
    *out_bytes = bytes;
    *out_count = (size_t)count;
    return ERR_OK;
}

enum err file_load_in(int folder, const char *name, size_t bytes_max, char **out_bytes,
    size_t *out_count, struct err_info *info)
{
    return load_at(folder, name, name, bytes_max, out_bytes, out_count, info);
}

enum err file_load(const char *path, const char *where, size_t bytes_max, char **out_bytes,
    size_t *out_count, struct err_info *info)
{
    return load_at(AT_FDCWD, path, where, bytes_max, out_bytes, out_count, info);
}
