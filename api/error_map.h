/* The only place that knows HTTP status codes: err and family to status and error body. */
#ifndef API_ERROR_MAP_H
#define API_ERROR_MAP_H

#include "api/endpoint.h"

int error_status(enum err err, enum family family);
/* The family's body, e.g. {"error":"...","error_type":"validation","code":...,"param":...}. */
void error_body(const struct err_info *info, enum family family, int status, struct buf *out);
/* For statuses that have no err (404, 405, 406, 411, 413, 414, 415, 417, 431, 501, 505). */
void error_body_http(
    int status, const char *text, const char *param, enum family family, struct buf *out);

#endif
