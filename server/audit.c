/*
 * The rules of guard G3. The first refusal wins and is kept; later fields are still counted, so
 * that the caps hold whatever came before.
 *
 * The surprising rule: a field whose name only *starts with* "content-length" is refused. The
 * library glues a folded line to the field's name, so `Content-Length: 35` followed by ` 0` arrives
 * here as `Content-Length0` with a body length of 0, and the 35 bytes would run as a request.
 */
#include "server/audit.h"

#include <string.h>
#include <strings.h>
#include "engine/base/attr.h"
#include "server/server_limits.h"

const char *audit_reason_word(enum audit_reason reason)
{
    static const char *const words[AUDIT_REASON_COUNT] = {
#define X(name, word) word,
        AUDIT_REASON_MAP(X)
#undef X
    };
    return words[reason];
}

static void refuse(struct head *head, int status, enum audit_reason reason, const char *text)
{
    if (head->status == 0) {
        head->status = status;
        head->reason = reason;
        head->text = text;
    }
}

int audit_target(const char *target)
{
    size_t bytes = strlen(target);
    if (bytes > LIMIT_TARGET_BYTES) {
        return 414;
    }
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)target[i];
        if (c < 0x21 || c > 0x7e) {
            return 400;
        }
    }
    return bytes == 0 ? 400 : 0;
}

void audit_begin(struct head *head, const char *method, const char *version)
{
    *head = (struct head){.content_length = -1};
    if (strcmp(method, "GET") == 0) {
        head->method = METHOD_GET;
    } else if (strcmp(method, "HEAD") == 0) {
        head->method = METHOD_HEAD;
    } else {
        head->method = strcmp(method, "POST") == 0 ? METHOD_POST : METHOD_OTHER;
    }
    head->version_10 = strcmp(version, "HTTP/1.0") == 0;
    if (!head->version_10 && strcmp(version, "HTTP/1.1") != 0) {
        refuse(head, 505, AUDIT_VERSION, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    }
}

static bool is_tchar(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_name(const char *name, size_t bytes, const char *wanted)
{
    return strlen(wanted) == bytes && strncasecmp(name, wanted, bytes) == 0;
}

static bool starts(const char *name, size_t bytes, const char *prefix)
{
    size_t prefix_bytes = strlen(prefix);
    return bytes > prefix_bytes && strncasecmp(name, prefix, prefix_bytes) == 0;
}

static bool spelled_well(const char *name, size_t name_bytes, const char *value, size_t value_bytes)
{
    for (size_t i = 0; i < name_bytes; i++) {
        if (!is_tchar((unsigned char)name[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < value_bytes; i++) {
        unsigned char c = (unsigned char)value[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return name_bytes > 0;
}

static void take_length(struct head *head, const char *value, size_t bytes)
{
    int64_t length = 0;
    if (head->lengths++ > 0 || bytes == 0 || bytes > 18) {
        refuse(head, 400, AUDIT_FRAMING, "Content-Length must be one plain number");
        return;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (value[i] < '0' || value[i] > '9') {
            refuse(head, 400, AUDIT_FRAMING, "Content-Length must be one plain number");
            return;
        }
        length = length * 10 + (value[i] - '0');
    }
    head->content_length = length;
}

static void take_coding(struct head *head, const char *value, size_t bytes)
{
    if (head->codings++ > 0 || !is_name(value, bytes, "chunked")) {
        refuse(head, 501, AUDIT_FRAMING, "the only transfer coding is one chunked");
        return;
    }
    head->chunked = true;
}

static void take_expect(struct head *head, const char *value, size_t bytes)
{
    if (!is_name(value, bytes, "100-continue")) {
        refuse(head, 417, AUDIT_EXPECT, "the only expectation is 100-continue");
        return;
    }
    head->expect = true;
}

void audit_field(
    struct head *head, const char *name, size_t name_bytes, const char *value, size_t value_bytes)
{
    head->fields++;
    head->bytes += name_bytes + value_bytes + 4;
    if (head->fields > LIMIT_FIELDS || head->bytes > LIMIT_HEAD_BYTES) {
        refuse(head, 431, AUDIT_SIZE, "too many or too long header fields");
        return;
    }
    if (!spelled_well(name, name_bytes, value, value_bytes)) {
        refuse(head, 400, AUDIT_FIELD, "a header field holds a byte that is not allowed there");
    } else if (starts(name, name_bytes, "content-length") ||
               starts(name, name_bytes, "transfer-encoding")) {
        refuse(head, 400, AUDIT_FRAMING, "a header field imitates one that frames the body");
    } else if (is_name(name, name_bytes, "content-length")) {
        take_length(head, value, value_bytes);
    } else if (is_name(name, name_bytes, "transfer-encoding")) {
        take_coding(head, value, value_bytes);
    } else if (is_name(name, name_bytes, "expect")) {
        take_expect(head, value, value_bytes);
    } else if (is_name(name, name_bytes, "host")) {
        head->hosts++;
    } else if (is_name(name, name_bytes, "content-type")) {
        head->content_type = (struct field){value, value_bytes};
    } else if (is_name(name, name_bytes, "content-encoding")) {
        head->content_encoding = (struct field){value, value_bytes};
    } else if (is_name(name, name_bytes, "accept")) {
        head->accept = (struct field){value, value_bytes};
    } else if (is_name(name, name_bytes, "x-request-id")) {
        head->request_id = (struct field){value, value_bytes};
    } else if (is_name(name, name_bytes, "x-priority")) {
        head->priority = (struct field){value, value_bytes};
    } else if (is_name(name, name_bytes, "traceparent")) {
        head->traceparent = (struct field){value, value_bytes};
    }
}

void audit_end(struct head *head)
{
    if (head->codings > 0 && (head->lengths > 0 || head->version_10)) {
        refuse(head, 400, AUDIT_FRAMING, "Transfer-Encoding with Content-Length or on HTTP/1.0");
    }
    if (!head->version_10 && head->hosts != 1) {
        refuse(head, 400, AUDIT_HOST, "exactly one Host field is required");
    }
    if (head->version_10 && head->hosts > 1) {
        refuse(head, 400, AUDIT_HOST, "more than one Host field");
    }
    if (head->method == METHOD_POST && head->lengths == 0 && head->codings == 0) {
        refuse(head, 411, AUDIT_FRAMING, "POST needs Content-Length or chunked transfer coding");
    }
}

static struct field trim(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t')) {
        from++;
    }
    while (to > from && (to[-1] == ' ' || to[-1] == '\t')) {
        to--;
    }
    return (struct field){from, (size_t)(to - from)};
}

/* The part before the first ';', without blanks. */
static struct field media_type(struct field field)
{
    const char *end = memchr(field.bytes, ';', field.count);
    return trim(field.bytes, end != NULL ? end : field.bytes + field.count);
}

bool audit_is_json(struct field content_type)
{
    if (content_type.bytes == NULL) {
        return true;
    }
    struct field type = media_type(content_type);
    return is_name(type.bytes, type.count, "application/json");
}

bool audit_accepts(struct field accept)
{
    static const char *const admitted[] = {
        "*/*", "application/*", "application/json", "text/*", "text/event-stream"};
    if (accept.bytes == NULL || accept.count == 0) {
        return true;
    }
    const char *end = accept.bytes + accept.count;
    for (const char *at = accept.bytes; at <= end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma != NULL ? comma : end;
        struct field type = media_type((struct field){at, (size_t)(stop - at)});
        for (size_t i = 0; i < ARRAY_COUNT(admitted); i++) {
            if (is_name(type.bytes, type.count, admitted[i])) {
                return true;
            }
        }
        at = stop + 1;
    }
    return false;
}

bool audit_request_id_valid(struct field id)
{
    if (id.bytes == NULL || id.count == 0 || id.count > LIMIT_REQUEST_ID_BYTES) {
        return false;
    }
    for (size_t i = 0; i < id.count; i++) {
        unsigned char c = (unsigned char)id.bytes[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '.' || c == '_' || c == '-')) {
            return false;
        }
    }
    return true;
}
