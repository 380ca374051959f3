/*
 * One table, four readers: defaults, environment, flags and --help all walk settings[]. A new
 * setting is one line here and one field in struct config. It says which command takes it:
 * serving, `magnetd eval`, lines of a file, or all, which is every setting of the engine.
 *
 * The surprising part: `0` as the default of a size means "the engine decides" (engine_config says
 * how), and --help shows it as "auto".
 */
#include "server/config.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include "engine/engine_limits.h"
#include "server/server_limits.h"

enum setting_type {
    SETTING_TEXT,
    SETTING_LIST, /* of texts, by flags that are given again; a variable is one */
    SETTING_INT,
    SETTING_SHARE,
    SETTING_SWITCH,
    SETTING_WORD
};

enum {
    SERVE = 1 << COMMAND_SERVE,
    EVAL = 1 << COMMAND_EVAL,
    BATCH = 1 << COMMAND_BATCH,
    ALL = SERVE | EVAL | BATCH
};

struct setting {
    unsigned commands;
    const char *flag; /* without the dashes; the variable is MAGNETD_ and the same in capitals */
    enum setting_type type;
    size_t offset;
    size_t bytes;        /* texts and words: room of the field */
    const char *text;    /* default of texts and shares; words: the default first, "f16|f32" */
    int64_t value;       /* default of numbers */
    int64_t min, max;    /* bounds of numbers */
    const char *operand; /* as --help shows it */
    const char *help;
};

#define FIELD(name) offsetof(struct config, name), sizeof(((struct config *)0)->name)
#define TEXT(commands, flag, name, text, operand, help)                                            \
    {                                                                                              \
        commands, flag, SETTING_TEXT, FIELD(name), text, 0, 0, 0, operand, help                    \
    }
#define LIST(commands, flag, name, operand, help)                                                  \
    {                                                                                              \
        commands, flag, SETTING_LIST, FIELD(name), NULL, 0, 0, 0, operand, help                    \
    }
#define WORD(commands, flag, name, words, help)                                                    \
    {                                                                                              \
        commands, flag, SETTING_WORD, FIELD(name), words, 0, 0, 0, words, help                     \
    }
#define NUMBER(commands, flag, name, value, min, max, help)                                        \
    {                                                                                              \
        commands, flag, SETTING_INT, FIELD(name), NULL, value, min, max, "N", help                 \
    }
#define SHARE(commands, flag, name, text, help)                                                    \
    {                                                                                              \
        commands, flag, SETTING_SHARE, FIELD(name), text, 0, 0, 1, "X", help                       \
    }
#define SWITCH(commands, flag, name, help)                                                         \
    {                                                                                              \
        commands, flag, SETTING_SWITCH, FIELD(name), NULL, 0, 0, 1, NULL, help                     \
    }

static const struct setting settings[] = {
    TEXT(ALL, "model", model, "", "PATH", "GGUF file, or folder of safetensors, to serve"),
    TEXT(ALL, "profile", profile, "", "FILE",
        "what the checkpoint wants (NAME.profile.json beside it)"),
    LIST(ALL, "adapter", adapters, "PATH",
        "LoRA to lay on it: PEFT folder or GGUF file; again for more, in order"),
    TEXT(SERVE | BATCH, "served-model-name", served_model_name, "", "NAME",
        "its name in replies (from the file)"),
    TEXT(SERVE | BATCH, "model-alias", model_alias, "", "A,B", "what else requests may call it"),
    TEXT(SERVE, "host", host, "127.0.0.1", "H", "address to listen on"),
    NUMBER(SERVE, "port", port, 8080, 0, 65535, "port to listen on; 0 = any free one"),
    SWITCH(SERVE, "allow-remote", allow_remote,
        "permit a --host that is not loopback: there are no keys"),
    NUMBER(ALL, "threads", threads, 0, 0, LIMIT_THREADS, "compute threads (CPUs available)"),
    WORD(ALL, "kernels", kernels, "auto|ref|avx2|avxvnni|avx512|avx512vnni|blas",
        "instruction set (best here)"),
    WORD(ALL, "kv-type", kv_type, "f16|f32", "type of cached keys and values"),
    WORD(ALL, "activations", activations, "f32|int8",
        "what block-format weights are multiplied with; float ones: f32"),
    NUMBER(ALL, "context", context, 0, 0, LIMIT_CONTEXT,
        "tokens of one sequence (the model's, <= 8192)"),
    NUMBER(
        ALL, "cache-mib", cache_mib, 0, 0, 1 << 24, "MiB of cached keys and values (4 contexts)"),
    NUMBER(SERVE, "cache-reuse", cache_reuse, 100, 0, 100,
        "per cent of them that may stay for later requests; 0 = none"),
    NUMBER(SERVE, "reserve-tokens", reserve_tokens, 64, 1, LIMIT_CONTEXT,
        "tokens to generate that a start needs room for"),
    NUMBER(ALL, "sequences", sequences, 64, 1, 4096, "sequences running at once"),
    NUMBER(SERVE, "jobs", jobs, 512, 1, 65536, "requests accepted at once, queued ones included"),
    NUMBER(SERVE, "jobs-bulk", jobs_bulk, 0, 0, 65536,
        "bulk requests that wait at once (half of --jobs)"),
    NUMBER(ALL, "step-rows", step_rows, 512, 16, 65536, "rows of one forward pass at most"),
    NUMBER(ALL, "step-ms", step_ms, LIMIT_STEP_MS, 1, 60000,
        "time of a step while nothing is decoded"),
    NUMBER(SERVE, "queue-ms", queue_ms, LIMIT_QUEUE_MS, 1, 3600000,
        "a request that waits longer is 504"),
    NUMBER(SERVE, "first-token-ms", first_token_ms, 0, 0, 3600000,
        "as long until the first token of a text (no bound)"),
    NUMBER(SERVE, "stall-ms", stall_ms, LIMIT_STALL_MS, 1000, 3600000,
        "work waits and no step ended for so long: not ready"),
    NUMBER(
        SERVE, "workers", workers, LIMIT_WORKERS, 1, 64, "threads that parse, tokenise and encode"),
    NUMBER(SERVE, "max-body-bytes", max_body_bytes, LIMIT_BODY_BYTES, 1024, LIMIT_BODIES_BYTES,
        "largest request body"),
    NUMBER(SERVE, "max-connections", max_connections, LIMIT_CONNECTIONS, 1, 65536,
        "connections at once"),
    NUMBER(SERVE, "drain-delay-ms", drain_delay_ms, LIMIT_DRAIN_DELAY_MS, 0, 600000,
        "after SIGTERM: still serve, but not ready"),
    NUMBER(SERVE, "drain-timeout-ms", drain_timeout_ms, LIMIT_DRAIN_TIMEOUT_MS, 0, 3600000,
        "after SIGTERM: then cancel what still runs"),
    NUMBER(SERVE, "stop-timeout-ms", stop_timeout_ms, LIMIT_STOP_TIMEOUT_MS, 0, 3600000,
        "and then leave, though a step of the engine still runs (status 3)"),
    WORD(SERVE, "embed-token-ids", embed_token_ids, "accept|reject",
        "token ids as inputs of embeddings: a client's vocabulary may be another"),
    SHARE(SERVE, "moderation-threshold", moderation_threshold, "0.5",
        "/v1/moderations flags from this probability on"),
    WORD(SERVE, "log-level", log_level, "info|debug|warn|error", "least severe line to log"),
    TEXT(EVAL, "data", data, "", "FILE", "what is measured with: docs/quality.md"),
    TEXT(EVAL, "prompt-name", prompt_name, "", "NAME", "a prompt of the profile, as in /embed"),
    TEXT(BATCH, "input", input, "", "FILE", "lines to answer (standard input)"),
    TEXT(BATCH, "output", output, "", "FILE",
        "where to (standard output); embed: an array if it ends in .npy"),
    TEXT(BATCH, "body", body, "", "JSON", "fields that go with every text: '{\"dimensions\":256}'"),
    SWITCH(BATCH, "jsonl", jsonl, "each line is a body of the route, not a text"),
    SWITCH(
        EVAL | BATCH, "progress", progress, "say how far it is, even where no terminal reads it"),
    SWITCH(SERVE, "print-plan", print_plan, "print the memory plan of --model and leave"),
    TEXT(
        SERVE, "check-model", check_model, "", "PATH", "check a model, print what it is and leave"),
    SWITCH(SERVE, "version", version, "print the version and leave"),
    SWITCH(ALL, "help", help, "print this and leave"),
};

static void *field_of(struct config *config, const struct setting *setting)
{
    return (char *)config + setting->offset;
}

static bool is_command(const struct setting *setting)
{
    return strcmp(setting->flag, "print-plan") == 0 || strcmp(setting->flag, "check-model") == 0 ||
           strcmp(setting->flag, "version") == 0 || strcmp(setting->flag, "help") == 0;
}

static void variable_of(const struct setting *setting, char out[64])
{
    size_t used = (size_t)snprintf(out, 64, "MAGNETD_%s", setting->flag);
    for (size_t i = 0; i < used && i < 63; i++) {
        if (out[i] == '-') {
            out[i] = '_';
        } else if (out[i] >= 'a' && out[i] <= 'z') {
            out[i] = (char)(out[i] - 'a' + 'A');
        }
    }
}

/* Whether `value` is one of the words of "a|b|c". */
static bool has_word(const char *words, const char *value)
{
    size_t bytes = strlen(value);
    for (const char *at = words; bytes > 0; at = strchr(at, '|') + 1) {
        if (strncmp(at, value, bytes) == 0 && (at[bytes] == '|' || at[bytes] == '\0')) {
            return true;
        }
        if (strchr(at, '|') == NULL) {
            break;
        }
    }
    return false;
}

static enum err set_number(
    struct config *config, const struct setting *setting, const char *value, struct err_info *info)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || number < setting->min ||
        number > setting->max) {
        return err_set(info, ERR_CONFIG, setting->flag,
            "--%s must be a whole number from %lld to %lld", setting->flag, (long long)setting->min,
            (long long)setting->max);
    }
    *(int64_t *)field_of(config, setting) = number;
    return ERR_OK;
}

/* A number from 0 to 1. */
static enum err set_share(
    struct config *config, const struct setting *setting, const char *value, struct err_info *info)
{
    char *end = NULL;
    double share = strtod(value, &end);
    if (end == value || *end != '\0' || !(share >= 0 && share <= 1)) { /* NaN is neither */
        return err_set(
            info, ERR_CONFIG, setting->flag, "--%s must be a number from 0 to 1", setting->flag);
    }
    *(double *)field_of(config, setting) = share;
    return ERR_OK;
}

static enum err set_switch(
    struct config *config, const struct setting *setting, const char *value, struct err_info *info)
{
    bool on = strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
    if (!on && strcmp(value, "0") != 0 && strcmp(value, "false") != 0 && value[0] != '\0') {
        return err_set(
            info, ERR_CONFIG, setting->flag, "--%s is 0, 1, true or false", setting->flag);
    }
    *(bool *)field_of(config, setting) = on;
    return ERR_OK;
}

static enum err add_text(
    struct config *config, const struct setting *setting, const char *value, struct err_info *info)
{
    struct config_list *list = field_of(config, setting);
    const size_t bytes = strlen(value);
    if (list->count == LIMIT_ADAPTERS) {
        return err_set(info, ERR_CONFIG, setting->flag, "--%s may be given %d times", setting->flag,
            LIMIT_ADAPTERS);
    }
    if (bytes == 0 || bytes >= CONFIG_TEXT_BYTES) {
        return err_set(info, ERR_CONFIG, setting->flag, "--%s must have 1 to %d bytes",
            setting->flag, CONFIG_TEXT_BYTES - 1);
    }
    memcpy(list->texts[list->count++], value, bytes + 1);
    return ERR_OK;
}

static enum err set_value(
    struct config *config, const struct setting *setting, const char *value, struct err_info *info)
{
    if (setting->type == SETTING_INT) {
        return set_number(config, setting, value, info);
    }
    if (setting->type == SETTING_SHARE) {
        return set_share(config, setting, value, info);
    }
    if (setting->type == SETTING_SWITCH) {
        return set_switch(config, setting, value, info);
    }
    if (setting->type == SETTING_LIST) {
        return add_text(config, setting, value, info);
    }
    if (setting->type == SETTING_WORD && !has_word(setting->text, value)) {
        return err_set(info, ERR_CONFIG, setting->flag, "--%s must be one of %s", setting->flag,
            setting->text);
    }
    size_t bytes = strlen(value);
    if (bytes >= setting->bytes) {
        return err_set(info, ERR_CONFIG, setting->flag, "--%s is longer than %zu bytes",
            setting->flag, setting->bytes - 1);
    }
    memcpy(field_of(config, setting), value, bytes + 1);
    return ERR_OK;
}

static void set_default(struct config *config, const struct setting *setting)
{
    if (setting->type == SETTING_INT) {
        *(int64_t *)field_of(config, setting) = setting->value;
    } else if (setting->type == SETTING_SHARE) {
        *(double *)field_of(config, setting) = strtod(setting->text, NULL);
    } else if (setting->type == SETTING_LIST) {
        ((struct config_list *)field_of(config, setting))->count = 0;
    } else if (setting->type == SETTING_SWITCH) {
        *(bool *)field_of(config, setting) = false;
    } else {
        size_t bytes =
            setting->type == SETTING_WORD ? strcspn(setting->text, "|") : strlen(setting->text);
        char *field = field_of(config, setting);
        memcpy(field, setting->text, bytes);
        field[bytes] = '\0';
    }
}

/* What says what to do is said where it is done, and so is what a command that ends is about. */
static bool has_variable(const struct setting *setting, unsigned command)
{
    return (setting->commands & command) != 0 && (setting->commands & SERVE) != 0 &&
           !is_command(setting);
}

static enum err read_environment(struct config *config, struct err_info *info)
{
    const unsigned command = 1U << config->command;
    for (size_t i = 0; i < ARRAY_COUNT(settings); i++) {
        char variable[64];
        variable_of(&settings[i], variable);
        const char *value = has_variable(&settings[i], command) ? getenv(variable) : NULL;
        if (value != NULL) {
            enum err err = set_value(config, &settings[i], value, info);
            if (err != ERR_OK) {
                return err;
            }
        }
    }
    return ERR_OK;
}

static const struct setting *find_flag(unsigned command, const char *name, size_t bytes)
{
    for (size_t i = 0; i < ARRAY_COUNT(settings); i++) {
        if ((settings[i].commands & command) != 0 && strlen(settings[i].flag) == bytes &&
            memcmp(settings[i].flag, name, bytes) == 0) {
            return &settings[i];
        }
    }
    return NULL;
}

/* --flag value, --flag=value, and --switch alone; from argument `first` on. */
static enum err read_arguments(
    int first, int argc, char *const *argv, struct config *config, struct err_info *info)
{
    bool listed = false; /* the first of a list goes before what the environment has of it */
    for (int i = first; i < argc; i++) {
        const char *name = argv[i];
        const struct setting *setting = NULL;
        size_t bytes = 0;
        if (name[0] == '-' && name[1] == '-') {
            name += 2;
            bytes = strcspn(name, "=");
            setting = find_flag(1U << config->command, name, bytes);
        }
        if (setting == NULL) {
            return err_set(info, ERR_CONFIG, "arguments", "argument %d is no flag; see --help", i);
        }
        const char *value = name[bytes] == '=' ? name + bytes + 1 : NULL;
        if (value == NULL && setting->type == SETTING_SWITCH) {
            value = "1";
        }
        if (value == NULL && i + 1 < argc) {
            value = argv[++i];
        }
        if (value == NULL) {
            return err_set(info, ERR_CONFIG, setting->flag, "--%s needs a value", setting->flag);
        }
        if (setting->type == SETTING_LIST && !listed) {
            set_default(config, setting);
            listed = true;
        }
        enum err err = set_value(config, setting, value, info);
        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
}

static enum err check(const struct config *config, struct err_info *info)
{
    if (config->help || config->version || config->check_model[0] != '\0') {
        return ERR_OK;
    }
    bool eval = config->command == COMMAND_EVAL;
    if (eval && config->eval[0] == '\0') {
        return err_set(info, ERR_CONFIG, "eval", "of what kind? magnetd eval --help lists them");
    }
    if (config->model[0] == '\0') {
        return err_set(info, ERR_CONFIG, "model", "--model FILE is required");
    }
    if (config->command == COMMAND_BATCH) {
        return ERR_OK;
    }
    if (eval) {
        return config->data[0] != '\0'
                   ? ERR_OK
                   : err_set(info, ERR_CONFIG, "data", "--data FILE is required");
    }
    if (!config->allow_remote && !config_loopback(config->host)) {
        return err_set(info, ERR_CONFIG, "host",
            "--host is not a loopback address: there is no authentication yet, so this needs "
            "--allow-remote");
    }
    return ERR_OK;
}

/* The command, and the kind of an evaluation, where they stand; the first argument behind them. */
static int read_command(int argc, char *const *argv, struct config *config)
{
    static const char *const endpoints[] = {"embed", "infill", "generate", "classify"};
    for (size_t i = 0; argc >= 2 && i < ARRAY_COUNT(endpoints); i++) {
        if (strcmp(argv[1], endpoints[i]) == 0) {
            config->command = COMMAND_BATCH;
            memcpy(config->endpoint, endpoints[i], strlen(endpoints[i]) + 1);
            return 2;
        }
    }
    if (argc < 2 || strcmp(argv[1], "eval") != 0) {
        return 1;
    }
    config->command = COMMAND_EVAL;
    if (argc < 3 || argv[2][0] == '-') {
        return 2;
    }
    /* A longer word is no kind; what is left of it is none either. */
    (void)snprintf(config->eval, sizeof(config->eval), "%s", argv[2]);
    return 3;
}

enum err config_read(int argc, char *const *argv, struct config *out_config, struct err_info *info)
{
    struct config config;
    memset(&config, 0, sizeof(config));
    for (size_t i = 0; i < ARRAY_COUNT(settings); i++) {
        set_default(&config, &settings[i]);
    }
    int first = read_command(argc, argv, &config);
    enum err err = read_environment(&config, info);
    if (err == ERR_OK) {
        err = read_arguments(first, argc, argv, &config, info);
    }
    if (err == ERR_OK) {
        err = check(&config, info);
    }
    if (err == ERR_OK) {
        *out_config = config;
    }
    return err;
}

bool config_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (strcmp(host, "localhost") == 0) {
        return true;
    }
    if (inet_pton(AF_INET, host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

void config_help(FILE *file, enum command command)
{
    for (size_t i = 0; i < ARRAY_COUNT(settings); i++) {
        const struct setting *setting = &settings[i];
        if ((setting->commands & 1U << command) == 0) {
            continue;
        }
        char left[80];
        snprintf(left, sizeof(left), "--%s %s", setting->flag,
            setting->operand != NULL ? setting->operand : "");
        fprintf(file, "  %-36s %s", left, setting->help);
        if (setting->type == SETTING_INT && setting->value != 0) {
            fprintf(file, " [%lld]", (long long)setting->value);
        } else if (setting->type == SETTING_WORD || setting->type == SETTING_SHARE ||
                   (setting->type == SETTING_TEXT && setting->text[0] != '\0')) {
            fprintf(file, " [%.*s]", (int)strcspn(setting->text, "|"), setting->text);
        }
        fprintf(file, "\n");
    }
    fprintf(file,
        "\nEach flag%s has an environment variable: --kv-type is MAGNETD_KV_TYPE. Flags win.\n",
        command != COMMAND_SERVE ? " of the engine" : "");
}
