/*
 * The configuration: one table in config.c gives every setting its flag, environment variable,
 * default, bounds and help text. A flag wins over the environment, the environment over the
 * default. A value out of bounds is an error naming the flag; nothing is clamped in silence.
 */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "engine/base/err.h"
#include "engine/engine_limits.h"

enum { CONFIG_TEXT_BYTES = 1024, CONFIG_BODY_BYTES = 16 << 10 };

/* `magnetd`, `magnetd eval KIND`, and `magnetd embed` and so on: an endpoint over lines. */
enum command { COMMAND_SERVE, COMMAND_EVAL, COMMAND_BATCH };

/* A flag that may be given several times. */
struct config_list {
    char texts[LIMIT_ADAPTERS][CONFIG_TEXT_BYTES];
    int32_t count;
};

struct config {
    enum command command;
    char eval[16];                /* the kind; "" = none was named */
    char data[CONFIG_TEXT_BYTES]; /* of an evaluation, like the next */
    char prompt_name[64];
    bool progress;     /* of both */
    char endpoint[16]; /* of lines, like the next four */
    char input[CONFIG_TEXT_BYTES], output[CONFIG_TEXT_BYTES];
    char body[CONFIG_BODY_BYTES];
    bool jsonl;
    char model[CONFIG_TEXT_BYTES];
    char profile[CONFIG_TEXT_BYTES];
    struct config_list adapters;
    char served_model_name[128];
    char model_alias[256];
    char kernels[16];
    char kv_type[8];
    char activations[8];
    char embed_token_ids[8];
    char log_level[8];
    char host[64];
    char check_model[CONFIG_TEXT_BYTES]; /* not empty: check this file and leave */
    int64_t port;
    int64_t threads, context, cache_mib, cache_reuse, reserve_tokens, sequences, jobs, jobs_bulk;
    int64_t step_rows, step_ms, workers, queue_ms, first_token_ms, stall_ms;
    int64_t max_body_bytes, max_connections;
    int64_t drain_delay_ms, drain_timeout_ms, stop_timeout_ms;
    double moderation_threshold;
    bool allow_remote, print_plan, version, help;
};

/* Reads defaults, environment, then arguments, and checks the whole. ERR_CONFIG names the flag. */
MUST_USE enum err config_read(
    int argc, char *const *argv, struct config *out_config, struct err_info *info);
/* The flags of a command. */
void config_help(FILE *file, enum command command);
/* 127.0.0.0/8, ::1 and "localhost". */
bool config_loopback(const char *host);

#endif
