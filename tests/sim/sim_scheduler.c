/*
 * Goal: whatever arrives, is cancelled, runs late or reads slowly, in whatever order and with
 * however few pages: every request ends once, with the answer it gets alone; nothing leaks, nothing
 * starves, and no step is idle while something could run.
 * Method: runs of the real scheduler over a fake network and a fake clock, each made from a seed
 * (sim.h). After every step everything in check.c must hold; every ended job is compared with the
 * same plan alone.
 *
 *     sim_scheduler                     seeds 1 to 1000 (fewer under sanitizers)
 *     sim_scheduler --seed N [--trace]  one seed again, and what happens in it
 *     sim_scheduler --first N --count M
 *     sim_scheduler --fault NAME        breaks something on purpose: passes if that is found
 */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "engine/base/mem.h"
#include "tests/scale.h"
#include "tests/sim/sim.h"

enum { SEEDS = 1000, STEPS_MAX = 100000, BLOCKED_WAIT_US = 2000, FAULT_SEEDS = 30 };

/* A fault's name, and the words of the check that finds it; "a b" = either. */
static const struct {
    const char *name, *found_as;
} FAULTS[FAULT_COUNT] = {
    [FAULT_NONE] = {"none", ""},
    [FAULT_REFERENCE] = {"reference", "pages network"},
    [FAULT_RECORD] = {"record", "network"},
    [FAULT_TOKEN] = {"token", "slots"},
    [FAULT_COUNTER] = {"counter", "counters"},
    [FAULT_DONE] = {"done", "twice"},
    [FAULT_CANCEL] = {"cancel", "late"},
    [FAULT_STARVED] = {"starved", "starved"},
    [FAULT_STACK] = {"stack", "stack"},
    [FAULT_RESULT] = {"result", "result"},
};

/* The seed of the run under way, for the handler of a failed assertion or a bad address. */
static char replay[160];

void sim_fail(const struct sim *sim, const char *what, const char *format, ...)
{
    bool wanted = sim->fault != FAULT_NONE && strstr(FAULTS[sim->fault].found_as, what) != NULL;
    va_list args;
    va_start(args, format);
    (void)printf("seed %" PRIu64 " step %d: %s: ", sim->seed, sim->step, what);
    (void)vprintf(format, args);
    va_end(args);
    (void)printf("\n%s", wanted ? "found, as it should be\n" : replay);
    (void)fflush(stdout);
    _exit(wanted ? 0 : 1);
}

static void on_abort(int signal_number)
{
    (void)signal_number;
    if (write(STDERR_FILENO, replay, strlen(replay)) < 0) {
        /* Nothing is left to tell it to. */
    }
}

void sim_trace(const struct sim *sim, const char *format, ...)
{
    if (sim->trace) {
        va_list args;
        va_start(args, format);
        (void)printf("%6d %9" PRId64 " us  ", sim->step, sim->now_us);
        (void)vprintf(format, args);
        (void)printf("\n");
        va_end(args);
    }
}

/* ---- the host ------------------------------------------------------------------------------ */

static void trace_batch(const struct sim *sim, const struct batch *batch, int32_t from, int32_t to)
{
    for (int32_t r = 0; sim->trace && r < batch->run_count; r++) {
        const struct run *run = &batch->runs[r];
        const struct seq *seq = check_seq_of(sim, run);
        const struct sim_job *sim_job = seq->job->user;
        sim_trace(sim, "  job %d item %d: slots %d to %d of %d, units %d to %d", sim_job->number,
            seq->item_index, run->slot_from, run->slot_from + run->row_count, seq->slot_count, from,
            to);
    }
}

/* A pass costs something itself, by the row and by the slot attended to. */
static void forward(void *context, struct batch *batch, int32_t unit_from, int32_t unit_to)
{
    struct sim *sim = context;
    check_batch(sim, batch);
    trace_batch(sim, batch, unit_from, unit_to);
    sim->network.slots_read = 0;
    fake_network_forward(&sim->network, batch, unit_from, unit_to);
    if (sim->network.broken[0] != '\0') {
        sim_fail(sim, "network", "%s", sim->network.broken);
    }
    int32_t units = unit_to - unit_from;
    sim->now_us += sim->slowness * (150 + (int64_t)batch->row_count * units * 40 / FAKE_UNITS +
                                       (int64_t)sim->network.slots_read / 20);
    sim->step_rows += MAX(1, batch->row_count * units / FAKE_UNITS);
}

static void logits(void *context, const float *const *hidden, int32_t count, float *out)
{
    struct sim *sim = context;
    fake_network_logits(hidden, count, out);
    sim->now_us += sim->slowness * 60 * count;
    sim->step_logits += count;
}

static int64_t now_us(void *context)
{
    const struct sim *sim = context;
    return sim->now_us;
}

static void done(void *context, struct job *job)
{
    struct sim *sim = context;
    struct sim_job *sim_job = job->user;
    enum kind kind = job->plan.kind;
    sim_job->ended++;
    sim->completed[kind] += job->err == ERR_OK;
    sim->cancelled[kind] += job->err == ERR_CANCELLED;
    sim->failed[kind] += job->err != ERR_OK && job->err != ERR_CANCELLED;
    sim_trace(sim, "job %d ends: %s", sim_job->number, err_word(job->err));
}

static void progress(void *context, struct job *job)
{
    (void)context;
    (void)job;
}

/* ---- faults -------------------------------------------------------------------------------- */

static void break_seq(struct sim *sim, struct seq *seq)
{
    if (sim->fault == FAULT_REFERENCE && !sim->fault_done) {
        pages_reference(seq->slots.pages, seq->slots.page_ids[0]);
        sim->fault_done = true;
    } else if (sim->fault == FAULT_RECORD && seq->stored > 0) {
        seq->slots.addresses[0][0] ^= 1;
    } else if (sim->fault == FAULT_TOKEN) {
        seq->tokens[seq->slot_count - 1] ^= 1;
    } else if (sim->fault == FAULT_STACK) {
        seq->stack ^= 1;
    } else if (sim->fault == FAULT_STARVED && seq == &sim->scheduler->seqs[0] &&
               seq->stored < seq->item->token_count && sim->arrived < sim->arrivals) {
        seq->job->place.passed_over_in = sim->scheduler->queue.step + 1;
    }
}

static void break_job(struct sim *sim, struct sim_job *sim_job)
{
    struct job *job = &sim_job->job;
    if (sim->fault == FAULT_CANCEL && job->plan.deadline_us == 0 && job->plan.start_by_us == 0) {
        atomic_store(&job->cancelled, false);
    } else if (sim->fault == FAULT_DONE && sim_job->ended > 0) {
        sim_job->ended++;
    } else if (sim->fault == FAULT_RESULT && sim_job->ended > 0 && job->results[0].vector != NULL) {
        job->results[0].vector[0] += 1;
    }
}

/* Between two steps, or (jobs only) between a step and its checks. */
static void break_something(struct sim *sim, bool between)
{
    for (int32_t i = 0; between && i < sim->config.sequences; i++) {
        if (sim->scheduler->seqs[i].job != NULL) {
            break_seq(sim, &sim->scheduler->seqs[i]);
        }
    }
    for (int32_t i = 0; i < sim->job_count; i++) {
        break_job(sim, sim->jobs[i]);
    }
    if (sim->fault == FAULT_COUNTER && sim->step == 5) {
        sim->scheduler->counters.completed[KIND_EMBED]++;
    }
}

/* ---- a run --------------------------------------------------------------------------------- */

static void open_run(struct sim *sim)
{
    struct dice *dice = &sim->dice;
    *dice = (struct dice){.seed = sim->seed};
    struct dice memory = {.seed = sim->seed, .count = (uint64_t)1 << 40}; /* of its own */
    sim->network.poison_token = FAKE_VOCAB - 1;
    int32_t context = 96 + roll(dice, WORK_CONTEXT - 95);
    int32_t pages_min = (context + FAKE_PAGE_SLOTS - 1) / FAKE_PAGE_SLOTS;
    int32_t pages = MIN(SIM_PAGES, pages_min + roll(dice, 4) * roll(dice, 24));
    sim->config = (struct sched_config){
        .sequences = 1 + roll(dice, SIM_SEQUENCES),
        .jobs = 2 + roll(dice, SIM_JOBS - 1),
        .context = context,
        .step_rows = 8 + roll(dice, 90),
        .step_us = roll(dice, 2) * (1000 + roll(dice, 30000)),
        .pages = &sim->pages,
        .reserve_tokens = roll(&memory, 3) * roll(&memory, 40),
        .reuse_pages = roll(&memory, 2) * roll(&memory, pages + 1),
        .threads = sim->threads,
        .tools = fake_network_tools(sim->tokenizer, sim->kernels, sim->ends),
    };
    /* In half of the runs texts that /classify has in common with others are other K/V. */
    sim->config.tools.stacks.causal[KIND_CLASSIFY] = (int32_t)(sim->seed % 2);
    struct sched_host host = {.context = sim,
        .units = FAKE_UNITS,
        .forward = forward,
        .logits = logits,
        .now_us = now_us,
        .done = done,
        .progress = progress};
    if (fake_network_pages(&sim->pages, pages) != ERR_OK ||
        scheduler_open(&sim->config, &host, &sim->scheduler) != ERR_OK) {
        sim_fail(sim, "memory", "none is left");
    }
    /* A sequence that is never chosen again only stands out while others keep coming. */
    sim->arrivals = sim->fault == FAULT_STARVED ? 400 : 8 + roll(dice, 40);
    /* At the slowest a few steps take as long as the queue lets anyone wait. */
    sim->slowness = (int64_t[]){1, 1, 30, 1000}[roll(dice, 4)];
    sim->arrival_gap_us = sim->slowness * (int64_t[]){0, 400, 3000, 20000}[roll(dice, 4)];
    sim->now_us = 1;
    sim_trace(sim, "%d sequences, %d jobs, %d slots of context, %d rows a step, %d pages",
        sim->config.sequences, sim->config.jobs, context, sim->config.step_rows, pages);
}

static void step(struct sim *sim)
{
    sim->step++;
    sim->step_rows = sim->step_logits = 0;
    clients_mark_ends(sim);
    check_before(sim);
    break_something(sim, true);
    mem_seal_thread(1);
    bool ran = scheduler_step(sim->scheduler);
    mem_seal_thread(0);
    sim_trace(sim, "%d rows, %d logits, %d of %d pages free", sim->step_rows, sim->step_logits,
        sim->pages.free_count, sim->pages.count);
    break_something(sim, false);
    check_step(sim, ran);
    clients_leave(sim);
    if (!ran) {
        sim->now_us += BLOCKED_WAIT_US; /* as the engine's thread does */
    } else if (sim->seed % 5 == 0 && roll(&sim->dice, 40) == 0) {
        sim->now_us += 20000 * sim->slowness; /* the machine was busy with something else */
    }
    if (sim->step == STEPS_MAX) {
        sim_fail(sim, "hang", "%d jobs live on", sim->job_count);
    }
}

static void run_seed(const struct sim *shared, uint64_t seed)
{
    struct sim *sim = malloc(sizeof *sim);
    if (sim == NULL) {
        sim_fail(shared, "memory", "none is left");
    }
    *sim = *shared;
    sim->seed = seed;
    (void)snprintf(replay, sizeof replay,
        "seed %" PRIu64 ": replay with build/tests/sim/sim_scheduler --seed %" PRIu64 " --trace\n",
        seed, seed);
    open_run(sim);
    while (sim->arrived < sim->arrivals || sim->job_count > 0) {
        clients_arrive(sim);
        clients_act(sim);
        step(sim);
    }
    check_rest(sim);
    scheduler_close(sim->scheduler);
    pages_close(&sim->pages);
    free(sim);
}

/* ---- the program --------------------------------------------------------------------------- */

struct options {
    uint64_t first, count;
    bool trace;
    enum sim_fault fault;
};

static void usage(void)
{
    (void)fprintf(stderr,
        "sim_scheduler [--seed N] [--first N] [--count N] [--trace] [--fault NAME]\nfaults:");
    for (int32_t f = 1; f < FAULT_COUNT; f++) {
        (void)fprintf(stderr, " %s", FAULTS[f].name);
    }
    (void)fprintf(stderr, "\n");
    exit(2);
}

static enum sim_fault fault_named(const char *name)
{
    for (int32_t f = 1; f < FAULT_COUNT; f++) {
        if (strcmp(FAULTS[f].name, name) == 0) {
            return (enum sim_fault)f;
        }
    }
    usage();
    return FAULT_NONE;
}

static struct options parse(int argc, char **argv)
{
    struct options options = {.first = 1, .count = (uint64_t)MAX(SEEDS / test_scale(), 1)};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--trace") == 0) {
            options.trace = true;
            continue;
        }
        if (value[0] == '\0') {
            usage();
        } else if (strcmp(argv[i], "--seed") == 0) {
            options.first = strtoull(value, NULL, 10);
            options.count = 1;
        } else if (strcmp(argv[i], "--first") == 0) {
            options.first = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--count") == 0) {
            options.count = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--fault") == 0) {
            options.fault = fault_named(value);
            options.count = FAULT_SEEDS;
        } else {
            usage();
        }
        i++;
    }
    return options;
}

int main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    struct kernels kernels;
    struct sim shared = {.trace = options.trace, .fault = options.fault, .kernels = &kernels};
    if (kernels_select("ref", &kernels, NULL) != ERR_OK ||
        threads_open(1, &shared.threads) != ERR_OK) {
        sim_fail(&shared, "memory", "none is left");
    }
    struct tokenizer *tokenizer = fake_vocab_open();
    shared.tokenizer = tokenizer;
    (void)signal(SIGABRT, on_abort);
    if (test_scale() == 1) { /* a sanitizer has more to say */
        (void)sigaction(SIGSEGV,
            &(struct sigaction){.sa_handler = on_abort, .sa_flags = (int)SA_RESETHAND}, NULL);
    }
    for (uint64_t seed = options.first; seed < options.first + options.count; seed++) {
        run_seed(&shared, seed);
    }
    tokenizer_close(tokenizer);
    threads_close(shared.threads);
    (void)printf("%" PRIu64 " seeds from %" PRIu64 "\n", options.count, options.first);
    return options.fault == FAULT_NONE ? 0 : 1; /* a fault that nothing found */
}
