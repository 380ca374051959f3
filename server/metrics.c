/*
 * The exposition is straight code: one function per group, families in the order of docs. Values
 * are printed with %.17g from finite doubles, so a scrape never holds NaN, not even before the
 * first request.
 */
#include "server/metrics.h"

#include <stdio.h>
#include "engine/base/log.h"
#include "engine/job.h"
#include "server/app.h"
#include "server/process.h"

static const int codes[METRICS_CODES] = {200, 400, 404, 405, 406, 408, 411, 413, 414, 415, 417, 422,
    424, 429, 431, 500, 501, 503, 504, 505, 401, 0};

static int code_index(int status)
{
    int other = 0;
    while (codes[other] != 0) {
        if (codes[other] == status) {
            return other;
        }
        other++;
    }
    return other;
}

static const char *const kind_words[KIND_COUNT] = {
#define X(name, word) word,
    KIND_MAP(X)
#undef X
};

static const char *const class_words[CLASS_COUNT] = {
#define X(name, word) word,
    CLASS_MAP(X)
#undef X
};

static const char *const rejection_words[REJECTION_COUNT] = {
#define X(name, word) word,
    REJECTION_MAP(X)
#undef X
};

/* ---- counting ---- */

static bool has_kind(const struct request *request)
{
    return request->route != NULL && request->route->handler == ROUTE_COMPUTE;
}

void metrics_begin(struct metrics *metrics, const struct request *request)
{
    if (has_kind(request)) {
        metrics->received[request->route->endpoint->kind]++;
    }
}

void metrics_end(struct metrics *metrics, const struct request *request, int64_t now_us)
{
    int route = router_index(request->route);
    /* A peer that left before a status existed: 499, counted as "other". */
    int status = request->reply.status != 0 ? request->reply.status : 499;
    metrics->requests[route][code_index(status)]++;
    histogram_add(&metrics->durations[route], now_us - request->began_us);
    if (has_kind(request) && request->begun) {
        metrics->finished[request->route->endpoint->kind][request_outcome(request)]++;
    }
}

void metrics_job(struct metrics *metrics, const struct job *job, bool first)
{
    const struct job_times *times = &job->times;
    int64_t tokens = 0;
    if (times->started != 0) {
        histogram_add(
            &metrics->queue_wait[job->place.service_class], times->started - times->submitted);
    }
    if (times->first_token == 0) {
        return;
    }
    if (first) {
        histogram_add(&metrics->first_token, times->first_token - times->submitted);
    }
    for (int32_t i = 0; i < job->plan.item_count && job->results != NULL; i++) {
        tokens += job->results[i].generated_tokens;
    }
    if (job->plan.item_count == 1 && tokens > 1) {
        histogram_add(
            &metrics->between_tokens, (times->finished - times->first_token) / (tokens - 1));
    }
}

/* ---- printing ---- */

static void family(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP magnetd_%s %s\n# TYPE magnetd_%s %s\n", name, help, name, type);
}

static void plain(
    struct buf *out, const char *name, const char *type, const char *help, double value)
{
    family(out, name, type, help);
    buf_printf(out, "magnetd_%s %.17g\n", name, value);
}

static void labelled(
    struct buf *out, const char *name, const char *label, const char *word, uint64_t value)
{
    buf_printf(out, "magnetd_%s{%s=\"%s\"} %llu\n", name, label, word, (unsigned long long)value);
}

/* `label` is "" or `route="/embed"`. */
static void histogram(
    struct buf *out, const char *name, const char *label, const struct histogram *histogram)
{
    uint64_t sum = 0;
    double bound = 0.0005;
    const char *comma = label[0] != '\0' ? "," : "";
    for (int k = 0; k < HISTOGRAM_BUCKETS; k++) {
        sum += histogram->buckets[k];
        buf_printf(out, "magnetd_%s_bucket{%s%sle=\"%.10g\"} %llu\n", name, label, comma, bound,
            (unsigned long long)sum);
        bound *= 2;
    }
    buf_printf(out, "magnetd_%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, label, comma,
        (unsigned long long)histogram->count);
    const char *open = label[0] != '\0' ? "{" : "", *close = label[0] != '\0' ? "}" : "";
    buf_printf(out, "magnetd_%s_sum%s%s%s %.17g\n", name, open, label, close, histogram->sum_s);
    buf_printf(out, "magnetd_%s_count%s%s%s %llu\n", name, open, label, close,
        (unsigned long long)histogram->count);
}

static void write_state(struct buf *out, struct app *app, const struct engine_stats *stats)
{
    const struct http_stats *http = http_stats(app->http);
    family(out, "build_info", "gauge", "Always 1; the labels say what runs.");
    buf_printf(out, "magnetd_build_info{version=\"%s\",kernels=\"%s\"} 1\n", MAGNETD_VERSION,
        app_engine(app) != NULL ? engine_kernels(app_engine(app)) : "");
    bool stalled = health_stalled(&app->health, stats, http_now_us(app->http));
    bool ready = health_state(&app->health) == HEALTH_READY && !stalled;
    plain(out, "ready", "gauge", "1 when /ready answers 200.", ready);
    plain(out, "engine_stalled", "gauge", "1 when work waits and no step ends.", stalled);
    plain(out, "http_connections", "gauge", "Open connections.", (double)http->connections);
    family(out, "http_connections_refused_total", "counter", "Connections not taken.");
    labelled(out, "http_connections_refused_total", "reason", "full", http->refused_full);
    labelled(out, "http_connections_refused_total", "reason", "no_files", http->refused_files);
    family(out, "http_malformed_total", "counter", "Heads that break HTTP or our limits.");
    for (int i = AUDIT_PARSER; i < AUDIT_REASON_COUNT; i++) {
        labelled(out, "http_malformed_total", "reason", audit_reason_word((enum audit_reason)i),
            http->malformed[i]);
    }
    family(out, "loop_callback_seconds", "histogram", "Work of one turn of the I/O loop.");
    histogram(out, "loop_callback_seconds", "", &http->turns);
    plain(out, "log_dropped_total", "counter", "Log lines dropped.", (double)log_dropped());
}

static void write_unknown_fields(struct buf *out, struct tasks *tasks)
{
    family(out, "http_unknown_fields_total", "counter", "Request fields nobody knows.");
    for (int route = 0; route < endpoint_route_count; route++) {
        if (endpoint_routes[route].handler != ROUTE_PAGE) {
            labelled(out, "http_unknown_fields_total", "route", endpoint_routes[route].path,
                atomic_load(&tasks->unknown_fields[route]));
        }
    }
}

static void write_http(struct buf *out, const struct metrics *metrics)
{
    char label[128];
    family(out, "http_requests_total", "counter", "Requests by route and status.");
    for (int route = 0; route <= endpoint_route_count; route++) {
        const char *name = route < endpoint_route_count ? endpoint_routes[route].path : "none";
        for (int code = 0; code < METRICS_CODES; code++) {
            uint64_t count = metrics->requests[route][code];
            if (code > 0 && codes[code - 1] == 0) {
                break;
            }
            if (codes[code] == 0) {
                buf_printf(out, "magnetd_http_requests_total{route=\"%s\",code=\"other\"} %llu\n",
                    name, (unsigned long long)count);
            } else if (count > 0 || codes[code] == 200) {
                buf_printf(out, "magnetd_http_requests_total{route=\"%s\",code=\"%d\"} %llu\n",
                    name, codes[code], (unsigned long long)count);
            }
        }
    }
    family(out, "http_request_duration_seconds", "histogram", "First handler call to last byte.");
    for (int route = 0; route <= endpoint_route_count; route++) {
        snprintf(label, sizeof(label), "route=\"%s\"",
            route < endpoint_route_count ? endpoint_routes[route].path : "none");
        histogram(out, "http_request_duration_seconds", label, &metrics->durations[route]);
    }
    family(out, "rejected_total", "counter", "Requests refused at admission.");
    for (int i = 0; i < REJECTION_COUNT; i++) {
        labelled(out, "rejected_total", "reason", rejection_words[i], metrics->rejected[i]);
    }
    family(out, "cancelled_total", "counter", "Clients that left, by phase of their request.");
    for (int i = 0; i < PHASE_COUNT; i++) {
        labelled(out, "cancelled_total", "phase", phase_word((enum phase)i), metrics->cancelled[i]);
    }
}

static void by_kind(struct buf *out, const char *name, const char *type, const char *help,
    const uint64_t values[KIND_COUNT])
{
    family(out, name, type, help);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        labelled(out, name, "kind", kind_words[kind], values[kind]);
    }
}

static void write_kinds(
    struct buf *out, const struct metrics *metrics, const struct engine_stats *stats)
{
    uint64_t in_flight[KIND_COUNT];
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        in_flight[kind] = metrics->received[kind];
        for (int outcome = 0; outcome < OUTCOME_COUNT; outcome++) {
            in_flight[kind] -= metrics->finished[kind][outcome];
        }
    }
    by_kind(
        out, "requests_received_total", "counter", "Requests routed to a task.", metrics->received);
    by_kind(out, "requests_in_flight", "gauge", "Received and not finished.", in_flight);
    by_kind(out, "prompt_tokens_total", "counter", "Prompt tokens.", stats->prompt_tokens);
    by_kind(out, "cached_tokens_total", "counter", "Prompt tokens not computed again.",
        stats->cached_tokens);
    by_kind(out, "generated_tokens_total", "counter", "Tokens sampled.", stats->generated_tokens);
    by_kind(out, "truncated_inputs_total", "counter", "Inputs cut to the context.",
        metrics->truncated_inputs);
    by_kind(out, "step_rows_total", "counter", "Rows computed.", stats->step_rows);
    family(out, "requests_finished_total", "counter", "Requests by how they ended.");
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        for (int outcome = 0; outcome < OUTCOME_COUNT; outcome++) {
            buf_printf(out, "magnetd_requests_finished_total{kind=\"%s\",outcome=\"%s\"} %llu\n",
                kind_words[kind], outcome_word((enum outcome)outcome),
                (unsigned long long)metrics->finished[kind][outcome]);
        }
    }
}

/* step_kinds is a histogram over small whole numbers: how many of the four kinds a step carried. */
static void write_step_kinds(struct buf *out, const struct engine_stats *stats)
{
    uint64_t steps = 0, sum = 0;
    family(out, "step_kinds", "histogram", "How many of the four kinds a step carried.");
    for (int k = 0; k <= KIND_COUNT; k++) {
        steps += stats->step_kinds[k];
        sum += stats->step_kinds[k] * (uint64_t)k;
        buf_printf(
            out, "magnetd_step_kinds_bucket{le=\"%d\"} %llu\n", k, (unsigned long long)steps);
    }
    buf_printf(out,
        "magnetd_step_kinds_bucket{le=\"+Inf\"} %llu\nmagnetd_step_kinds_sum %llu\n"
        "magnetd_step_kinds_count %llu\n",
        (unsigned long long)steps, (unsigned long long)sum, (unsigned long long)steps);
}

static void write_reuse(struct buf *out, const struct engine_stats *stats)
{
    static const char *const stores[REUSE_STORES] = {
        [REUSE_PREFIX] = "prefix", [REUSE_CONTEXT] = "context"};
    family(
        out, "cache_requests_total", "counter", "Sequences that looked for kept keys and values.");
    for (int store = 0; store < REUSE_STORES; store++) {
        const uint64_t counts[] = {stats->reuse_hits[store], stats->reuse_misses[store]};
        for (int miss = 0; miss < 2; miss++) {
            buf_printf(out, "magnetd_cache_requests_total{store=\"%s\",result=\"%s\"} %llu\n",
                stores[store], miss ? "miss" : "hit", (unsigned long long)counts[miss]);
        }
    }
}

static void write_engine(struct buf *out, const struct app *app, const struct engine_stats *stats)
{
    struct histogram steps = {.count = stats->steps, .sum_s = (double)stats->step_us_sum / 1e6};
    for (int k = 0; k < HISTOGRAM_BUCKETS; k++) {
        steps.buckets[k] = stats->step_us_buckets[k];
    }
    family(out, "step_seconds", "histogram", "One forward pass and what follows it.");
    histogram(out, "step_seconds", "", &steps);
    write_step_kinds(out, stats);
    family(out, "time_to_first_token_seconds", "histogram", "Submission to first token.");
    histogram(out, "time_to_first_token_seconds", "", &app->metrics.first_token);
    family(out, "inter_token_seconds", "histogram", "Mean gap between tokens of a request.");
    histogram(out, "inter_token_seconds", "", &app->metrics.between_tokens);
    family(out, "queue_wait_seconds", "histogram", "Submission to first step.");
    for (int c = 0; c < CLASS_COUNT; c++) {
        char label[64];
        snprintf(label, sizeof(label), "class=\"%s\"", class_words[c]);
        histogram(out, "queue_wait_seconds", label, &app->metrics.queue_wait[c]);
    }
    family(out, "queue_depth", "gauge", "Jobs accepted and not started.");
    for (int c = 0; c < CLASS_COUNT; c++) {
        labelled(
            out, "queue_depth", "class", class_words[c], stats->accepted[c] - stats->left_queue[c]);
    }
    plain(out, "sequences_running", "gauge", "Sequences in the batch.", stats->sequences_running);
    plain(out, "preemptions_total", "counter", "Sequences put back to wait.",
        (double)stats->preemptions);
    plain(out, "tasks_in_use", "gauge", "Task slots taken.", app->tasks.in_use);
    family(out, "cache_pages", "gauge", "Pages of cached keys and values.");
    labelled(out, "cache_pages", "state", "free", stats->pages_free);
    labelled(out, "cache_pages", "state", "used", stats->pages_used);
    labelled(out, "cache_pages", "state", "kept", stats->pages_kept);
    labelled(out, "cache_pages", "state", "shared", stats->pages_shared);
    write_reuse(out, stats);
    family(out, "memory_bytes", "gauge", "Memory by pool.");
    for (int pool = 0; pool < MEM_POOL_COUNT; pool++) {
        labelled(out, "memory_bytes", "pool", mem_pool_word((enum mem_pool)pool),
            mem_bytes((enum mem_pool)pool));
    }
}

void metrics_answer(struct app *app, struct request *request)
{
    struct engine_stats stats = {0};
    if (app_engine(app) != NULL) {
        engine_stats(app_engine(app), &stats);
    }
    reply_begin(request, 200, "text/plain; version=0.0.4; charset=utf-8");
    struct buf *out = &request->reply.body;
    write_state(out, app, &stats);
    write_http(out, &app->metrics);
    write_unknown_fields(out, &app->tasks);
    write_kinds(out, &app->metrics, &stats);
    write_engine(out, app, &stats);
    process_write(out);
}
