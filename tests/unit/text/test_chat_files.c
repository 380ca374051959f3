/*
 * Goal: a checkpoint's chat template is found where transformers looks for it, in its order; what
 * is no template is an error naming file and key, what is one that cannot be rendered is kept with
 * the reason.
 * Method: a tiny folder with files put beside it, and GGUF files of a key; what is opened is
 * rendered.
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
#include "engine/checkpoint_chat.h"
#include "engine/engine_limits.h"
#include "engine/load/checkpoint.h"
#include "tests/unit/load/gguf_writer.h"
#include "tests/unit/load/hub_files.h"
#include "tests/unit/text/text_rig.h"

#define JINJA "chat_template.jinja"
#define JSON "chat_template.json"
#define CONFIG "tokenizer_config.json"
#define NAMED(name, template) "{\"name\":\"" name "\",\"template\":\"" template "\"}"

/* What the template makes of "hi" from a user; "" without a template, or why it is refused. */
static void describe(const struct chat_template *template, char out[ERR_TEXT_BYTES])
{
    const struct chat_text text = {"hi", 2};
    const struct chat_message message = {.role = CHAT_USER, .texts = &text, .text_count = 1};
    const struct chat chat = {.messages = &message, .count = 1};
    struct arena arena;
    struct rendered rendered;
    out[0] = '\0';
    if (template == NULL) {
        return;
    }
    if (chat_template_refusal(template) != NULL) {
        (void)snprintf(out, ERR_TEXT_BYTES, "%s", chat_template_refusal(template));
        return;
    }
    arena_init(&arena, MEM_OTHER, 4096, (size_t)1 << 20);
    assert_int_equal(chat_template_render(template, &chat, NULL, &arena, &rendered, NULL), ERR_OK);
    (void)snprintf(out, ERR_TEXT_BYTES, "%s", rendered.bytes);
    arena_drop(&arena);
}

static void expect(const char *path, const char *what, enum err err, const char *expected)
{
    struct text_rig rig = {0};
    struct gguf *gguf = NULL;
    struct chat_template *template = NULL;
    struct err_info info = {0};
    char text[ERR_TEXT_BYTES];
    text_rig_spm(&rig, true);
    struct tokenizer *tokenizer = text_rig_open(&rig);
    assert_int_equal(checkpoint_open(path, &gguf, NULL), ERR_OK);
    const enum err got = checkpoint_chat_open(path, gguf, tokenizer, &template, &info);
    describe(template, text);
    if (got != err || strcmp(err == ERR_OK ? text : info.where, expected) != 0) {
        fail_msg("%s: %s at %s, \"%s\"; expected %s, %s", what, err_word(got), info.where, text,
            err_word(err), expected);
    }
    chat_template_close(template);
    gguf_close(gguf);
    tokenizer_close(tokenizer);
}

/* ---- folders ---- */

static const struct {
    const char *jinja, *json, *config; /* NULL: there is no such file */
    enum err err;
    const char *expected; /* text or place */
} folders[] = {
    {NULL, NULL, NULL, ERR_OK, ""},
    {"A{{messages[0].content}}", NULL, NULL, ERR_OK, "Ahi"},
    {NULL, "{\"chat_template\":\"B{{messages[0].content}}\"}", NULL, ERR_OK, "Bhi"},
    {NULL, NULL, "{\"chat_template\":\"C{{messages[0].content}}\"}", ERR_OK, "Chi"},
    {"A", "{\"chat_template\":\"B\"}", "{\"chat_template\":\"C\"}", ERR_OK, "A"},
    {NULL, "{\"chat_template\":\"B\"}", "{\"chat_template\":\"C\"}", ERR_OK, "B"},
    {NULL, "{}", "{\"chat_template\":\"C\"}", ERR_OK, "C"},
    {NULL, NULL, "{\"chat_template\":null}", ERR_OK, ""},
    {NULL, NULL, "{\"chat_template\":\"{{bos_token}}{{eos_token}}\"}", ERR_OK, "<s></s>"},
    {NULL, NULL, "{\"chat_template\":[" NAMED("tool_use", "T") "," NAMED("default", "D") "]}",
        ERR_OK, "D"},
    {NULL, NULL, "{\"chat_template\":[" NAMED("tool_use", "T") "]}", ERR_OK, ""},
    {NULL, NULL, "{\"chat_template\":[]}", ERR_OK, ""},
    {NULL, NULL, "{\"chat_template\":3}", ERR_FORMAT, CONFIG ": chat_template"},
    {NULL, NULL, "{\"chat_template\":true}", ERR_FORMAT, CONFIG ": chat_template"},
    {NULL, "{\"chat_template\":{\"default\":\"x\"}}", NULL, ERR_FORMAT, JSON ": chat_template"},
    {NULL, NULL, "{\"chat_template\":[\"x\"]}", ERR_FORMAT, CONFIG ": chat_template"},
    {NULL, NULL, "{\"chat_template\":[" NAMED("default", "D") ",{\"name\":\"x\"}]}", ERR_FORMAT,
        CONFIG ": chat_template"},
    {NULL, NULL, "{\"chat_template\":[{\"name\":1,\"template\":\"D\"}]}", ERR_FORMAT,
        CONFIG ": chat_template"},
    {NULL, "[]", NULL, ERR_FORMAT, JSON},
    {NULL, "no JSON", NULL, ERR_FORMAT, JSON},
    {"{{ messages | shuffle }}", NULL, NULL, ERR_OK, "line 1: the filter 'shuffle'"},
    {NULL, "{\"chat_template\":\"\\n{% if %}\"}", "{\"chat_template\":\"C\"}", ERR_OK,
        "line 2: an expression that is not one"},
};

static void test_folders(void **state)
{
    static const char *const names[] = {JINJA, JSON, CONFIG};
    for (size_t i = 0; i < ARRAY_COUNT(folders); i++) {
        const char *const texts[] = {folders[i].jinja, folders[i].json, folders[i].config};
        struct hub_files files;
        char what[32];
        hub_files_open(&files);
        for (size_t k = 0; k < ARRAY_COUNT(names); k++) {
            if (texts[k] != NULL) {
                hub_files_text(&files, names[k], texts[k]);
            }
        }
        (void)snprintf(what, sizeof(what), "case %zu", i);
        expect(files.folder, what, folders[i].err, folders[i].expected);
        hub_files_close(&files);
    }
}

/* The file may be as large as any of a tokenizer; the template in it has a limit of its own. */
static void test_sizes(void **state)
{
    struct hub_files files;
    char *text = malloc(LIMIT_TEMPLATE_BYTES + 2);
    assert_non_null(text);
    memset(text, 'x', LIMIT_TEMPLATE_BYTES + 1);
    text[LIMIT_TEMPLATE_BYTES + 1] = '\0';
    hub_files_open(&files);
    hub_files_text(&files, JINJA, text);
    expect(files.folder, "one byte too many", ERR_OK, "line 1: 262145 bytes; at most 262144");
    hub_files_put(&files, JINJA, text, 0);
    expect(files.folder, "an empty file", ERR_OK, "");
    hub_files_close(&files);
    free(text);
}

/* The folder was there when its weights were read. */
static void test_folder_gone(void **state)
{
    struct hub_files files;
    struct gguf *gguf = NULL;
    struct chat_template *template = NULL;
    struct err_info info = {0};
    hub_files_open(&files);
    assert_int_equal(checkpoint_open(files.folder, &gguf, NULL), ERR_OK);
    assert_int_equal(
        checkpoint_chat_open("/tmp/no-such-folder", gguf, NULL, &template, &info), ERR_IO);
    assert_string_equal(info.where, CONFIG);
    assert_null(template);
    gguf_close(gguf);
    hub_files_close(&files);
}

/* ---- GGUF files ---- */

static void test_key(void **state)
{
    static const struct {
        const char *text; /* NULL: a number */
        enum err err;
        const char *expected;
    } cases[] = {
        {"G{{messages[0].content}}", ERR_OK, "Ghi"},
        {"{% for a in b recursive %}{% endfor %}", ERR_OK, "line 1: a recursive loop"},
        {NULL, ERR_FORMAT, "tokenizer.chat_template"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct gguf_writer w;
        char path[64];
        const int64_t shape[] = {1};
        const float number = 1;
        gguf_writer_init(&w);
        gguf_writer_string(&w, "general.architecture", "llama");
        if (cases[i].text != NULL) {
            gguf_writer_string(&w, "tokenizer.chat_template", cases[i].text);
        } else {
            gguf_writer_f32(&w, "tokenizer.chat_template", 1);
        }
        gguf_writer_tensor(&w, "x", TENSOR_F32, 1, shape, &number);
        gguf_writer_save(&w, path, sizeof(path));
        gguf_writer_free(&w);
        expect(path, path, cases[i].err, cases[i].expected);
        (void)remove(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_folder_gone),
        cmocka_unit_test(test_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
