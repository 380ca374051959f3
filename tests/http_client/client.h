/* One blocking keep-alive connection to a server on this machine, for tests and load. */
#ifndef TESTS_HTTP_CLIENT_CLIENT_H
#define TESTS_HTTP_CLIENT_CLIENT_H

#include "tests/http_client/reply_parser.h"

struct client {
    int fd; /* -1 = not connected */
    int port, timeout_ms;
    char held[32 * 1024]; /* received and not parsed yet */
    size_t held_from, held_to;
};

void client_init(struct client *client, int port, int timeout_ms);
void client_close(struct client *client);
/* Sends one request (connecting if need be) and reads its reply into `parser`, which the caller has
 * set up. ERR_IO for a connection that failed or timed out, ERR_FORMAT for a reply that is badly
 * framed. The connection stays open as far as the reply allows. */
MUST_USE enum err client_ask(struct client *client, const char *method, const char *path,
    const char *body, struct reply_parser *parser);

#endif
