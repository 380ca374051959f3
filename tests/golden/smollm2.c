/* See smollm2.h. The mode at work is a static of the test program: cmocka hands no argument to the
 * set-up of a group. */
#include "tests/golden/smollm2.h"
#include "tests/scale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "tests/golden/golden_data.h"

enum {
    ROWS_MAX = 1100,      /* the longest prompt is 1,045 */
    SANITIZED_STRIDE = 8, /* lines */
};

static const struct smollm2_mode modes[] = {
    {"K/V f32", KV_F32, 1e-3, 1e-3, 2e-3, 2e-3, 5e-4, 5e-5},
    {"K/V f16", KV_F16, 0.031, 0.24, 0.017, 0.017, 7.5e-4, 5.2e-3},
};

static struct smollm2 smollm2;

static int open_model(void **state)
{
    char path[GOLDEN_PATH_BYTES];
    assert_true(golden_model(path));
    forward_open(&smollm2.forward, path, getenv("MAGNETD_KERNELS"), smollm2.mode->kv, ROWS_MAX);
    assert_int_equal(smollm2.forward.width, SMOLLM2_WIDTH);
    assert_int_equal(smollm2.forward.vocab, SMOLLM2_VOCAB);
    *state = &smollm2;
    return 0;
}

static int close_model(void **state)
{
    forward_close(&smollm2.forward);
    return 0;
}

int smollm2_main(const struct CMUnitTest *tests, size_t test_count)
{
    char path[GOLDEN_PATH_BYTES];
    if (!golden_model(path)) {
        golden_skip("the default model (deploy/fetch_model.sh, MAGNETD_MODEL)");
    }
    if (!golden_reference("smollm2-reference/causal.jsonl", path)) {
        golden_skip("smollm2-reference of MAGNETD_DATA");
    }
    int failed = 0;
    /* A sanitizer looks at the code, not at the numbers: the last mode, the default, is enough. */
    for (size_t m = test_scale() > 1 ? ARRAY_COUNT(modes) - 1 : 0; m < ARRAY_COUNT(modes); m++) {
        smollm2.mode = &modes[m];
        failed +=
            _cmocka_run_group_tests(modes[m].name, tests, test_count, open_model, close_model);
    }
    return failed != 0;
}

json_t *smollm2_lines(const char *stem)
{
    char name[64], path[GOLDEN_PATH_BYTES];
    snprintf(name, sizeof(name), "smollm2-reference/%s.jsonl", stem);
    assert_true(golden_reference(name, path));
    json_t *lines = golden_json_lines(path);
    for (size_t i = json_array_size(lines); test_scale() > 1 && i-- > 0;) {
        if (i % SANITIZED_STRIDE != 0) {
            assert_int_equal(json_array_remove(lines, i), 0);
        }
    }
    return lines;
}

float *smollm2_rows(const char *stem, size_t width, size_t *out_rows)
{
    char name[64], path[GOLDEN_PATH_BYTES];
    size_t count;
    snprintf(name, sizeof(name), "smollm2-reference/%s_f32.bin", stem);
    assert_true(golden_reference(name, path));
    float *floats = golden_floats(path, &count);
    assert_int_equal(count % width, 0);
    *out_rows = count / width;
    return floats;
}

void smollm2_check_rows(size_t compared, size_t rows)
{
    assert_in_range(compared, test_scale() > 1 ? 1 : rows, rows);
}
