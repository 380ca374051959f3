/*
 * What the endpoints share: decoding a body into the call, checks every request has, tokens in the
 * arena, sampling fields, errors of a finished job. Private to api/.
 */
#ifndef API_CALL_H
#define API_CALL_H

#include "api/bind.h"
#include "api/endpoint.h"
#include "api/json_out.h"
#include "schemas/tables.h"

/* Token ids in the call's arena. */
struct call_ids {
    int32_t *ids;
    int32_t count;
};

/* Binds the body, notes unknown fields; call->request is then the schema's struct. */
MUST_USE enum err call_decode(struct call *call, const struct schema *schema, const char *body,
    size_t bytes, struct err_info *info);
/* Same, and a zeroed struct of own_bytes in the arena, for what the route makes of the request. */
MUST_USE enum err call_decode_with(struct call *call, const struct schema *schema, const char *body,
    size_t bytes, size_t own_bytes, void *out_own, struct err_info *info);
/* The fields every compute request has: the model's name is ours, the time within the cap. */
MUST_USE enum err call_basics(
    struct call *call, const struct common_basics *basics, struct err_info *info);
MUST_USE enum err call_check_model(
    const struct call *call, const struct bound_text *model, struct err_info *info);
const char *call_model_name(const struct call *call);
/* Whether a request may call the model so: its served name, an alias, or the file's own name. */
bool call_is_model(
    const char *name, const struct model_info *model, const char *served_name, const char *aliases);
/* Adds a name to X-Ignored-Fields: a known value that has no effect yet. */
MUST_USE enum err call_ignore(struct call *call, const char *name, struct err_info *info);

/* Fills *info with a finer word and returns err. */
enum err call_fail(struct err_info *info, enum err err, const char *word, const char *where,
    const char *format, ...) PRINTF_LIKE(5, 6);
enum err call_no_memory(struct err_info *info);
/* prefix and 16 hexadecimal digits, for the `id` of a reply. */
MUST_USE enum err call_new_id(
    struct call *call, const char *prefix, const char **out_id, struct err_info *info);
/* Zeroed array in the arena. */
MUST_USE enum err call_array(
    struct call *call, size_t count, size_t size, void *out_pointer, struct err_info *info);

/* Tokenizes into the arena; an error names `where`. */
MUST_USE enum err call_tokenize(struct call *call, const struct bound_text *text, unsigned flags,
    const char *where, struct call_ids *out_ids, struct err_info *info);
/* ERR_CONTEXT at `where` when a sequence of so many tokens is longer than the context. */
MUST_USE enum err call_check_context(
    const struct call *call, int64_t tokens, const char *where, struct err_info *info);
/* The same of a prompt, with room for a token behind it if one is wanted. */
MUST_USE enum err call_check_prompt(const struct call *call, int64_t tokens, bool answered,
    const char *where, struct err_info *info);
/* a and b as one list; out_ids may be either. */
MUST_USE enum err call_join(struct call *call, const struct call_ids *a, const struct call_ids *b,
    struct call_ids *out_ids, struct err_info *info);
/* Every id is one of the vocabulary; else ERR_INVALID at where/index. */
MUST_USE enum err call_check_ids(const struct call *call, const struct bound_ints *ids,
    const char *where, struct err_info *info);
/* Ids as text, appended; a character that never completes becomes U+FFFD. */
void call_detokenize(
    const struct call *call, const int32_t *ids, int32_t count, bool show_control, struct buf *out);
/* Two texts as one string. */
void call_write_joined(struct json_out *out, struct bound_text first, struct bound_text second);
/* No character that prints. */
bool call_is_blank(const struct bound_text *text);
struct bound_text call_text(const char *text);

/* Sampling fields to the engine's form. temperature is the caller's: it knows when greedy. */
MUST_USE enum err call_sampling(struct call *call, const struct common_sampling *fields,
    double repetition_penalty, int32_t penalty_last_n, const char *where,
    struct sampling *out_sampling, struct err_info *info);
/* One more bias into biases[LIMIT_LOGIT_BIAS], counted in the sampling. */
MUST_USE enum err call_add_bias(struct sampling *sampling, struct logit_bias *biases, int32_t token,
    float bias, struct err_info *info);
/* {"id": bias} into the sampling. */
MUST_USE enum err call_biases(struct call *call, const struct common_bias_map *map,
    struct sampling *sampling, struct err_info *info);
/* Stop strings of a step; absent = none. */
MUST_USE enum err call_stops(struct call *call, bool given, const struct common_stop *stop,
    struct plan_step *step, struct err_info *info);

/* ERR_OK when the job and each of its items succeeded; else the first failure, which names
 * where/index when `where` is given. */
MUST_USE enum err call_job_error(const struct job *job, const char *where, struct err_info *info);
/* After writing: a reply that did not fit or held a non-finite number is an error. */
MUST_USE enum err call_written(const struct json_out *out, struct err_info *info);

struct call_usage {
    int64_t prompt, cached, generated;
};
/* Of the last job and those before it. */
struct call_usage call_usage(const struct call *call, const struct job *job);
/* {"prompt_tokens":..., "completion_tokens":..., ...} of the replies with generated text. */
void call_write_usage(struct json_out *out, const struct call_usage *usage);
/* A job that another follows: its tokens and times go into call->before. */
void call_add_job(struct call *call, const struct job *job);
/* {"input_tokens":..., ...} of the classify and decision replies; `decisions` adds two members. */
void call_write_input_usage(
    struct json_out *out, const struct call *call, const struct job *job, bool decisions);
/* cache_n, prompt_n, ... of the infill replies: an object. */
void call_write_timings(struct json_out *out, const struct call *call, const struct job *job);
/* The nine members of the object above. */
enum { CALL_TIMINGS = 9 };
const char *call_timing_name(int32_t index);
void call_write_timing(
    struct json_out *out, const struct call *call, const struct job *job, int32_t index);

/* What requests, replies and /info call a mode of /infill: "hybrid" and so on. */
const char *call_mode_word(enum infill_mode mode);

#endif
