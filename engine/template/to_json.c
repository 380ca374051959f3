/*
 * The filter tojson, as transformers defines it: Python's json.dumps with ensure_ascii=False. What
 * is written for a client's value is the client's, brackets and quotes too.
 */
#include "engine/template/run.h"

#include <math.h>
#include <stdio.h>

struct writer {
    struct run *run;
    bool indents;
    struct text indent; /* of one level */
    int32_t level;
};

static enum err put_string(struct run *run, struct text text, bool foreign)
{
    enum err err = run_put_words(run, "\"", foreign);
    size_t from = 0;
    for (size_t i = 0; i <= text.count && err == ERR_OK; i++) {
        unsigned char c = i < text.count ? (unsigned char)text.bytes[i] : 0;
        if (i < text.count && c >= 0x20 && c != '"' && c != '\\') {
            continue;
        }
        err = run_put(run, text_part(text, from, i));
        from = i + 1;
        if (i == text.count || err != ERR_OK) {
            break;
        }
        static const char named[] = "\"\"\\\\\nn\rr\tt\bb\ff";
        char escape[8];
        (void)snprintf(escape, sizeof(escape), "\\u%04x", c);
        for (size_t k = 0; k + 1 < sizeof(named); k += 2) {
            if ((unsigned char)named[k] == c) {
                (void)snprintf(escape, sizeof(escape), "\\%c", named[k + 1]);
            }
        }
        err = run_put_words(run, escape, text.foreign != NULL && text.foreign[i] != 0);
    }
    return err == ERR_OK ? run_put_words(run, "\"", foreign) : err;
}

static enum err new_line(struct writer *writer)
{
    static const struct text line_break = {.bytes = "\n", .count = 1};
    enum err err = writer->indents ? run_put(writer->run, line_break) : ERR_OK;
    for (int32_t i = 0; writer->indents && i < writer->level && err == ERR_OK; i++) {
        err = run_put(writer->run, writer->indent);
    }
    return err;
}

static enum err put_value(struct writer *writer, const struct value *value);

/* What stands before element `i`, and behind the last one. */
static enum err put_border(struct writer *writer, size_t i, bool foreign)
{
    enum err err =
        i == 0 ? ERR_OK : run_put_words(writer->run, writer->indents ? "," : ", ", foreign);
    return err == ERR_OK ? new_line(writer) : err;
}

static enum err put_key(struct writer *writer, const struct value *key, bool foreign)
{
    struct text text;
    if (key->kind == VALUE_TEXT) {
        return put_string(writer->run, key->text, foreign);
    }
    if (key->kind == VALUE_BOOL || key->kind == VALUE_NONE || key->kind == VALUE_REAL) {
        return run_refuse(writer->run, "tojson of a mapping with such a key");
    }
    enum err err = run_text(writer->run, key, &text);
    return err == ERR_OK ? put_string(writer->run, text, foreign) : err;
}

static enum err put_container(struct writer *writer, const struct value *value)
{
    bool map = value->kind == VALUE_MAP;
    size_t count = map ? value->map->count : value->list->count;
    enum err err = run_put_words(writer->run, map ? "{" : "[", value->foreign);
    writer->level++;
    for (size_t i = 0; i < count && err == ERR_OK; i++) {
        err = put_border(writer, i, value->foreign);
        if (err == ERR_OK && map) {
            err = put_key(writer, &value->map->pairs[i].key, value->foreign);
            if (err == ERR_OK) {
                err = run_put_words(writer->run, ": ", value->foreign);
            }
        }
        if (err == ERR_OK) {
            err = put_value(writer, map ? &value->map->pairs[i].value : &value->list->items[i]);
        }
    }
    writer->level--;
    if (err == ERR_OK && count > 0) {
        err = new_line(writer);
    }
    return err == ERR_OK ? run_put_words(writer->run, map ? "}" : "]", value->foreign) : err;
}

static enum err put_real(struct run *run, const struct value *value)
{
    if (isfinite(value->real)) {
        return run_put_real(run, value);
    }
    const char *words = isnan(value->real) ? "NaN" : value->real < 0 ? "-Infinity" : "Infinity";
    return run_put_words(run, words, value->foreign);
}

static enum err put_scalar(struct run *run, const struct value *value)
{
    char number[32];
    switch ((int)value->kind) {
    case VALUE_NONE:
        return run_put_words(run, "null", value->foreign);
    case VALUE_BOOL:
        return run_put_words(run, value->boolean ? "true" : "false", value->foreign);
    case VALUE_INTEGER:
        (void)snprintf(number, sizeof(number), "%lld", (long long)value->integer);
        return run_put_words(run, number, value->foreign);
    case VALUE_REAL:
        return put_real(run, value);
    case VALUE_TEXT:
        return put_string(run, value->text,
            value->text.foreign != NULL && value->text.count > 0 && value->text.foreign[0] != 0);
    default:
        break;
    }
    return run_fail(run, "tojson of %s", run_kind(value));
}

static enum err put_value(struct writer *writer, const struct value *value)
{
    bool list = value->kind == VALUE_LIST &&
                (value->list->form == LIST_PLAIN || value->list->form == LIST_TUPLE);
    if (value->kind == VALUE_LIST && !list) {
        return run_fail(writer->run, "tojson of a result of a filter that is no list");
    }
    enum err err = run_enter(writer->run);
    if (err == ERR_OK) {
        err = list || value->kind == VALUE_MAP ? put_container(writer, value)
                                               : put_scalar(writer->run, value);
    }
    writer->run->depth--;
    return err;
}

enum err run_to_json(
    struct run *run, const struct value *value, const struct value *indent, struct value *out_value)
{
    struct writer writer = {.run = run};
    struct value blank = value_words(" ");
    struct value level;
    size_t from = run->text.count;
    enum err err = ERR_OK;
    if (indent->kind == VALUE_TEXT) {
        writer.indents = true;
        writer.indent = indent->text;
    } else if (indent->kind == VALUE_INTEGER) {
        writer.indents = true;
        err = run_binary(run, BINARY_MULTIPLY, &blank, indent, &level);
        writer.indent = err == ERR_OK ? level.text : writer.indent;
    } else if (indent->kind != VALUE_UNDEFINED && indent->kind != VALUE_NONE) {
        return run_fail(run, "an indentation that is %s", run_kind(indent));
    }
    if (err == ERR_OK) {
        err = put_value(&writer, value);
    }
    return run_take_value(run, err, from, out_value);
}
