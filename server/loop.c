/*
 * The loop: one thread that owns every socket and every timer. One turn is
 *
 *     wait       listener, the library's epoll, wake-ups, watcher, signals; at most until the next
 *                timer of ours or the library's; not at all when something was resumed
 *     timers     deadlines that have passed
 *     wake-ups   finished work and new tokens (hook `wake`)
 *     watcher    peers that left
 *     listener   accept some
 *     library    exactly once per turn, always: it does not know of pending resumes
 *
 * The library's own threads are not used: its loop stalls when a wake-up returns exactly a multiple
 * of 128 events. A second epoll, the watcher, tells when a peer leaves: a parked connection is out
 * of the library's epoll, and of any other the library misses an end that comes together with the
 * last bytes. A watcher's event names a slot, which may have a new connection by then: the socket
 * is asked again.
 */
#include "server/http_mhd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "engine/base/assert.h"
#include "engine/base/log.h"
#include "engine/base/rng.h"
#include "server/loop.h"

enum { EVENTS_PER_TURN = 64 };

int64_t http_now_us(const struct http *http)
{
    return clock_now_us(http->config.clock);
}

struct conn *conn_of(struct request *request)
{
    return (struct conn *)((char *)request - offsetof(struct conn, request));
}

static uint64_t event_name(enum loop_tag tag, uint32_t index)
{
    return (uint64_t)tag << 32 | index;
}

bool loop_add(struct http *http, int fd, enum loop_tag tag, uint32_t index)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = event_name(tag, index)};
    return epoll_ctl(http->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

void loop_remove(struct http *http, int fd)
{
    (void)epoll_ctl(http->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* ---- peers that leave ---- */

/* Registered from accept to close; an event uses the registration up until it is armed again. */
static void arm_watcher(struct conn *conn, int operation)
{
    struct epoll_event event = {
        .events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = conn->request.index};
    (void)epoll_ctl(conn->http->watcher, operation, conn->fd, &event);
}

void conn_follow(struct conn *conn)
{
    arm_watcher(conn, EPOLL_CTL_ADD);
}

void conn_watch(struct conn *conn)
{
    if (!conn->watched) {
        conn->watched = true;
        arm_watcher(conn, EPOLL_CTL_MOD);
    }
}

void conn_unwatch(struct conn *conn)
{
    conn->watched = false;
}

void conn_shutdown(struct conn *conn)
{
    conn->dead = true;
    (void)shutdown(conn->fd, SHUT_RDWR);
    front_resume(conn);
}

void conn_gone(struct conn *conn)
{
    struct http *http = conn->http;
    conn->request.gone = true;
    http->hooks.drop(http->hooks.context, &conn->request);
    conn_shutdown(conn);
}

static bool peer_left(const struct conn *conn)
{
    struct pollfd socket = {.fd = conn->fd, .events = POLLRDHUP};
    return poll(&socket, 1, 0) > 0;
}

static void watch_events(struct http *http)
{
    struct epoll_event events[EVENTS_PER_TURN];
    int count = epoll_wait(http->watcher, events, EVENTS_PER_TURN, 0);
    for (int i = 0; i < count; i++) {
        struct conn *conn = &http->conns[events[i].data.u64];
        if (conn->fd < 0 || conn->dead || conn->ending || !peer_left(conn)) {
            continue;
        }
        if (conn->watched) {
            conn_gone(conn);
        } else {
            conn->ending = true;
            conn->next_ending = http->endings;
            http->endings = conn;
        }
    }
}

/* After the library has read what was there. It takes a short read for the last one and waits for
 * an edge, and the peer's end may have been part of the previous edge. Shutting down our side of
 * reading makes a new one; bytes that have come can still be read. */
static void read_endings(struct http *http)
{
    while (http->endings != NULL) {
        struct conn *conn = http->endings;
        http->endings = conn->next_ending;
        if (conn->ending && !conn->suspended) {
            (void)shutdown(conn->fd, SHUT_RD);
        }
        conn->ending = false;
    }
}

/* ---- the application's side ---- */

void http_wake(struct http *http)
{
    uint64_t one = 1;
    ssize_t written = write(http->wake, &one, sizeof(one));
    (void)written; /* a full counter means that a wake-up is pending already */
}

void http_stop(struct http *http, bool fast)
{
    int wanted = atomic_load(&http->stop_wanted);
    int next = fast || wanted > 0 ? 2 : 1;
    atomic_store(&http->stop_wanted, next);
    http_wake(http);
}

struct request *http_find(struct http *http, uint32_t index, uint32_t generation)
{
    ASSERT(index < (uint32_t)http->conns_count);
    struct request *request = &http->conns[index].request;
    return request->begun && request->generation == generation ? request : NULL;
}

void http_ready(struct http *http, struct request *request)
{
    struct conn *conn = conn_of(request);
    (void)http;
    if (conn->dead) {
        return;
    }
    if (request->stream.committed && stream_waiting(request) > 0 && !timer_armed(&conn->phase)) {
        deadline_send(conn);
    }
    front_resume(conn);
}

void http_deadline(struct http *http, struct request *request, int64_t at_us)
{
    timers_set(&http->timers, &conn_of(request)->total, at_us);
}

void http_expect_stream(struct http *http, struct request *request)
{
    (void)http;
    deadline_silent(conn_of(request));
}

size_t http_stream_room(const struct request *request)
{
    size_t waiting = stream_waiting(request);
    return waiting < LIMIT_STREAM_BYTES ? LIMIT_STREAM_BYTES - waiting : 0;
}

void http_body_parsed(struct http *http, size_t bytes)
{
    http->stats.body_bytes -= bytes;
}

const struct http_stats *http_stats(const struct http *http)
{
    return &http->stats;
}

enum drain_stage http_drain_stage(const struct http *http)
{
    return http->stage;
}

/* ---- the loop ---- */

static void take_signals(struct http *http)
{
    struct signalfd_siginfo signal;
    while (read(http->signals, &signal, sizeof(signal)) == (ssize_t)sizeof(signal)) {
        http_stop(http, false);
    }
}

static void take_wakes(struct http *http)
{
    uint64_t count;
    ssize_t got = read(http->wake, &count, sizeof(count));
    (void)got; /* nothing there is fine */
    http->hooks.wake(http->hooks.context);
}

static int wait_ms(const struct http *http)
{
    if (http->resumed) {
        return 0;
    }
    int ms = front_timeout_ms(http);
    int64_t next_us = timers_next_us(&http->timers);
    if (next_us >= 0) {
        int64_t left_us = next_us - http_now_us(http);
        int64_t left_ms = left_us <= 0 ? 0 : (left_us + 999) / 1000;
        left_ms = MIN(left_ms, 60000);
        ms = ms < 0 || left_ms < ms ? (int)left_ms : ms;
    }
    return ms;
}

static void turn(struct http *http)
{
    struct epoll_event events[EVENTS_PER_TURN];
    int count = epoll_wait(http->epoll, events, EVENTS_PER_TURN, wait_ms(http));
    int64_t began_us = http_now_us(http);
    bool accepting = false, watching = false, waking = false;
    timers_run(&http->timers, began_us);
    for (int i = 0; i < count; i++) {
        enum loop_tag tag = (enum loop_tag)(events[i].data.u64 >> 32);
        accepting |= tag == LOOP_LISTENER;
        watching |= tag == LOOP_WATCHER;
        waking |= tag == LOOP_WAKE;
        if (tag == LOOP_SIGNAL) {
            take_signals(http);
        } else if (tag == LOOP_REFUSAL) {
            listener_event(http, (int)(uint32_t)events[i].data.u64);
        }
    }
    if (waking) {
        take_wakes(http);
    }
    if (watching) {
        watch_events(http);
    }
    if (accepting) {
        listener_accept(http);
    }
    front_run(http);
    read_endings(http);
    drain_poll(http);
    histogram_add(&http->stats.turns, http_now_us(http) - began_us);
}

static void tick(void *owner)
{
    struct http *http = owner;
    http->hooks.tick(http->hooks.context);
    timers_set(&http->timers, &http->tick, http_now_us(http) + LIMIT_TICK_MS * INT64_C(1000));
}

void http_run(struct http *http)
{
    timer_init(&http->tick, tick, http);
    tick(http);
    while (http->stage != DRAIN_DONE) {
        turn(http);
    }
}

/* ---- open and close ---- */

/* Descriptors bound connections: at the limit of the process accept would fail instead of our 503
 * being sent. */
static void fit_connections(struct http *http)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    int64_t room = (int64_t)MIN(limit.rlim_cur, 1u << 20) - LIMIT_FILES_SPARE;
    if (room < http->config.connections_max) {
        http->config.connections_max = (int)MAX(room, 1);
        log_text(LOG_WARN, "http", "the limit of open files allows %d connections",
            http->config.connections_max);
    }
    http->fds_count = (int)MIN(limit.rlim_cur, 1u << 20);
}

static enum err make_conns(struct http *http)
{
    http->conns_count = http->config.connections_max;
    http->conns = mem_array(MEM_REQUESTS, (size_t)http->conns_count, sizeof(struct conn));
    http->by_fd = mem_array(MEM_REQUESTS, (size_t)http->fds_count, sizeof(struct conn *));
    size_t timers = (size_t)http->conns_count * 3 + LIMIT_REFUSALS + 3;
    if (http->conns == NULL || http->by_fd == NULL ||
        timers_init(&http->timers, timers) != ERR_OK) {
        return ERR_NO_MEMORY;
    }
    for (int i = http->conns_count - 1; i >= 0; i--) {
        struct conn *conn = &http->conns[i];
        conn->http = http;
        conn->fd = -1;
        request_init(&conn->request, (uint32_t)i);
        deadline_init(conn);
        conn->next_free = http->free_conns;
        http->free_conns = conn;
    }
    return ERR_OK;
}

static bool make_events(struct http *http)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    http->epoll = epoll_create1(EPOLL_CLOEXEC);
    http->watcher = epoll_create1(EPOLL_CLOEXEC);
    http->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    http->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return http->epoll >= 0 && http->watcher >= 0 && http->wake >= 0 && http->signals >= 0 &&
           loop_add(http, http->watcher, LOOP_WATCHER, 0) &&
           loop_add(http, http->wake, LOOP_WAKE, 0) &&
           loop_add(http, http->signals, LOOP_SIGNAL, 0);
}

enum err http_open(const struct http_config *config, const struct http_hooks *hooks,
    struct http **out_http, int *out_port, struct err_info *info)
{
    struct http *http = mem_alloc(MEM_REQUESTS, sizeof(*http));
    if (http == NULL) {
        return err_set(info, ERR_NO_MEMORY, "http", "no memory for the HTTP front");
    }
    http->config = *config;
    http->hooks = *hooks;
    http->epoll = http->watcher = http->wake = http->signals = http->listener = -1;
    buf_init(&http->raw, MEM_REQUESTS, 64 * 1024);
    http->client_key = rng_entropy();
    fit_connections(http);
    drain_init(http);
    int port = 0;
    enum err err = ERR_OK;
    if (make_conns(http) != ERR_OK) {
        err = err_set(info, ERR_NO_MEMORY, "max-connections", "no memory for the connections");
    } else if (!make_events(http)) {
        err = err_set(info, ERR_IO, "http", "no event descriptors: %s", strerror(errno));
    } else {
        err = front_open(http, info);
    }
    if (err == ERR_OK && !loop_add(http, front_epoll(http), LOOP_FRONT, 0)) {
        err = err_set(info, ERR_IO, "http", "the HTTP library's epoll cannot be watched");
    }
    if (err == ERR_OK) {
        err = listener_open(http, &port, info);
    }
    if (err != ERR_OK) {
        http_close(http);
        return err;
    }
    *out_http = http;
    *out_port = port;
    return ERR_OK;
}

static void close_fd(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

void http_close(struct http *http)
{
    if (http == NULL) {
        return;
    }
    listener_close(http);
    front_close(http);
    close_fd(http->signals);
    close_fd(http->wake);
    close_fd(http->watcher);
    close_fd(http->epoll);
    timers_free(&http->timers);
    buf_free(&http->raw);
    mem_free(http->by_fd);
    mem_free(http->conns);
    mem_free(http);
}
