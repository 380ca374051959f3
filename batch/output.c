/*
 * See the header. The temporary name is the one thing a signal's handler needs, so it is a variable
 * of this file.
 */
#include "batch/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include "engine/base/attr.h"

static const int deadly[] = {SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGXFSZ};
static char temporary[4096];

enum err output_fail(struct err_info *info)
{
    return err_set(info, ERR_IO, "output", "cannot be written: %s", strerror(errno));
}

/* SA_RESETHAND: the second time, after return, it does what it does by default. */
static void remove_and_die(int number)
{
    (void)unlink(temporary);
    (void)raise(number);
}

/* One that is ignored, as by nohup, stays so. */
static void watch(bool on)
{
    for (size_t i = 0; i < ARRAY_COUNT(deadly); i++) {
        struct sigaction action = {
            .sa_handler = on ? remove_and_die : SIG_DFL, .sa_flags = on ? (int)SA_RESETHAND : 0};
        struct sigaction before;
        (void)sigemptyset(&action.sa_mask);
        if (sigaction(deadly[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
            (void)sigaction(deadly[i], &action, NULL);
        }
    }
}

enum err output_open(const char *path, struct output *out_output, struct err_info *info)
{
    struct stat status;
    if (path[0] == '\0') {
        /* What is written at once is a write of its own, so whoever is interrupted leaves whole
         * lines. */
        (void)setvbuf(stdout, NULL, _IONBF, 0);
        *out_output = (struct output){.file = stdout, .path = path};
        return ERR_OK;
    }
    if (lstat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        return err_set(info, ERR_IO, "output", "is there and no regular file");
    }
    int bytes = snprintf(temporary, sizeof(temporary), "%s.%ld.part", path, (long)getpid());
    if (bytes < 0 || (size_t)bytes >= sizeof(temporary)) {
        return err_set(info, ERR_IO, "output", "its path is too long");
    }
    watch(true);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file == NULL) {
        enum err err = output_fail(info);
        if (fd >= 0) {
            (void)close(fd);
            (void)unlink(temporary);
        }
        watch(false);
        return err;
    }
    *out_output = (struct output){.file = file, .path = path};
    return ERR_OK;
}

enum err output_close(struct output *output, bool whole, struct err_info *info)
{
    if (output->path[0] == '\0') {
        return !whole || fflush(output->file) == 0 ? ERR_OK : output_fail(info);
    }
    enum err err = ERR_OK;
    if (whole && (fflush(output->file) != 0 || fsync(fileno(output->file)) != 0 ||
                     rename(temporary, output->path) != 0)) {
        err = output_fail(info);
    }
    (void)fclose(output->file);
    if (err != ERR_OK || !whole) {
        (void)unlink(temporary);
    }
    watch(false);
    return err;
}
