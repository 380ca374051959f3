/*
 * A closed-loop load generator that understands event streams:
 *
 *     http_load PORT CONNECTIONS SECONDS PATH BODY
 *
 * Each connection asks again as soon as it was answered. Prints replies by status, the rate, and
 * percentiles of latency and, for streams, of the first frame and of the gaps between frames. Ends
 * with a failure when a reply was badly framed, a connection broke, or a stream did not end whole.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/clock.h"
#include "tests/http_client/client.h"

enum { SAMPLES_MAX = 200000, TIMEOUT_MS = 60000, STATUSES = 600 };

struct samples {
    int64_t *us;
    int count;
};

struct worker {
    pthread_t thread;
    int port;
    const char *path, *body;
    int64_t end_us;
    struct samples latency, first_frame, gap;
    int statuses[STATUSES];
    int broken;
    int64_t asked_us, frame_us; /* of the request under way */
    char tail[2];               /* last bytes of the stream: it must end in an empty line */
};

static void add(struct samples *samples, int64_t us)
{
    if (samples->count < SAMPLES_MAX) {
        samples->us[samples->count++] = us;
    }
}

static void on_frame(void *context, const char *bytes, size_t count)
{
    struct worker *worker = context;
    int64_t now_us = clock_now_us(NULL);
    if (worker->frame_us == 0) {
        add(&worker->first_frame, now_us - worker->asked_us);
    } else {
        add(&worker->gap, now_us - worker->frame_us);
    }
    worker->frame_us = now_us;
    for (size_t i = 0; i < count; i++) {
        worker->tail[0] = worker->tail[1];
        worker->tail[1] = bytes[i];
    }
}

static void ask(struct worker *worker, struct client *client, bool stream)
{
    struct reply_parser parser;
    reply_parser_init(&parser, false);
    if (stream) {
        parser.on_body = on_frame;
        parser.context = worker;
    }
    worker->asked_us = clock_now_us(NULL);
    worker->frame_us = 0;
    const char *method = worker->body[0] != '\0' ? "POST" : "GET";
    const char *body = worker->body[0] != '\0' ? worker->body : NULL;
    if (client_ask(client, method, worker->path, body, &parser) != ERR_OK) {
        worker->broken++;
    } else {
        add(&worker->latency, clock_now_us(NULL) - worker->asked_us);
        worker->statuses[parser.status < STATUSES ? parser.status : 0]++;
        if (stream && parser.status == 200 && memcmp(worker->tail, "\n\n", 2) != 0) {
            worker->broken++;
        }
    }
    reply_parser_free(&parser);
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct client *client = malloc(sizeof(*client));
    bool stream =
        strstr(worker->path, "stream") != NULL || strstr(worker->body, "\"stream\":true") != NULL;
    if (client == NULL) {
        worker->broken++;
        return NULL;
    }
    client_init(client, worker->port, TIMEOUT_MS);
    while (clock_now_us(NULL) < worker->end_us && worker->broken == 0) {
        ask(worker, client, stream);
    }
    client_close(client);
    free(client);
    return NULL;
}

/* ---- the report ---- */

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print(const char *name, const struct worker *workers, int count, size_t offset)
{
    int64_t total = 0, filled = 0;
    for (int i = 0; i < count; i++) {
        total += ((const struct samples *)((const char *)&workers[i] + offset))->count;
    }
    int64_t *all = total > 0 ? malloc((size_t)total * sizeof(int64_t)) : NULL;
    if (all == NULL) {
        return;
    }
    for (int i = 0; i < count; i++) {
        const struct samples *samples =
            (const struct samples *)((const char *)&workers[i] + offset);
        memcpy(all + filled, samples->us, (size_t)samples->count * sizeof(int64_t));
        filled += samples->count;
    }
    qsort(all, (size_t)total, sizeof(int64_t), compare);
    printf("%-12s p50 %9.3f  p90 %9.3f  p99 %9.3f  max %9.3f ms  (%lld)\n", name,
        (double)all[total / 2] / 1e3, (double)all[total * 9 / 10] / 1e3,
        (double)all[total * 99 / 100] / 1e3, (double)all[total - 1] / 1e3, (long long)total);
    free(all);
}

static int report(const struct worker *workers, int count, double seconds)
{
    int broken = 0;
    int64_t replies = 0;
    for (int status = 0; status < STATUSES; status++) {
        int64_t sum = 0;
        for (int i = 0; i < count; i++) {
            sum += workers[i].statuses[status];
        }
        if (sum > 0) {
            printf("status %d: %lld\n", status, (long long)sum);
        }
        replies += sum;
    }
    for (int i = 0; i < count; i++) {
        broken += workers[i].broken;
    }
    printf("%.1f replies/s, %d broken\n", (double)replies / seconds, broken);
    print("latency", workers, count, offsetof(struct worker, latency));
    print("first frame", workers, count, offsetof(struct worker, first_frame));
    print("between", workers, count, offsetof(struct worker, gap));
    return broken == 0 && replies > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    int connections = argc == 6 ? atoi(argv[2]) : 0;
    if (connections < 1 || connections > 1000) {
        fprintf(stderr, "http_load PORT CONNECTIONS SECONDS PATH BODY\n");
        return EXIT_FAILURE;
    }
    struct worker *workers = calloc((size_t)connections, sizeof(*workers));
    double seconds = atof(argv[3]);
    int started = 0;
    for (int i = 0; workers != NULL && i < connections; i++) {
        struct worker *worker = &workers[i];
        worker->port = atoi(argv[1]);
        worker->path = argv[4];
        worker->body = argv[5];
        worker->end_us = clock_now_us(NULL) + (int64_t)(seconds * 1e6);
        worker->latency.us = malloc(SAMPLES_MAX * sizeof(int64_t));
        worker->first_frame.us = malloc(SAMPLES_MAX * sizeof(int64_t));
        worker->gap.us = malloc(SAMPLES_MAX * sizeof(int64_t));
        if (worker->latency.us == NULL || worker->first_frame.us == NULL ||
            worker->gap.us == NULL || pthread_create(&worker->thread, NULL, work, worker) != 0) {
            break;
        }
        started++;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    int status = workers != NULL && started == connections ? report(workers, started, seconds)
                                                           : EXIT_FAILURE;
    for (int i = 0; workers != NULL && i < connections; i++) {
        free(workers[i].latency.us);
        free(workers[i].first_frame.us);
        free(workers[i].gap.us);
    }
    free(workers);
    return status;
}
