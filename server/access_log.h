/* One JSON line per request, written when it ends. Holds names, numbers and the request id; never
 * text, tokens, header values or addresses of a user. */
#ifndef SERVER_ACCESS_LOG_H
#define SERVER_ACCESS_LOG_H

#include <stdint.h>

struct request;

void access_log_write(const struct request *request, int64_t now_us);

#endif
