/*
 * Renders a template with the values of JSON lines, for check_templates.py:
 *     render_template TEMPLATE SECONDS < VALUES
 *     render_template MODEL.gguf        prints the model's template, if it has one
 * A line of output for each line of input: {"text":...}, or {"error":word,"message":...}. A
 * template that is refused gives one such line for itself. Texts among the values are a client's
 * but for roles and tokens; what is a client's in the output stands in "client".
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/load/gguf.h"
#include "engine/template/template.h"

static struct value convert(struct arena *arena, const json_t *json)
{
    struct value value = value_none();
    const char *key;
    json_t *inner;
    size_t i;
    bool good = true;
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        value = value_map(map_new(arena));
        json_object_foreach((json_t *)(uintptr_t)json, key, inner)
        {
            struct value name;
            char *copy = arena_copy(arena, key, strlen(key));
            bool own = json_is_string(inner) &&
                       (strcmp(key, "role") == 0 || strstr(key, "_token") != NULL);
            good = good && copy != NULL && value_foreign(arena, copy, strlen(copy), &name) &&
                   map_set(arena, value.map, name,
                       own ? value_words(json_string_value(inner)) : convert(arena, inner));
        }
        break;
    case JSON_ARRAY:
        value = value_list(list_new(arena, LIST_PLAIN));
        json_array_foreach(json, i, inner)
        {
            good = good && list_add(arena, value.list, convert(arena, inner));
        }
        break;
    case JSON_STRING:
        good = value_foreign(arena, json_string_value(json), json_string_length(json), &value);
        break;
    case JSON_INTEGER:
        value = value_integer(json_integer_value(json));
        break;
    case JSON_REAL:
        value = value_real(json_real_value(json));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        value = value_bool(json_is_true(json));
        break;
    case JSON_NULL:
        break;
    }
    if (!good) {
        abort();
    }
    value.foreign = true;
    return value;
}

static void print_error(const struct err_info *info)
{
    json_t *line = json_pack("{ssss}", "error", err_word(info->code), "message", info->text);
    json_dumpf(line, stdout, JSON_COMPACT);
    printf("\n");
    json_decref(line);
}

static void render(const struct template *template, const char *line, int64_t now)
{
    struct arena arena;
    struct rendered rendered;
    struct err_info info = {0};
    json_error_t error;
    json_t *json = json_loads(line, 0, &error);
    arena_init(&arena, MEM_OTHER, 4096, (size_t)64 << 20);
    struct value values = convert(&arena, json);
    if (template_render(template, values.map, now, NULL, &arena, &rendered, &info) != ERR_OK) {
        print_error(&info);
    } else {
        char *client = arena_alloc(&arena, rendered.count + 1);
        size_t client_bytes = 0;
        for (size_t i = 0; client != NULL && i < rendered.count; i++) {
            if (rendered.foreign[i] != 0) {
                client[client_bytes++] = rendered.bytes[i];
            }
        }
        json_t *text = json_stringn(rendered.bytes, rendered.count);
        json_t *reply =
            json_pack("{soso}", "text", text, "client", json_stringn(client, client_bytes));
        json_dumpf(reply, stdout, JSON_COMPACT);
        printf("\n");
        json_decref(reply);
    }
    json_decref(json);
    arena_drop(&arena);
}

static char *read_file(const char *path, size_t *out_bytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    char *bytes = malloc(1 << 20);
    *out_bytes = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

static int print_source(const char *path)
{
    struct gguf *gguf;
    struct gguf_string source = {NULL, 0};
    struct err_info info = {0};
    if (gguf_open(path, &gguf, &info) != ERR_OK ||
        gguf_get_string(gguf, "tokenizer.chat_template", false, &source, &info) != ERR_OK) {
        return 1;
    }
    if (source.bytes != NULL) {
        (void)fwrite(source.bytes, 1, source.count, stdout);
    }
    gguf_close(gguf);
    return 0;
}

int main(int argc, char **argv)
{
    struct template *template;
    struct err_info info = {0};
    size_t bytes;
    size_t capacity = 0;
    char *line = NULL;
    if (argc == 2) {
        return print_source(argv[1]);
    }
    if (argc != 3) {
        return 2;
    }
    char *source = read_file(argv[1], &bytes);
    enum err err = template_open(source, bytes, &template, &info);
    free(source);
    if (err != ERR_OK) {
        print_error(&info);
        return 0;
    }
    while (getline(&line, &capacity, stdin) > 0) {
        render(template, line, strtoll(argv[2], NULL, 10));
    }
    free(line);
    template_close(template);
    return 0;
}
