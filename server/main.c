/*
 * The process: configuration, the plan, the loop thread, the engine, and the order in which they
 * end. The listener opens before the model is loaded, so that a probe gets an honest 503 instead
 * of a refused connection; --print-plan and a broken file are found out before that.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>
#include "api/json_in.h"
#include "batch/batch.h"
#include "engine/base/log.h"
#include "engine/engine.h"
#include "eval/eval.h"
#include "server/app.h"
#include "server/config.h"
#include "server/http.h"
#include "server/plan_text.h"

enum { EVAL_BYTES = 1 << 20 }; /* of a result: 256 subsets */
enum { EXIT_UNFINISHED = 3 };  /* stopped while a step of the engine ran: docs/scheduling.md */

static int complain(const struct err_info *info)
{
    fputs("magnetd: ", stderr);
    plan_text_shown(stderr, info->where);
    fputs(info->where[0] != '\0' ? ": " : "", stderr);
    plan_text_shown(stderr, info->text);
    if (info->offset >= 0) {
        fprintf(stderr, " (byte %" PRId64 ")", info->offset);
    }
    fputc('\n', stderr);
    return EXIT_FAILURE;
}

static const char *or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static struct engine_config engine_config_of(const struct config *config)
{
    struct engine_config engine = {.model_path = config->model,
        .profile_path = or_null(config->profile),
        .kernels = strcmp(config->kernels, "auto") == 0 ? NULL : config->kernels,
        .threads = (int32_t)config->threads,
        .context = (int32_t)config->context,
        .kv_f32 = strcmp(config->kv_type, "f32") == 0,
        .int8_activations = strcmp(config->activations, "int8") == 0,
        .cache_bytes = (uint64_t)config->cache_mib << 20,
        .reuse_percent = config->cache_reuse == 0 ? -1 : (int32_t)config->cache_reuse,
        .reserve_tokens = (int32_t)config->reserve_tokens,
        .sequences = (int32_t)config->sequences,
        .jobs = (int32_t)config->jobs + 1, /* one more for the first forward pass */
        .jobs_bulk = (int32_t)config->jobs_bulk,
        .step_rows = (int32_t)config->step_rows,
        .step_us = config->step_ms * 1000};
    for (int32_t i = 0; i < config->adapters.count; i++) {
        engine.adapters[i] = config->adapters.texts[i];
    }
    engine.adapter_count = config->adapters.count;
    return engine;
}

static enum log_level log_level_of(const struct config *config)
{
    static const char *const words[] = {"debug", "info", "warn", "error"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(config->log_level, words[i]) == 0) {
            return (enum log_level)i;
        }
    }
    return LOG_INFO;
}

static int print_plan(const char *path, const struct config *config, bool memory)
{
    struct engine_config engine = engine_config_of(config);
    struct memory_plan plan;
    struct model_info model;
    struct err_info info = {.offset = -1};
    engine.model_path = path;
    if (engine_plan(&engine, &plan, &model, &info) != ERR_OK) {
        return complain(&info);
    }
    FILE *file = config->print_plan || !memory ? stdout : stderr;
    plan_text_model(file, &model);
    if (memory) {
        plan_text_memory(file, &plan);
    }
    return EXIT_SUCCESS;
}

/* Loads the whole file: every tensor is read and checked, not only the headers. */
static int check_model(const struct config *config)
{
    struct engine_config engine_config = engine_config_of(config);
    struct engine *engine = NULL;
    struct err_info info = {.offset = -1};
    engine_config.model_path = config->check_model;
    if (engine_open(&engine_config, &engine, &info) != ERR_OK) {
        return complain(&info);
    }
    plan_text_model(stdout, engine_model(engine));
    if (engine_tokenizer(engine) != NULL) { /* the scripted engine of the tests has none */
        plan_text_tokenizer(stdout, engine_tokenizer(engine));
    }
    plan_text_chat(stdout, engine_chat_template(engine));
    plan_text_profile(stdout, engine_model(engine));
    plan_text_memory(stdout, engine_memory(engine));
    printf("ok\n");
    engine_close(engine);
    return EXIT_SUCCESS;
}

/* Runs only on a thread that was there before main and does not block the signal: OpenBLAS makes
 * its own when it is loaded. Blocks the signal there for good, by the mask the thread returns to,
 * and sends it once more: with no thread left to take it, it waits for the signalfd. */
static void pass_on(int number, siginfo_t *signal, void *context)
{
    ucontext_t *thread = context;
    (void)signal;
    sigaddset(&thread->uc_sigmask, number);
    (void)kill(getpid(), number);
}

/* Signals are taken by the loop's signalfd; blocked here, before we make a thread, they stay
 * blocked in all of ours. A peer that left is an error code, not a signal. */
static void set_signals(void)
{
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigset_t set;
    sigemptyset(&action.sa_mask);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

/* The end without joining and freeing: what runs cannot be asked to stop and holds nothing that
 * outlives the process. */
static _Noreturn void leave(int status)
{
    log_close();
    _exit(status);
}

static void *run_loop(void *context)
{
    struct app *app = context;
    http_run(app->http);
    if (!atomic_load(&app->loading_over)) {
        log_text(LOG_INFO, "server", "stopped while the model was being loaded");
        leave(EXIT_SUCCESS);
    }
    return NULL;
}

static struct http_config http_config_of(const struct config *config)
{
    return (struct http_config){.host = config->host,
        .port = (int)config->port,
        .connections_max = (int)config->max_connections,
        .body_bytes_max = (size_t)config->max_body_bytes,
        .drain_delay_ms = config->drain_delay_ms,
        .drain_timeout_ms = config->drain_timeout_ms};
}

static void announce(const struct config *config, int port)
{
    bool v6 = strchr(config->host, ':') != NULL;
    printf("listening on http://%s%s%s:%d\n", v6 ? "[" : "", config->host, v6 ? "]" : "", port);
    (void)fflush(stdout);
}

/* The model is loaded on this thread while the loop already answers probes. */
static int serve(struct app *app, struct err_info *info)
{
    struct engine_config engine_config = engine_config_of(&app->config);
    struct engine *engine = NULL;
    pthread_t loop;
    int status = EXIT_SUCCESS;
    if (pthread_create(&loop, NULL, run_loop, app) != 0) {
        (void)err_set(info, ERR_NO_MEMORY, "threads", "the loop's thread did not start");
        return complain(info);
    }
    enum err err = engine_open(&engine_config, &engine, info);
    atomic_store(&app->loading_over, true);
    if (err == ERR_OK) {
        app_serve(app, engine);
    } else {
        status = complain(info);
        http_stop(app->http, true);
    }
    pthread_join(loop, NULL);
    if (!app_close(app)) {
        leave(EXIT_UNFINISHED);
    }
    engine_close(engine);
    return app->failed ? EXIT_FAILURE : status;
}

static int run(const struct config *config)
{
    static struct app app; /* metrics make it too large for a stack */
    struct http_config http_config = http_config_of(config);
    struct http_hooks hooks;
    struct err_info info = {.offset = -1};
    int port = 0;
    if (print_plan(config->model, config, true) != EXIT_SUCCESS) {
        return EXIT_FAILURE;
    }
    set_signals();
    if (log_open(log_level_of(config)) != ERR_OK) {
        (void)err_set(&info, ERR_NO_MEMORY, "log", "the log did not open");
        return complain(&info);
    }
    int status = EXIT_FAILURE;
    if (app_open(&app, config, &hooks, &info) != ERR_OK) {
        tasks_close(&app.tasks);
        status = complain(&info);
    } else if (http_open(&http_config, &hooks, &app.http, &port, &info) != ERR_OK) {
        tasks_close(&app.tasks);
        status = complain(&info);
    } else {
        announce(config, port);
        status = serve(&app, &info);
        http_close(app.http);
    }
    log_close();
    return status;
}

/* ---- eval ---- */

static int run_eval(const struct config *config)
{
    struct err_info info = {.offset = -1};
    struct eval_options options = {.engine = engine_config_of(config),
        .data = config->data,
        .prompt_name = or_null(config->prompt_name),
        .terminal = isatty(STDERR_FILENO) == 1};
    struct buf out;
    options.progress = options.terminal || config->progress ? stderr : NULL;
    buf_init(&out, MEM_OTHER, EVAL_BYTES);
    enum err err = eval_run(config->eval, &options, &out, &info);
    bool written = err == ERR_OK && puts(out.bytes) >= 0 && fflush(stdout) == 0;
    buf_free(&out);
    if (err == ERR_OK && !written) {
        err = err_set(&info, ERR_IO, "eval", "the result cannot be written");
    }
    return err == ERR_OK ? EXIT_SUCCESS : complain(&info);
}

/* ---- lines of a file ---- */

static int run_batch(const struct config *config)
{
    struct err_info info = {.offset = -1};
    /* Both on one terminal would be written over each other. */
    const bool terminal =
        isatty(STDERR_FILENO) == 1 && (config->output[0] != '\0' || isatty(STDOUT_FILENO) != 1);
    const struct batch_options options = {.engine = engine_config_of(config),
        .endpoint = config->endpoint,
        .input = config->input,
        .output = config->output,
        .body = config->body,
        .served_name = or_null(config->served_model_name),
        .aliases = or_null(config->model_alias),
        .jsonl = config->jsonl,
        .progress = terminal || config->progress ? stderr : NULL,
        .terminal = terminal,
        .messages = stderr};
    return batch_run(&options, &info) == ERR_OK ? EXIT_SUCCESS : complain(&info);
}

static int help(const struct config *config)
{
    if (config->command == COMMAND_BATCH) {
        printf("magnetd %s --model PATH [...]: a line of text in, a line of JSON out, as /%s "
               "answers it\n\n",
            config->endpoint, config->endpoint);
    } else if (config->command == COMMAND_EVAL) {
        printf(
            "magnetd eval KIND --data FILE --model PATH [...]: measure a model; JSON on standard "
            "output\n\n");
        eval_help(stdout);
        printf("\n");
    } else {
        printf("magnetd %s: embed, infill, generate and classify from one set of weights\n"
               "magnetd embed|infill|generate|classify [...] answers the lines of a file without a "
               "server: magnetd embed --help\n"
               "magnetd eval KIND [...] measures a model: magnetd eval --help\n\n",
            MAGNETD_VERSION);
    }
    config_help(stdout, config->command);
    return EXIT_SUCCESS;
}

/* A stream that the parent closed would be the next file that is opened: a socket that gets our
 * log, an event descriptor that is read as lines. It becomes one that the stream cannot use, so
 * that whoever needs it fails and says so. */
static bool hold_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) {
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    struct config config;
    struct err_info info = {.offset = -1};
    if (!hold_streams()) {
        return EXIT_FAILURE; /* nowhere to say so */
    }
    json_in_init();
    if (config_read(argc, argv, &config, &info) != ERR_OK) {
        return complain(&info);
    }
    if (config.help) {
        return help(&config);
    }
    if (config.command == COMMAND_EVAL) {
        return eval_check(config.eval, &info) == ERR_OK ? run_eval(&config) : complain(&info);
    }
    if (config.command == COMMAND_BATCH) {
        return run_batch(&config);
    }
    if (config.version) {
        printf("magnetd %s\n", MAGNETD_VERSION);
        return EXIT_SUCCESS;
    }
    if (config.check_model[0] != '\0') {
        return check_model(&config);
    }
    if (config.print_plan) {
        return print_plan(config.model, &config, true);
    }
    return run(&config);
}
