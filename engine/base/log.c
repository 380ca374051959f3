/*
 * The log: one byte ring behind a mutex, one thread that writes it out. The lock is held for a
 * copy of one line; write(2) happens outside it, so a slow terminal never stalls a caller.
 *
 * There is one stderr per process and therefore one log: with the counters of mem.c it is the
 * exception to "no mutable globals".
 */
#include "engine/base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/assert.h"
#include "engine/base/mem.h"

enum {
    RING_BYTES = 1 << 18,     /* some thousand lines; a power of two */
    LINE_BYTES_MAX = 1 << 13, /* a longer line is dropped: half a JSON object helps nobody */
    MESSAGE_BYTES = 512,
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    pthread_t writer;
    char *ring; /* non-NULL while open */
    uint32_t head, tail;
    bool closing;
    enum log_level level;
    uint64_t dropped, dropped_told;
} state = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER, .level = LOG_INFO};

static const char *const level_words[] = {"debug", "info", "warn", "error"};

static void write_all(const char *bytes, size_t count)
{
    while (count != 0) {
        ssize_t done = write(STDERR_FILENO, bytes, count);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return; /* a closed stderr: there is nobody to tell */
        }
        bytes += done;
        count -= (size_t)done;
    }
}

/* With the lock held: queues a line and its newline, or counts it as dropped. */
static void queue_line(const char *line, uint32_t count)
{
    if (count >= LINE_BYTES_MAX || RING_BYTES - (state.tail - state.head) < count + 1) {
        state.dropped++;
        return;
    }
    for (uint32_t i = 0; i <= count; i++) {
        state.ring[(state.tail + i) & (RING_BYTES - 1)] = i == count ? '\n' : line[i];
    }
    state.tail += count + 1;
    pthread_cond_signal(&state.filled);
}

static uint32_t escape(char *out, uint32_t room, const char *text)
{
    uint32_t count = 0;
    for (const char *at = text; *at != '\0' && count + 7 < room; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\') {
            out[count++] = '\\';
            out[count++] = *at;
        } else if (byte < 0x20 || byte >= 0x7F) {
            /* Messages are ours and ASCII; a stray byte of a file's name is shown, not trusted. */
            count += (uint32_t)snprintf(out + count, room - count, "\\u%04x", byte);
        } else {
            out[count++] = *at;
        }
    }
    out[count] = '\0';
    return count;
}

static uint32_t format_line(
    char out[LINE_BYTES_MAX], enum log_level level, const char *area, const char *message)
{
    struct timespec now = {0};
    struct tm utc = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    char area_escaped[64], escaped[MESSAGE_BYTES * 6 + 8];
    (void)escape(area_escaped, sizeof area_escaped, area);
    (void)escape(escaped, sizeof escaped, message);
    int count = snprintf(out, LINE_BYTES_MAX,
        "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ\",\"level\":\"%s\",\"area\":\"%s\","
        "\"message\":\"%s\"}",
        utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
        (int)(now.tv_nsec / 1000000), level_words[level], area_escaped, escaped);
    ASSERT(count > 0 && count < LINE_BYTES_MAX);
    return (uint32_t)count;
}

/* With the lock held; the ring has just been emptied, so this line fits. */
static void tell_dropped(void)
{
    if (state.dropped == state.dropped_told) {
        return;
    }
    char message[64], line[LINE_BYTES_MAX];
    (void)snprintf(message, sizeof message, "%llu log lines were dropped",
        (unsigned long long)(state.dropped - state.dropped_told));
    state.dropped_told = state.dropped;
    queue_line(line, format_line(line, LOG_WARN, "log", message));
}

static void *writer_main(void *argument)
{
    char chunk[1 << 14];
    pthread_mutex_lock(&state.lock);
    for (;;) {
        while (state.tail == state.head && !state.closing) {
            pthread_cond_wait(&state.filled, &state.lock);
        }
        if (state.tail == state.head) {
            break;
        }
        uint32_t count = MIN(state.tail - state.head, (uint32_t)sizeof chunk);
        for (uint32_t i = 0; i < count; i++) {
            chunk[i] = state.ring[(state.head + i) & (RING_BYTES - 1)];
        }
        state.head += count;
        if (state.head == state.tail) {
            tell_dropped();
        }
        pthread_mutex_unlock(&state.lock);
        write_all(chunk, count);
        pthread_mutex_lock(&state.lock);
    }
    pthread_mutex_unlock(&state.lock);
    return argument;
}

enum err log_open(enum log_level level)
{
    ASSERT((int)level >= 0 && (size_t)level < ARRAY_COUNT(level_words));
    char *ring = mem_alloc(MEM_OTHER, RING_BYTES);
    if (ring == NULL) {
        return ERR_NO_MEMORY;
    }
    pthread_mutex_lock(&state.lock);
    ASSERT(state.ring == NULL);
    state.ring = ring;
    state.head = state.tail = 0;
    state.closing = false;
    state.level = level;
    bool started = pthread_create(&state.writer, NULL, writer_main, NULL) == 0;
    if (!started) {
        state.ring = NULL;
    }
    pthread_mutex_unlock(&state.lock);
    if (!started) {
        mem_free(ring);
        return ERR_NO_MEMORY;
    }
    return ERR_OK;
}

void log_close(void)
{
    pthread_mutex_lock(&state.lock);
    bool open = state.ring != NULL && !state.closing;
    state.closing = open;
    pthread_cond_signal(&state.filled);
    pthread_mutex_unlock(&state.lock);
    if (!open) {
        return;
    }
    (void)pthread_join(state.writer, NULL);
    pthread_mutex_lock(&state.lock);
    char *ring = state.ring;
    state.ring = NULL;
    state.closing = false;
    pthread_mutex_unlock(&state.lock);
    mem_free(ring);
}

void log_json(enum log_level level, const char *json, uint32_t count)
{
    ASSERT((int)level >= 0 && (size_t)level < ARRAY_COUNT(level_words));
    pthread_mutex_lock(&state.lock);
    bool wanted = level >= state.level;
    bool direct = state.ring == NULL;
    if (wanted && !direct) {
        queue_line(json, count);
    }
    pthread_mutex_unlock(&state.lock);
    if (wanted && direct) {
        char line[LINE_BYTES_MAX + 1];
        if (count < LINE_BYTES_MAX) {
            memcpy(line, json, count);
            line[count] = '\n';
            write_all(line, (size_t)count + 1);
        }
    }
}

void log_text(enum log_level level, const char *area, const char *format, ...)
{
    char message[MESSAGE_BYTES], line[LINE_BYTES_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    log_json(level, line, format_line(line, level, area, message));
}

uint64_t log_dropped(void)
{
    pthread_mutex_lock(&state.lock);
    uint64_t dropped = state.dropped;
    pthread_mutex_unlock(&state.lock);
    return dropped;
}
