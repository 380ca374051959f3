/*
 * The listening socket is ours, not the HTTP library's, so that every connection is seen from its
 * first moment: at the cap it is told so with a 503 instead of hanging in the backlog, and without
 * free descriptors the listener rests for a moment instead of spinning.
 */
#include "server/http_mhd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "engine/base/log.h"
#include "server/loop.h"

/* ---- refusing ---- */

static void end_refusal(void *owner)
{
    struct refusal *refusal = owner;
    timers_cancel(&refusal->http->timers, &refusal->timer);
    loop_remove(refusal->http, refusal->fd);
    close(refusal->fd);
    refusal->fd = -1;
}

static struct refusal *free_refusal(struct http *http)
{
    for (int i = 0; i < LIMIT_REFUSALS; i++) {
        if (http->refusals[i].fd < 0) {
            return &http->refusals[i];
        }
    }
    return NULL;
}

/* The socket was never the library's, so it is closed here: after the peer has read the answer and
 * closed, or a second later. Closing at once would reset the connection under the answer. */
static void refuse(struct http *http, int fd)
{
    static const char body[] = "{\"error\":{\"code\":503,\"message\":\"too many connections\","
                               "\"type\":\"unavailable_error\",\"param\":null}}";
    char answer[512];
    int bytes = snprintf(answer, sizeof(answer),
        "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: "
        "application/json\r\nRetry-After: 1\r\nContent-Length: %zu\r\n\r\n%s",
        sizeof(body) - 1, body);
    http->stats.refused_full++;
    (void)send(fd, answer, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(fd, SHUT_WR);
    struct refusal *refusal = free_refusal(http);
    if (refusal == NULL ||
        !loop_add(http, fd, LOOP_REFUSAL, (uint32_t)(refusal - http->refusals))) {
        close(fd);
        return;
    }
    refusal->fd = fd;
    timers_set(
        &http->timers, &refusal->timer, http_now_us(http) + LIMIT_REFUSAL_MS * INT64_C(1000));
}

void listener_event(struct http *http, int refusal_index)
{
    struct refusal *refusal = &http->refusals[refusal_index];
    char dropped[4096];
    if (refusal->fd < 0) {
        return;
    }
    ssize_t got = recv(refusal->fd, dropped, sizeof(dropped), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        end_refusal(refusal);
    }
}

/* ---- accepting ---- */

void conn_release(struct conn *conn)
{
    struct http *http = conn->http;
    conn_unwatch(conn);
    conn->ending = false;
    deadline_none(conn);
    if (http->by_fd[conn->fd] == conn) {
        http->by_fd[conn->fd] = NULL;
    }
    conn->fd = -1;
    conn->mhd = NULL;
    conn->next_free = http->free_conns;
    http->free_conns = conn;
    http->stats.connections--;
}

/* A client of IPv6 has a whole network of addresses: the first half names it. */
static uint64_t hash_client(uint64_t key, const struct sockaddr *address)
{
    unsigned char bytes[8] = {0};
    if (address->sa_family == AF_INET6) {
        const struct in6_addr *v6 =
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        memcpy(bytes, v6->s6_addr + (IN6_IS_ADDR_V4MAPPED(v6) ? 8 : 0), sizeof(bytes));
    } else if (address->sa_family == AF_INET) {
        const struct in_addr *v4 = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
        memcpy(bytes + 4, v4, 4);
    }
    uint64_t hash = key;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static void take_socket(struct http *http, int fd, const struct sockaddr *address, socklen_t bytes)
{
    int on = 1, unsent = LIMIT_UNSENT_BYTES;
    if (fd >= http->fds_count) {
        refuse(http, fd);
        return;
    }
    if (http->by_fd[fd] != NULL) {
        /* The library closed this descriptor before it announced the connection. */
        conn_release(http->by_fd[fd]);
    }
    struct conn *conn = http->free_conns;
    if (conn == NULL) {
        refuse(http, fd);
        return;
    }
    http->free_conns = conn->next_free;
    conn->fd = fd;
    conn->mhd = NULL;
    conn->requests = 0;
    conn->client = hash_client(http->client_key, address);
    conn->request_line = conn->suspended = conn->watched = false;
    conn->dead = conn->dropping = false;
    http->by_fd[fd] = conn;
    http->stats.connections++;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
    deadline_head(conn);
    conn_follow(conn);
    if (!front_add(http, conn, address, bytes) && http->by_fd[fd] == conn) {
        conn_release(conn);
    }
}

static void resume_accepting(void *owner)
{
    struct http *http = owner;
    if (http->listener >= 0) {
        (void)loop_add(http, http->listener, LOOP_LISTENER, 0);
    }
}

static void pause_accepting(struct http *http)
{
    http->stats.refused_files++;
    loop_remove(http, http->listener);
    timers_set(&http->timers, &http->accept_pause,
        http_now_us(http) + LIMIT_ACCEPT_PAUSE_MS * INT64_C(1000));
}

void listener_accept(struct http *http)
{
    for (int i = 0; i < LIMIT_ACCEPTS && http->listener >= 0; i++) {
        struct sockaddr_storage address;
        socklen_t bytes = sizeof(address);
        int fd = accept4(
            http->listener, (struct sockaddr *)&address, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take_socket(http, fd, (const struct sockaddr *)&address, bytes);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            pause_accepting(http);
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

/* ---- the socket ---- */

static int bound_port(int fd)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        return -1;
    }
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

static int listen_on(const struct addrinfo *address)
{
    int on = 1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

enum err listener_open(struct http *http, int *out_port, struct err_info *info)
{
    char port[16];
    snprintf(port, sizeof(port), "%d", http->config.port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    timer_init(&http->accept_pause, resume_accepting, http);
    for (int i = 0; i < LIMIT_REFUSALS; i++) {
        http->refusals[i] = (struct refusal){.http = http, .fd = -1};
        timer_init(&http->refusals[i].timer, end_refusal, &http->refusals[i]);
    }
    int failed = getaddrinfo(http->config.host, port, &hints, &found);
    if (failed != 0) {
        return err_set(info, ERR_CONFIG, "host", "--host: %s", gai_strerror(failed));
    }
    http->listener = listen_on(found);
    int error = errno;
    freeaddrinfo(found);
    if (http->listener < 0 || !loop_add(http, http->listener, LOOP_LISTENER, 0)) {
        return err_set(info, ERR_IO, "port", "cannot listen on port %d: %s", http->config.port,
            strerror(error));
    }
    *out_port = bound_port(http->listener);
    return ERR_OK;
}

void listener_close(struct http *http)
{
    if (http->listener >= 0) {
        timers_cancel(&http->timers, &http->accept_pause);
        loop_remove(http, http->listener);
        close(http->listener);
        http->listener = -1;
    }
    for (int i = 0; i < LIMIT_REFUSALS && http->stage == DRAIN_DONE; i++) {
        if (http->refusals[i].fd >= 0) {
            end_refusal(&http->refusals[i]);
        }
    }
}
