/*
 * From an error to its HTTP status and its body, in the three dialects clients know. The only file
 * that holds status codes. One table row per error, one column per family; the bodies differ in
 * shape, the row says the rest.
 *
 * What surprises: a field is named by a JSON pointer ("/messages/0/content") in two families and by
 * a path ("messages[0].content") in the third, because that is what its clients parse.
 */
#include "api/error_map.h"

#include <string.h>
#include "api/json_out.h"
#include "engine/base/assert.h"

struct answer {
    int status;
    const char *type;
};

struct error_row {
    struct answer tei, openai, llama;
};

#define BAD_REQUEST "invalid_request_error"
#define BOTH(status, type)                                                                         \
    {status, type},                                                                                \
    {                                                                                              \
        status, type                                                                               \
    }

/* Indexed by enum err. Errors that cannot come from a request (files, flags) are ours: 500. */
static const struct error_row ROWS[] = {
    [ERR_OK] = {{500, "backend"}, BOTH(500, "server_error")},
    [ERR_NO_MEMORY] = {{503, "unhealthy"}, {503, "server_error"}, {503, "unavailable_error"}},
    [ERR_BUSY] = {{429, "overloaded"}, {429, "rate_limit_error"}, {429, "unavailable_error"}},
    [ERR_JSON] = {{400, "validation"}, BOTH(400, BAD_REQUEST)},
    [ERR_INVALID] = {{400, "validation"}, BOTH(400, BAD_REQUEST)},
    [ERR_UNSUPPORTED_FIELD] = {{400, "validation"}, BOTH(400, BAD_REQUEST)},
    [ERR_EMPTY] = {{400, "empty"}, BOTH(400, BAD_REQUEST)},
    [ERR_LIMIT] = {{422, "validation"}, BOTH(400, BAD_REQUEST)},
    [ERR_CONTEXT] = {{422, "validation"}, {400, BAD_REQUEST}, {400, "exceed_context_size_error"}},
    [ERR_NOT_CAPABLE] = {{424, "backend"}, BOTH(501, "not_supported_error")},
    [ERR_NOT_FOUND] = {{404, "http"}, {404, BAD_REQUEST}, {404, "not_found_error"}},
    [ERR_TOKENIZER] = {{422, "tokenizer"}, BOTH(400, BAD_REQUEST)},
    [ERR_NON_FINITE] = {{424, "backend"}, BOTH(500, "server_error")},
    [ERR_UNSATISFIABLE] = {{422, "validation"}, BOTH(400, BAD_REQUEST)},
    [ERR_CANCELLED] = {{503, "unhealthy"}, {503, "server_error"}, {503, "unavailable_error"}},
    [ERR_DEADLINE] = {{504, "timeout"}, BOTH(504, "server_error")},
    [ERR_SHUTDOWN] = {{503, "unhealthy"}, {503, "server_error"}, {503, "unavailable_error"}},
    [ERR_IO] = {{500, "backend"}, BOTH(500, "server_error")},
    [ERR_FORMAT] = {{500, "backend"}, BOTH(500, "server_error")},
    [ERR_UNSUPPORTED] = {{500, "backend"}, BOTH(500, "server_error")},
    [ERR_CONFIG] = {{500, "backend"}, BOTH(500, "server_error")},
    [ERR_INTERNAL] = {{500, "backend"}, BOTH(500, "server_error")},
};
_Static_assert(ARRAY_COUNT(ROWS) == ERR_COUNT, "every error has a row");

/* Errors that only HTTP has: the first row whose status matches, the last one for all others. */
static const struct http_row {
    int status;
    const char *tei, *openai, *llama;
} HTTP_ROWS[] = {
    {400, "validation", BAD_REQUEST, BAD_REQUEST},
    {401, "unauthorized", BAD_REQUEST, "authentication_error"},
    {404, "http", BAD_REQUEST, "not_found_error"},
    {429, "overloaded", "rate_limit_error", "unavailable_error"},
    {500, "backend", "server_error", "server_error"},
    {501, "http", "not_supported_error", "not_supported_error"},
    {503, "unhealthy", "server_error", "unavailable_error"},
    {504, "timeout", "server_error", "server_error"},
    {0, "http", BAD_REQUEST, BAD_REQUEST},
};

static const struct answer *answer_of(enum err err, enum family family)
{
    ASSERT((unsigned)err < ERR_COUNT);
    const struct error_row *row = &ROWS[err];
    switch (family) {
    case FAMILY_TEI:
        return &row->tei;
    case FAMILY_OPENAI:
        return &row->openai;
    case FAMILY_LLAMA:
        break;
    }
    return &row->llama;
}

int error_status(enum err err, enum family family)
{
    return answer_of(err, family)->status;
}

/* "/messages/0/content" as "messages[0].content". Escapes of the pointer are undone. */
static void path_of_pointer(const char *pointer, struct buf *out)
{
    const char *at = pointer;
    while (*at == '/') {
        at++;
        size_t bytes = strcspn(at, "/");
        bool index = bytes > 0 && strspn(at, "0123456789") >= bytes;
        if (index) {
            buf_char(out, '[');
        } else if (out->count > 0) {
            buf_char(out, '.');
        }
        for (size_t i = 0; i < bytes; i++) {
            bool escaped = at[i] == '~' && i + 1 < bytes && (at[i + 1] == '0' || at[i + 1] == '1');
            buf_char(out, escaped ? (at[i + 1] == '0' ? '~' : '/') : at[i]);
            i += escaped ? 1 : 0;
        }
        if (index) {
            buf_char(out, ']');
        }
        at += bytes;
    }
}

static void write_param(struct json_out *json, const char *where, enum family family)
{
    json_out_key(json, "param");
    if (where == NULL || where[0] == '\0') {
        json_out_null(json);
    } else if (family != FAMILY_OPENAI || where[0] != '/') {
        json_out_string(json, where);
    } else {
        struct buf path;
        buf_init(&path, MEM_REQUESTS, ERR_WHERE_BYTES * 2);
        path_of_pointer(where, &path);
        json_out_bytes(json, path.bytes == NULL ? "" : path.bytes, path.count);
        buf_free(&path);
    }
}

/* Members only some errors have: the place of a syntax error, the two counts of a limit. */
static void write_details(struct json_out *json, const struct err_info *info, enum family family)
{
    if (info->code == ERR_JSON && info->offset >= 0) {
        json_out_key(json, "line");
        json_out_int(json, info->line);
        json_out_key(json, "column");
        json_out_int(json, info->column);
        json_out_key(json, "offset");
        json_out_int(json, info->offset);
    }
    if (info->code == ERR_CONTEXT && family == FAMILY_LLAMA) {
        json_out_key(json, "n_prompt_tokens");
        json_out_int(json, info->have);
        json_out_key(json, "n_ctx");
        json_out_int(json, info->limit);
    }
}

struct body {
    enum family family;
    int status;
    const char *text, *type, *code, *param;
    const struct err_info *info; /* NULL = no details */
};

static void write_body(const struct body *body, struct buf *out)
{
    struct json_out json;
    json_out_init(&json, out);
    json_out_object(&json);
    json_out_key(&json, "error");
    if (body->family == FAMILY_TEI) {
        json_out_string(&json, body->text);
        json_out_key(&json, "error_type");
        json_out_string(&json, body->type);
        json_out_key(&json, "code");
        json_out_string(&json, body->code);
    } else {
        json_out_object(&json);
        if (body->family == FAMILY_LLAMA) {
            json_out_key(&json, "code");
            json_out_int(&json, body->status);
        }
        json_out_key(&json, "message");
        json_out_string(&json, body->text);
        json_out_key(&json, "type");
        json_out_string(&json, body->type);
        if (body->family == FAMILY_OPENAI) {
            json_out_key(&json, "code");
            json_out_string(&json, body->code);
        }
    }
    write_param(&json, body->param, body->family);
    if (body->info != NULL) {
        write_details(&json, body->info, body->family);
    }
    if (body->family != FAMILY_TEI) {
        json_out_end(&json);
    }
    json_out_end(&json);
}

void error_body(const struct err_info *info, enum family family, int status, struct buf *out)
{
    const struct answer *answer = answer_of(info->code, family);
    const struct body body = {
        .family = family,
        .status = status,
        .text = info->text[0] != '\0' ? info->text : err_word(info->code),
        .type = answer->type,
        .code = info->word[0] != '\0' ? info->word : err_word(info->code),
        .param = info->where,
        .info = info,
    };
    write_body(&body, out);
}

void error_body_http(
    int status, const char *text, const char *param, enum family family, struct buf *out)
{
    const struct http_row *row = HTTP_ROWS;
    while (row->status != 0 && row->status != status) {
        row++;
    }
    const struct body body = {
        .family = family,
        .status = status,
        .text = text,
        .type = family == FAMILY_TEI      ? row->tei
                : family == FAMILY_OPENAI ? row->openai
                                          : row->llama,
        .code = family == FAMILY_OPENAI && status == 401 ? "invalid_api_key" : NULL,
        .param = param,
    };
    write_body(&body, out);
}
