/* See the header. */
#include "batch/progress.h"

#include <inttypes.h>
#include "engine/base/clock.h"

enum { PERIOD_US = 1000000, PERIOD_TERMINAL_US = 100000 };

void progress_begin(struct progress *progress, FILE *file, bool terminal, const char *unit)
{
    int64_t now_us = clock_now_us(NULL);
    *progress = (struct progress){
        .file = file, .terminal = terminal, .unit = unit, .began_us = now_us, .shown_us = now_us};
}

void progress_show(struct progress *progress, size_t done, size_t all, int64_t tokens, bool end)
{
    int64_t now_us = clock_now_us(NULL);
    int64_t period_us = progress->terminal ? PERIOD_TERMINAL_US : PERIOD_US;
    FILE *file = progress->file;
    if (file == NULL || (!end && now_us - progress->shown_us < period_us)) {
        return;
    }
    double seconds = (double)(now_us - progress->began_us) * 1e-6;
    double a_second = seconds > 0 ? 1 / seconds : 0;
    char of_all[32] = "", and_tokens[64] = "";
    if (all > 0) {
        (void)snprintf(of_all, sizeof(of_all), " of %zu", all);
    }
    if (tokens > 0) {
        (void)snprintf(
            and_tokens, sizeof(and_tokens), ", %.0f tokens a second", (double)tokens * a_second);
    }
    /* One call is one write, and what a longer line before it left is erased. */
    fprintf(file, "%s%zu%s %s, %.0f a second%s%s%s", progress->terminal ? "\r" : "", done, of_all,
        progress->unit, (double)done * a_second, and_tokens, progress->terminal ? "\033[K" : "",
        progress->terminal && !end ? "" : "\n");
    (void)fflush(file);
    progress->shown_us = now_us;
}
