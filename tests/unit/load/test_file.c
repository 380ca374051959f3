/*
 * Goal: a file is read whole or is an error that names it and the byte, and what is no regular file
 * is not opened.
 * Method: files of all kinds in a temporary folder, read past their ends; a descriptor that is
 * closed stands for a disk that fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "engine/base/mem.h"
#include "engine/load/file.h"

static char root[64];
static int folder;

static const char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    return path;
}

static int setup(void **state)
{
    (void)snprintf(root, sizeof(root), "/tmp/file-XXXXXX");
    assert_non_null(mkdtemp(root));
    FILE *file = fopen(path_of("text"), "w");
    assert_true(file != NULL && fputs("0123456789", file) >= 0 && fclose(file) == 0);
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    assert_int_equal(symlink("text", path_of("link")), 0);
    assert_int_equal(symlink("nothing", path_of("broken")), 0);
    assert_true(file_folder(root, &folder));
    return 0;
}

static int teardown(void **state)
{
    static const char *const names[] = {"text", "fifo", "link", "broken"};
    close(folder);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)unlink(path_of(names[i]));
    }
    return rmdir(root);
}

static void test_what_is_opened(void **state)
{
    static const struct {
        const char *name;
        bool exists, opens;
    } cases[] = {
        {"text", true, true},
        {"link", true, true},
        {"broken", true, false}, /* opening says why */
        {"nothing", false, false},
        {"fifo", true, false},
        {".", true, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err_info info = {0};
        int fd = -1;
        uint64_t bytes = 77;
        assert_int_equal(file_exists(folder, cases[i].name), cases[i].exists);
        const enum err err = file_open_in(folder, cases[i].name, &fd, &bytes, &info);
        assert_int_equal(err, cases[i].opens ? ERR_OK : ERR_IO);
        assert_int_equal(bytes, cases[i].opens ? 10 : 77);
        if (cases[i].opens) {
            close(fd);
        } else {
            assert_string_equal(info.where, cases[i].name);
            assert_int_equal(fd, -1);
        }
    }
    int none;
    assert_false(file_folder(path_of("text"), &none));
    assert_false(file_folder(path_of("nothing"), &none));
}

static void test_what_is_read(void **state)
{
    struct err_info info = {.offset = -1};
    char bytes[16] = "";
    uint64_t count;
    int fd;
    assert_int_equal(file_open(path_of("text"), "it", &fd, &count, &info), ERR_OK);
    assert_int_equal(file_read(fd, 3, 7, bytes, "it", &info), ERR_OK);
    assert_string_equal(bytes, "3456789");
    assert_int_equal(file_read(fd, 10, 0, bytes, "it", &info), ERR_OK);
    assert_int_equal(file_read(fd, 3, 8, bytes, "it", &info), ERR_IO);
    assert_string_equal(info.where, "it");
    assert_int_equal(info.offset, 10); /* where the file ends */
    assert_non_null(strstr(info.text, "shorter"));
    close(fd);
    assert_int_equal(file_read(-1, 3, 4, bytes, "it", &info), ERR_IO);
    assert_int_equal(info.offset, 3);
    assert_non_null(strstr(info.text, "cannot be read"));
}

static void test_whole_files(void **state)
{
    struct err_info info = {0};
    char *bytes = NULL;
    size_t count = 0;
    assert_int_equal(file_load_in(folder, "text", 10, &bytes, &count, &info), ERR_OK);
    assert_int_equal(count, 10);
    assert_memory_equal(bytes, "0123456789", 10);
    mem_free(bytes);
    bytes = NULL;
    assert_int_equal(file_load_in(folder, "text", 9, &bytes, &count, &info), ERR_LIMIT);
    assert_string_equal(info.where, "text");
    assert_null(bytes);
    mem_fail_after(1, 0);
    assert_int_equal(file_load(path_of("text"), "it", 10, &bytes, &count, &info), ERR_NO_MEMORY);
    mem_fail_after(0, 0);
    assert_string_equal(info.where, "it");
    assert_null(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_opened),
        cmocka_unit_test(test_what_is_read),
        cmocka_unit_test(test_whole_files),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
