/*
 * Goal: a model file that somebody truncates or overwrites while it is read ends in an error or in
 * a model that runs, never in the end of the process; once it is loaded, nothing that happens to
 * the file matters (R36).
 * Method: pread is ours here. At each of the loader's reads in turn, just before it, the file is
 * cut to nothing or to half, filled with ones, with random bytes, or with another good model.
 *
 * usage: test_moments OTHER.gguf PATH...   PATH is a file or a folder; copies are spoilt
 */
#include <setjmp.h>
#include <stdarg.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "engine/checkpoint_text.h"
#include "engine/load/checkpoint.h"
#include "engine/text/tokenizer.h"
#include "tests/golden/forward_helper.h"
#include "tests/golden/golden_data.h"

enum { ROWS = 6, PATH_BYTES = GOLDEN_PATH_BYTES };

enum strike { STRIKE_EMPTY, STRIKE_HALF, STRIKE_ONES, STRIKE_RANDOM, STRIKE_OTHER, STRIKE_COUNT };

static const char *const words[] = {"empty", "half", "ones", "random bytes", "another model"};

static struct {
    const char *other; /* a good file, for STRIKE_OTHER */
    char folder[PATH_BYTES], path[PATH_BYTES], target[PATH_BYTES];
    enum strike strike;
    int64_t reads, moment; /* 0 = never */
} rig;

/* ---- what happens to the file ---------------------------------------------------------------- */

static void overwrite(const unsigned char *bytes, size_t count)
{
    const int fd = open(rig.target, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, count), (ssize_t)count);
    close(fd);
}

static void strike(void)
{
    struct stat status;
    assert_int_equal(stat(rig.target, &status), 0);
    const size_t count = (size_t)status.st_size;
    if (rig.strike == STRIKE_EMPTY || rig.strike == STRIKE_HALF) {
        assert_int_equal(
            truncate(rig.target, rig.strike == STRIKE_EMPTY ? 0 : status.st_size / 2), 0);
        return;
    }
    if (rig.strike == STRIKE_OTHER) {
        size_t other;
        unsigned char *bytes = golden_bytes(rig.other, &other);
        overwrite(bytes, other);
        free(bytes);
        return;
    }
    unsigned char *bytes = malloc(count + 1);
    assert_non_null(bytes);
    uint64_t random = (uint64_t)rig.moment;
    for (size_t i = 0; i < count; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        bytes[i] = rig.strike == STRIKE_ONES ? 0xFF : (unsigned char)(random >> 56);
    }
    overwrite(bytes, count);
    free(bytes);
}

/* In place of the C library's, for the loader too. */
ssize_t pread(int fd, void *out, size_t count, off_t from)
{
    rig.reads++;
    if (rig.reads == rig.moment) {
        strike();
    }
    return syscall(SYS_pread64, fd, out, count, from);
}

/* ---- one load ------------------------------------------------------------------------------- */

static void copy(const char *from)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)execlp("cp", "cp", "-rL", from, rig.path, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void forget(void)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)execlp("rm", "rm", "-rf", rig.path, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* A copy of `from`; its weights are what is struck. */
static void prepare(const char *from)
{
    struct stat status;
    copy(from);
    assert_int_equal(stat(rig.path, &status), 0);
    (void)snprintf(rig.target, sizeof(rig.target), "%.200s%s", rig.path,
        S_ISDIR(status.st_mode) ? "/model.safetensors" : "");
    rig.reads = 0;
}

static void run_once(struct forward *forward, float *hidden)
{
    const int32_t vocab = model_info(forward->model)->vocab;
    const int32_t tokens[ROWS] = {0, vocab - 1, vocab / 2, 1 % vocab, vocab / 3, 0};
    struct forward_sequence sequence = {
        .tokens = tokens, .count = ROWS, .read_from = ROWS - 1, .read_count = 1, .hidden = hidden};
    forward_run(forward, &sequence, 1);
}

static enum err open_all(struct forward *forward, struct err_info *info)
{
    struct tokenizer *tokenizer = NULL;
    *info = (struct err_info){0};
    assert_int_equal(kernels_select("ref", &forward->kernels, NULL), ERR_OK);
    enum err err = checkpoint_open(rig.path, &forward->gguf, info);
    if (err == ERR_OK) {
        err = model_open(forward->gguf, &forward->kernels, NULL, false, &forward->model, info);
    }
    if (err == ERR_OK) {
        err = checkpoint_text_open(
            rig.path, forward->gguf, model_info(forward->model)->vocab, &tokenizer, info);
    }
    tokenizer_close(tokenizer);
    return err;
}

static void close_all(struct forward *forward)
{
    pages_close(&forward->pages);
    scratch_close(forward->scratch);
    model_close(forward->model);
    gguf_close(forward->gguf);
    threads_close(forward->threads);
}

/* True when the file loaded in spite of it. */
static bool load_at(int64_t moment)
{
    struct forward forward = {.odd = true};
    struct err_info info;
    rig.moment = moment;
    const enum err err = open_all(&forward, &info);
    rig.moment = 0;
    if (err == ERR_OK) {
        float *hidden = calloc((size_t)model_info(forward.model)->hidden, sizeof(float));
        assert_non_null(hidden);
        assert_int_equal(threads_open(1, &forward.threads), ERR_OK);
        forward_begin(&forward, KV_F32, ROWS);
        run_once(&forward, hidden);
        free(hidden);
    } else if (info.where[0] == '\0' || info.text[0] == '\0' ||
               strstr(info.text, rig.folder) != NULL) {
        fail_msg(
            "%s at read %d: \"%s\": %s", words[rig.strike], (int)moment, info.where, info.text);
    }
    close_all(&forward);
    return err == ERR_OK;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void check_every_moment(const char *from)
{
    int counts[2] = {0, 0};
    for (rig.strike = STRIKE_EMPTY; rig.strike < STRIKE_COUNT; rig.strike++) {
        int64_t moment = 0;
        do { /* until there are no more reads */
            moment++;
            prepare(from);
            counts[load_at(moment) ? 1 : 0]++;
            forget();
        } while (rig.reads >= moment);
        assert_true(moment > 3);
    }
    print_message("%s: %d loads ended in errors, %d did not\n", from, counts[0], counts[1]);
    assert_true(counts[0] > 0 && counts[1] > 0);
}

/* The same bits before and after. */
static void check_afterwards(const char *from)
{
    for (rig.strike = STRIKE_EMPTY; rig.strike < STRIKE_COUNT; rig.strike++) {
        struct forward forward = {0};
        struct err_info info;
        prepare(from);
        assert_int_equal(open_all(&forward, &info), ERR_OK);
        assert_int_equal(threads_open(1, &forward.threads), ERR_OK);
        forward_begin(&forward, KV_F32, ROWS);
        const size_t width = (size_t)model_info(forward.model)->hidden;
        float *rows = calloc(2 * width, sizeof(float));
        assert_non_null(rows);
        run_once(&forward, rows);
        strike();
        run_once(&forward, rows + width);
        assert_memory_equal(rows, rows + width, width * sizeof(float));
        free(rows);
        close_all(&forward);
        forget();
    }
}

static void test_while_loading(void **state)
{
    for (char *const *path = *state; *path != NULL; path++) {
        check_every_moment(*path);
    }
}

static void test_once_loaded(void **state)
{
    for (char *const *path = *state; *path != NULL; path++) {
        check_afterwards(*path);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        (void)fprintf(stderr, "usage: %s OTHER.gguf PATH...\n", argv[0]);
        return 2;
    }
    const char *folder = getenv("TMPDIR");
    rig.other = argv[1];
    (void)snprintf(
        rig.folder, sizeof(rig.folder), "%.100s/moments-XXXXXX", folder == NULL ? "/tmp" : folder);
    if (mkdtemp(rig.folder) == NULL) {
        perror("mkdtemp");
        return 1;
    }
    (void)snprintf(rig.path, sizeof(rig.path), "%.200s/model", rig.folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_while_loading, argv + 2),
        cmocka_unit_test_prestate(test_once_loaded, argv + 2),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)rmdir(rig.folder);
    return failed;
}
