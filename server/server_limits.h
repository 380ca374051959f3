/*
 * Every bound of the HTTP side, with its reason. Those a flag can change are the flag's default
 * here and its range in config.c; the rest are fixed. Each has a test at the limit and one past it.
 */
#ifndef SERVER_SERVER_LIMITS_H
#define SERVER_SERVER_LIMITS_H

enum {
    /* Head of a request (http-front guards G3). libmicrohttpd's own bound of 64 KiB per connection
     * lies above them, so ours answer first. */
    LIMIT_TARGET_BYTES = 8 * 1024,
    LIMIT_HEAD_BYTES = 32 * 1024,
    LIMIT_FIELDS = 100,
    LIMIT_CONNECTION_MEMORY = 64 * 1024,
    LIMIT_REQUEST_ID_BYTES = 64,

    /* Bodies. 2048 inputs of 2 KiB fit the default; all bodies together stay below the sum. */
    LIMIT_BODY_BYTES = 4 * 1024 * 1024, /* --max-body-bytes */
    LIMIT_BODIES_BYTES = 256 * 1024 * 1024,
    /* A refused body is read and dropped, so that the client gets to read the answer: up to the
     * first bound the connection stays usable, past the second it is cut. */
    LIMIT_DROP_KEEP_BYTES = 64 * 1024,
    LIMIT_DROP_BYTES = 16 * 1024 * 1024,
    LIMIT_DROP_MS = 2000,

    /* Connections. Each costs about 2 KiB idle. */
    LIMIT_CONNECTIONS = 1024, /* --max-connections */
    LIMIT_CONNECTIONS_SPARE = 16,
    LIMIT_CONNECTION_REQUESTS = 1000000, /* then `Connection: close` */
    LIMIT_REFUSALS = 64,                 /* refused connections that still wait for their EOF */
    LIMIT_REFUSAL_MS = 1000,
    LIMIT_ACCEPTS = 64, /* per turn of the loop */
    LIMIT_ACCEPT_PAUSE_MS = 100,
    LIMIT_FILES_SPARE = 32, /* descriptors kept for everything that is no connection */

    /* Deadlines, milliseconds. */
    LIMIT_HEAD_MS = 10 * 1000,        /* accept or request line to end of headers */
    LIMIT_IDLE_MS = 75 * 1000,        /* between requests of a connection */
    LIMIT_BODY_MS = 30 * 1000,        /* plus size at LIMIT_SLOWEST_RATE ... */
    LIMIT_BODY_MS_MAX = 120 * 1000,   /* ... but no longer than this */
    LIMIT_QUEUE_MS = 30 * 1000,       /* --queue-ms: submit to first step */
    LIMIT_TOTAL_MS = 600 * 1000,      /* default of timeout_ms */
    LIMIT_TOTAL_MS_MAX = 3600 * 1000, /* cap of timeout_ms */
    LIMIT_SEND_MS = 30 * 1000,        /* a frame waiting to a frame taken */
    LIMIT_REPLY_MS = 30 * 1000,       /* unstreamed reply, plus size at the slowest rate */
    LIMIT_SLOWEST_RATE = 64 * 1024,   /* bytes per second a peer must manage */
    LIMIT_PING_MS = 15 * 1000,        /* silence of a stream before `: ping` */
    LIMIT_BACKSTOP_S = 150,           /* libmicrohttpd's own inactivity timeout */
    LIMIT_DRAIN_DELAY_MS = 2000,      /* --drain-delay-ms: for load balancers to notice */
    LIMIT_DRAIN_TIMEOUT_MS = 30000,   /* --drain-timeout-ms */
    LIMIT_DRAIN_END_MS = 2000,        /* cancelled requests get this long to end */
    LIMIT_STOP_TIMEOUT_MS = 30000,    /* --stop-timeout-ms: and a step of the engine this long */
    LIMIT_STALL_MS = 30 * 1000,       /* --stall-ms: work waits and no step ended: not ready */
    LIMIT_TICK_MS = 1000,             /* how often the loop looks at the engine */
    LIMIT_STEP_MS = 50,               /* --step-ms: who arrives waits for one step at least */

    /* Replies. A stream may hold this much unsent text; a full one pauses its sequence. */
    LIMIT_STREAM_BYTES = 256 * 1024,
    LIMIT_UNSENT_BYTES = 64 * 1024, /* in the kernel, which would take megabytes of a stream */
    LIMIT_REPLY_BYTES = 128 * 1024 * 1024,
    LIMIT_REPLY_HEADERS_BYTES = 4096,

    /* Work. */
    LIMIT_WORKERS = 2, /* --workers */
    LIMIT_ARENA_BLOCK_BYTES = 16 * 1024,
    LIMIT_ARENA_BYTES = 96 * 1024 * 1024, /* one request's structs, ids and replies-to-be */
    LIMIT_EMBED_TOKENS = 300000,          /* tokens of one embedding call */
};

#endif
