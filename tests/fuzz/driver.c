/*
 * Replays a kept corpus through a fuzz target without a fuzzer, so that every build runs it. Each
 * argument is a file or a folder of files; each input is copied to a block of its exact size, where
 * a sanitizer sees the first byte read past its end. An empty corpus is a failure: a test that ran
 * nothing has shown nothing.
 */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATH_BYTES = 4096 };

static int run_file(const char *path, size_t bytes)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(bytes == 0 ? 1 : bytes);
    if (file == NULL || data == NULL || fread(data, 1, bytes, file) != bytes) {
        perror(path);
        exit(2);
    }
    fclose(file);
    (void)LLVMFuzzerTestOneInput(data, bytes);
    free(data);
    return 1;
}

static int run_path(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        perror(path);
        exit(2);
    }
    if (!S_ISDIR(status.st_mode)) {
        return run_file(path, (size_t)status.st_size);
    }
    struct dirent **entries = NULL;
    const int count = scandir(path, &entries, NULL, alphasort);
    int inputs = 0;
    for (int i = 0; i < count; i++) {
        char inner[PATH_BYTES];
        const char *name = entries[i]->d_name;
        const int written = snprintf(inner, sizeof(inner), "%s/%s", path, name);
        if (name[0] != '.' && written > 0 && written < PATH_BYTES) {
            inputs += run_path(inner);
        }
        free(entries[i]);
    }
    free(entries);
    return inputs;
}

int main(int argc, char **argv)
{
    int inputs = 0;
    for (int i = 1; i < argc; i++) {
        inputs += run_path(argv[i]);
    }
    printf("%d inputs\n", inputs);
    return inputs > 0 ? 0 : 1;
}
