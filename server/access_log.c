/*
 * Every value is a number, a word of ours or an id already checked to be [A-Za-z0-9._-]; that is
 * why the line can be printed without escaping.
 */
#include "server/access_log.h"

#include <stdio.h>
#include <time.h>
#include "engine/base/log.h"
#include "server/request.h"
#include "server/router.h"

static const char *method_word(enum method method)
{
    switch (method) {
    case METHOD_GET:
        return "GET";
    case METHOD_HEAD:
        return "HEAD";
    case METHOD_POST:
        return "POST";
    case METHOD_OTHER:
        break;
    }
    return "other";
}

void access_log_write(const struct request *request, int64_t now_us)
{
    const struct request_usage *usage = &request->usage;
    char line[1024];
    struct timespec now = {0};
    struct tm utc = {0};
    char date[32];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
    int bytes = snprintf(line, sizeof(line),
        "{\"time\":\"%s.%03ldZ\",\"level\":\"info\",\"area\":\"access\",\"id\":\"%s\","
        "\"method\":\"%s\",\"route\":\"%s\",\"status\":%d,\"outcome\":\"%s\",\"phase\":\"%s\","
        "\"total_ms\":%.3f,\"queue_ms\":%.3f,\"prompt_ms\":%.3f,\"decode_ms\":%.3f,"
        "\"tokens_in\":%lld,\"tokens_cached\":%lld,\"tokens_out\":%lld,\"bytes_out\":%llu}",
        date, now.tv_nsec / 1000000, request->id, method_word(request->method),
        router_name(request->route), request->reply.status, outcome_word(request_outcome(request)),
        phase_word(request->phase), (double)(now_us - request->began_us) / 1e3,
        (double)usage->queue_us / 1e3, (double)usage->prompt_us / 1e3,
        (double)usage->decode_us / 1e3, (long long)usage->tokens_in,
        (long long)usage->tokens_cached, (long long)usage->tokens_out,
        (unsigned long long)request->bytes_out);
    if (bytes > 0 && (size_t)bytes < sizeof(line)) {
        log_json(LOG_INFO, line, (uint32_t)bytes);
    }
}
