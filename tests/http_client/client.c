/* See the header. What was received behind the end of a reply is an error: nothing was asked. */
#include "tests/http_client/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

void client_init(struct client *client, int port, int timeout_ms)
{
    client->fd = -1;
    client->port = port;
    client->timeout_ms = timeout_ms;
    client->held_from = client->held_to = 0;
}

void client_close(struct client *client)
{
    if (client->fd >= 0) {
        close(client->fd);
        client->fd = -1;
    }
    client->held_from = client->held_to = 0;
}

static enum err open_connection(struct client *client)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
        .sin_port = htons((uint16_t)client->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval timeout = {
        .tv_sec = client->timeout_ms / 1000, .tv_usec = client->timeout_ms % 1000 * 1000};
    int on = 1;
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0) {
        return ERR_IO;
    }
    (void)setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    (void)setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    /* Head and body are two writes; the second must not wait for an acknowledgement. */
    (void)setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(client->fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        client_close(client);
        return ERR_IO;
    }
    return ERR_OK;
}

static enum err send_all(struct client *client, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(client->fd, bytes, count, MSG_NOSIGNAL);
        if (sent <= 0) {
            return ERR_IO;
        }
        bytes += sent;
        count -= (size_t)sent;
    }
    return ERR_OK;
}

static enum err read_reply(struct client *client, struct reply_parser *parser)
{
    while (!parser->done) {
        if (client->held_from == client->held_to) {
            ssize_t got = recv(client->fd, client->held, sizeof(client->held), 0);
            if (got < 0) {
                return ERR_IO;
            }
            if (got == 0) {
                return reply_parser_end(parser);
            }
            client->held_from = 0;
            client->held_to = (size_t)got;
        }
        size_t used = 0;
        enum err err = reply_parser_feed(
            parser, client->held + client->held_from, client->held_to - client->held_from, &used);
        if (err != ERR_OK) {
            return err;
        }
        client->held_from += used;
    }
    return client->held_from == client->held_to ? ERR_OK : ERR_FORMAT;
}

enum err client_ask(struct client *client, const char *method, const char *path, const char *body,
    struct reply_parser *parser)
{
    char head[512];
    size_t bytes = body != NULL ? strlen(body) : 0;
    int count = snprintf(head, sizeof(head),
        "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", method, path, bytes);
    if (count < 0 || (size_t)count >= sizeof(head)) {
        return ERR_INVALID;
    }
    enum err err = client->fd >= 0 ? ERR_OK : open_connection(client);
    if (err == ERR_OK) {
        err = send_all(client, head, (size_t)count);
    }
    if (err == ERR_OK && bytes > 0) {
        err = send_all(client, body, bytes);
    }
    if (err == ERR_OK) {
        err = read_reply(client, parser);
    }
    if (err != ERR_OK || !parser->keep_alive) {
        client_close(client);
    }
    return err;
}
