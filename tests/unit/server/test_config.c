/*
 * The configuration table. Goal: every number has working bounds, flags beat the environment, and
 * a configuration that would listen to the world without saying so is refused. Method: for each
 * number min - 1, min, max, max + 1, taken from the flag's own error text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "engine/base/attr.h"
#include "server/config.h"

static enum err read_flags(
    struct config *out, struct err_info *info, const char *first, const char *second)
{
    char program[] = "magnetd", model[] = "--model=m", a[256], b[256];
    char *arguments[5] = {program, model, a, b, NULL};
    snprintf(a, sizeof(a), "%s", first != NULL ? first : "");
    snprintf(b, sizeof(b), "%s", second != NULL ? second : "");
    int count = 2 + (first != NULL) + (second != NULL);
    return config_read(count, arguments, out, info);
}

static void test_defaults(void **state)
{
    (void)state;
    struct config config;
    struct err_info info;
    assert_int_equal(read_flags(&config, &info, NULL, NULL), ERR_OK);
    assert_string_equal(config.host, "127.0.0.1");
    assert_string_equal(config.kv_type, "f16");
    assert_string_equal(config.activations, "f32");
    assert_string_equal(config.kernels, "auto");
    assert_int_equal(config.port, 8080);
    assert_int_equal(config.max_body_bytes, 4 << 20);
    assert_int_equal(config.max_connections, 1024);
    assert_int_equal(config.drain_delay_ms, 2000);
    assert_int_equal(config.drain_timeout_ms, 30000);
    assert_int_equal(config.jobs, 512);
    assert_false(config.allow_remote);
}

/* A list takes LIMIT_ADAPTERS and no more; flags go before the variable, which is one. */
static void test_a_list(void **state)
{
    (void)state;
    struct config config;
    struct err_info info;
    char program[] = "magnetd", model[] = "--model=m", flag[] = "--adapter", value[] = "a/b";
    char *arguments[3 + 2 * (LIMIT_ADAPTERS + 1)] = {program, model};
    for (int count = 0; count <= LIMIT_ADAPTERS + 1; count++) {
        arguments[2 + 2 * count] = NULL;
        assert_int_equal(config_read(2 + 2 * count, arguments, &config, &info),
            count <= LIMIT_ADAPTERS ? ERR_OK : ERR_CONFIG);
        if (count <= LIMIT_ADAPTERS) {
            assert_int_equal(config.adapters.count, count);
            arguments[2 + 2 * count] = flag;
            arguments[3 + 2 * count] = value;
        }
    }
    assert_string_equal(info.where, "adapter");
    assert_int_equal(setenv("MAGNETD_ADAPTER", "c", 1), 0);
    assert_int_equal(read_flags(&config, &info, NULL, NULL), ERR_OK);
    assert_int_equal(config.adapters.count, 1);
    assert_string_equal(config.adapters.texts[0], "c");
    assert_int_equal(read_flags(&config, &info, "--adapter=a", "--adapter=b"), ERR_OK);
    assert_int_equal(config.adapters.count, 2);
    assert_string_equal(config.adapters.texts[1], "b");
    assert_int_equal(unsetenv("MAGNETD_ADAPTER"), 0);
    assert_int_equal(read_flags(&config, &info, "--adapter=", NULL), ERR_CONFIG);
}

static void test_bounds_of_every_number(void **state)
{
    (void)state;
    static const char *const flags[] = {"port", "threads", "context", "cache-mib", "cache-reuse",
        "reserve-tokens", "sequences", "jobs", "jobs-bulk", "step-rows", "step-ms", "queue-ms",
        "first-token-ms", "stall-ms", "workers", "max-body-bytes", "max-connections",
        "drain-delay-ms", "drain-timeout-ms", "stop-timeout-ms"};
    for (size_t i = 0; i < ARRAY_COUNT(flags); i++) {
        struct config config;
        struct err_info info;
        char flag[64], value[32];
        long long min = 0, max = 0;
        snprintf(flag, sizeof(flag), "--%s", flags[i]);
        assert_int_equal(read_flags(&config, &info, flag, "x"), ERR_CONFIG);
        assert_string_equal(info.where, flags[i]);
        const char *from = strstr(info.text, "from ");
        assert_non_null(from);
        assert_int_equal(sscanf(from, "from %lld to %lld", &min, &max), 2);
        const long long values[] = {min - 1, min, max, max + 1};
        for (int k = 0; k < 4; k++) {
            snprintf(value, sizeof(value), "%lld", values[k]);
            enum err err = read_flags(&config, &info, flag, value);
            assert_int_equal(err, k == 0 || k == 3 ? ERR_CONFIG : ERR_OK);
        }
        assert_int_equal(read_flags(&config, &info, flag, "99999999999999999999"), ERR_CONFIG);
        assert_int_equal(read_flags(&config, &info, flag, "1 "), ERR_CONFIG);
        assert_int_equal(read_flags(&config, &info, flag, ""), ERR_CONFIG);
        assert_int_equal(read_flags(&config, &info, flag, NULL), ERR_CONFIG);
    }
}

static void test_environment(void **state)
{
    (void)state;
    struct config config;
    struct err_info info;
    setenv("MAGNETD_DRAIN_DELAY_MS", "17", 1);
    setenv("MAGNETD_ALLOW_REMOTE", "true", 1);
    assert_int_equal(read_flags(&config, &info, NULL, NULL), ERR_OK);
    assert_int_equal(config.drain_delay_ms, 17);
    assert_true(config.allow_remote);
    assert_int_equal(read_flags(&config, &info, "--drain-delay-ms=18", NULL), ERR_OK);
    assert_int_equal(config.drain_delay_ms, 18);
    setenv("MAGNETD_DRAIN_DELAY_MS", "soon", 1);
    assert_int_equal(read_flags(&config, &info, NULL, NULL), ERR_CONFIG);
    unsetenv("MAGNETD_DRAIN_DELAY_MS");
    unsetenv("MAGNETD_ALLOW_REMOTE");
    setenv("MAGNETD_PRINT_PLAN", "1", 1); /* commands are flags only */
    assert_int_equal(read_flags(&config, &info, NULL, NULL), ERR_OK);
    assert_false(config.print_plan);
    unsetenv("MAGNETD_PRINT_PLAN");
}

static void test_texts_at_their_limit(void **state)
{
    (void)state;
    struct config config;
    struct err_info info;
    char name[129];
    memset(name, 'n', sizeof(name));
    name[128] = '\0';
    assert_int_equal(read_flags(&config, &info, "--served-model-name", name), ERR_CONFIG);
    name[127] = '\0';
    assert_int_equal(read_flags(&config, &info, "--served-model-name", name), ERR_OK);
    assert_string_equal(config.served_model_name, name);
}

static void test_shares(void **state)
{
    (void)state;
    struct config config;
    struct err_info info;
    static const char *const bad[] = {"", "x", "0.5x", "-0.01", "1.01", "nan", "inf"};
    assert_int_equal(read_flags(&config, &info, "--port", "1"), ERR_OK);
    assert_true(config.moderation_threshold == 0.5);
    assert_int_equal(read_flags(&config, &info, "--moderation-threshold", "1"), ERR_OK);
    assert_true(config.moderation_threshold == 1);
    assert_int_equal(read_flags(&config, &info, "--moderation-threshold", "0"), ERR_OK);
    assert_true(config.moderation_threshold == 0);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(read_flags(&config, &info, "--moderation-threshold", bad[i]), ERR_CONFIG);
        assert_string_equal(info.where, "moderation-threshold");
    }
}

static void test_loopback(void **state)
{
    (void)state;
    static const char *const near[] = {"127.0.0.1", "127.255.0.9", "::1", "localhost"};
    static const char *const far[] = {"0.0.0.0", "::", "128.0.0.1", "126.255.255.255", "::2",
        "localhost.example", "", "127.0.0.1x", "::ffff:1.2.3.4"};
    struct config config;
    struct err_info info;
    for (size_t i = 0; i < ARRAY_COUNT(near); i++) {
        assert_true(config_loopback(near[i]));
        assert_int_equal(read_flags(&config, &info, "--host", near[i]), ERR_OK);
    }
    for (size_t i = 0; i < ARRAY_COUNT(far); i++) {
        assert_false(config_loopback(far[i]));
        assert_int_equal(read_flags(&config, &info, "--host", far[i]), ERR_CONFIG);
    }
    assert_int_equal(read_flags(&config, &info, "--host=0.0.0.0", "--allow-remote"), ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_a_list),
        cmocka_unit_test(test_bounds_of_every_number),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_texts_at_their_limit),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
