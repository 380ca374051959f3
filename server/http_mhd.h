/*
 * Private to the front: its state, and what its files call of each other. Only http.c and stream.c
 * include microhttpd.h; here the library's types are opaque.
 *
 *     http.c      the library's callbacks: head, body, reply
 *     stream.c    the content reader of streamed replies
 *     loop.c      epoll, wake-ups, the watcher of peers that leave, signals
 *     listener.c  the socket, accepting, refusing at the cap
 *     deadline.c  what each timer does
 *     drain.c     the order of stopping
 */
#ifndef SERVER_HTTP_MHD_H
#define SERVER_HTTP_MHD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "server/http.h"
#include "server/timers.h"

struct MHD_Connection;
struct MHD_Daemon;

/* A connection slot. Slots are never freed, so a timer or event of an old connection meets a
 * higher generation instead of freed memory. */
struct conn {
    struct http *http;
    struct MHD_Connection *mhd; /* NULL until the library has taken the socket */
    int fd;                     /* -1 = free slot */
    struct conn *next_free;
    uint64_t requests;
    uint64_t client;   /* hash of the peer's address */
    bool request_line; /* a request line was seen and no first handler call yet */
    int target_status; /* of that line's target */
    bool suspended;
    bool watched; /* a peer that leaves ends the request: it is parked, or a stream */
    bool ending;  /* in http.endings */
    struct conn *next_ending;
    bool dead;     /* shut down by us: nothing more is queued */
    bool dropping; /* refused: the rest of the body is read and thrown away */
    bool draining_closed;
    struct request request;
    struct timer phase;  /* head, idle, body, send or whole-reply deadline */
    struct timer total;  /* answered by then */
    struct timer silent; /* heartbeat of a stream */
};

/* A refused socket, kept until the peer has read its 503. */
struct refusal {
    struct http *http;
    int fd; /* -1 = free */
    struct timer timer;
};

struct http {
    struct http_config config;
    struct http_hooks hooks;
    struct MHD_Daemon *daemon;
    int epoll, watcher, wake, signals, listener;
    struct conn *conns; /* [conns_count] */
    int conns_count;
    struct conn *free_conns;
    struct conn *endings; /* this turn's: the peer left while the library was reading */
    struct conn **by_fd;  /* [fds_count] */
    int fds_count;
    struct refusal refusals[LIMIT_REFUSALS];
    struct timers timers;
    struct timer accept_pause, drain_timer, tick;
    enum drain_stage stage;
    int64_t drain_began_us;
    uint64_t client_key;     /* of the hashes: nobody can choose to share another's */
    int open_requests;       /* begun and not ended */
    bool resumed;            /* the library must run without waiting */
    _Atomic int stop_wanted; /* 0, 1 = drain, 2 = fast */
    int stop_seen;
    struct buf raw; /* scratch for replies written by us */
    struct http_stats stats;
};

/* ---- http.c ---- */
MUST_USE enum err front_open(struct http *http, struct err_info *info);
void front_close(struct http *http);
int front_epoll(const struct http *http);
int front_timeout_ms(const struct http *http); /* -1 = none */
void front_run(struct http *http);
/* Hands an accepted socket over; on failure it is closed. */
bool front_add(struct http *http, struct conn *conn, const void *address, unsigned address_bytes);
void front_suspend(struct conn *conn);
void front_resume(struct conn *conn);
/* For the callers of the content reader in stream.c: a response object that reads conn's stream. */
struct MHD_Response;
struct MHD_Response *stream_response(struct conn *conn);

/* ---- loop.c ---- */
void conn_follow(struct conn *conn); /* once, before the library gets the socket */
void conn_watch(struct conn *conn);
void conn_unwatch(struct conn *conn);
struct conn *conn_of(struct request *request);
/* Ends both directions; the library notices and cleans up. Never closes the descriptor: the
 * library aborts when its own epoll_ctl on it fails. */
void conn_shutdown(struct conn *conn);
/* The peer is gone: drop the work, shut down, let the library clean up. */
void conn_gone(struct conn *conn);

/* ---- listener.c ---- */
MUST_USE enum err listener_open(struct http *http, int *out_port, struct err_info *info);
void listener_close(struct http *http);
void listener_accept(struct http *http);
void listener_event(struct http *http, int refusal_index); /* a refused socket became readable */
void conn_release(struct conn *conn);

/* ---- deadline.c ---- */
void deadline_init(struct conn *conn);
void deadline_head(struct conn *conn);
void deadline_idle(struct conn *conn);
void deadline_body(struct conn *conn);
void deadline_dropping(struct conn *conn);
void deadline_parked(struct conn *conn); /* body complete: only the total counts */
void deadline_reply(struct conn *conn, size_t bytes);
void deadline_send(struct conn *conn); /* frames wait for the peer */
void deadline_sent(struct conn *conn); /* all frames are taken */
void deadline_silent(struct conn *conn);
void deadline_none(struct conn *conn);
/* Writes the reply in conn->request straight to the socket and shuts it down: valid only while
 * nothing was sent for this request. */
void conn_answer_raw(struct conn *conn);

/* ---- drain.c ---- */
void drain_init(struct http *http);
void drain_poll(struct http *http); /* once per turn: signals and ends of requests move it on */

#endif
