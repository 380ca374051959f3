/*
 * Request bytes to a request struct, driven by the tables made from schemas/: the one interpreter
 * behind every route. Absent fields have their defaults; null counts as absent; unknown fields are
 * collected, refused ones are an error unless their value changes nothing.
 */
#ifndef API_BIND_H
#define API_BIND_H

#include "api/schema.h"

struct bound {
    void *request;              /* the struct of the schema's name, in the arena */
    const char *ignored_fields; /* comma-separated names of unknown fields, NULL = none */
    int32_t ignored_count;
};

/* ERR_JSON (with a position), ERR_INVALID, ERR_UNSUPPORTED_FIELD (both with a JSON pointer) or
 * ERR_NO_MEMORY. The JSON tree is gone when it returns; texts are copies in `arena`. */
MUST_USE enum err bind_request(struct arena *arena, const struct schema *schema, const char *body,
    size_t bytes, struct bound *out_bound, struct err_info *info);

#endif
