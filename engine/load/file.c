/* See file.h. O_NONBLOCK is for the opening alone: regular files ignore it when read. */
#include "engine/load/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum err file_open(
    const char *path, const char *where, int *out_fd, uint64_t *out_bytes, struct err_info *info)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return err_set(info, ERR_IO, where, "cannot be opened: %s", strerrordesc_np(errno));
    }
    struct stat status;
    if (fstat(fd, &status) != 0) {
        err_set(info, ERR_IO, where, "cannot be examined: %s", strerrordesc_np(errno));
        close(fd);
        return ERR_IO;
    }
    if (!S_ISREG(status.st_mode)) {
        close(fd);
        return err_set(info, ERR_IO, where, "is not a regular file");
    }
    *out_fd = fd;
    *out_bytes = (uint64_t)status.st_size;
    return ERR_OK;
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
