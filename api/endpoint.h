/*
 * What every compute endpoint is: pure functions between bytes and structs, and one generic
 * handler in server/ that drives them. A new route adds a pair of files here and a line in
 * schemas/routes.json; nothing else changes.
 *
 *     body bytes --decode--> request struct --plan--> struct plan --(engine)--> results
 *                                             ^                         --encode--> bytes
 *                                             '--more--------'
 *
 * A request whose plan depends on the results of another is a chain of jobs: `more` reads a
 * finished one, keeps what it needs in call->state and makes the next plan. Frames are made of each
 * job, the reply of the last one and the state.
 *
 * All of it runs on a front worker (or the loop, for small bodies); nothing here blocks, touches a
 * socket or knows a thread. Everything is allocated from call->arena.
 */
#ifndef API_ENDPOINT_H
#define API_ENDPOINT_H

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/job.h"
#include "engine/text/tokenizer.h"
#include "engine/types.h"

/* Error dialects of docs/api.md; each route has one. */
enum family { FAMILY_TEI, FAMILY_OPENAI, FAMILY_LLAMA };

/* Limits the configuration sets; see server_limits.h for their defaults. */
struct api_limits {
    int32_t items_max;        /* inputs of one request */
    int32_t embed_tokens_max; /* tokens of one embedding call */
    int64_t timeout_ms_max;
    bool embed_ids_refused;      /* token ids as inputs of embeddings */
    double moderation_threshold; /* of /v1/moderations: from this probability on it is flagged */
};

struct chat_template;

/* One call of an endpoint: the request arena's contents. */
struct call {
    struct arena *arena;
    const struct model_info *model;
    const struct tokenizer *tokenizer;
    const struct chat_template *chat_template; /* NULL: the model has none */
    const struct api_limits *limits;
    const char *served_name;           /* what replies call the model; NULL = model->name */
    const char *aliases;               /* "a,b": what else requests may call it; NULL = none */
    void *request;                     /* the endpoint's own struct, set by decode */
    struct plan plan;                  /* set by plan */
    bool stream;                       /* set by decode: an SSE answer is wanted */
    int64_t timeout_ms;                /* set by decode; 0 = the server's default */
    int32_t priority;                  /* set by decode */
    char cache_salt[LIMIT_SALT_BYTES]; /* set by decode */
    const char *ignored_fields;        /* set by decode: for X-Ignored-Fields, NULL = none */
    int32_t ignored_count;             /* all unknown fields, for http_unknown_fields_total */
    const char *truncated_inputs;      /* set by plan: for X-Truncated-Inputs, NULL = none */
    int32_t truncated_count;
    int64_t characters; /* set by plan: input characters, for x-compute-characters */
    void *state;        /* the endpoint's own notes between plan, frame and encode */
    bool asks_more;     /* set by plan: endpoint->more is asked after each finished job */
    bool frames_left;   /* set by frame_end: it is to be called again, once there is room */
    /* Of the jobs before the last one; set by more (call_add_job). */
    struct call_totals {
        int64_t prompt, cached, generated; /* tokens */
        int64_t prompt_us, decode_us;
    } before;
};

struct endpoint {
    const char *name;
    enum kind kind;
    enum family family;
    /* Body to call->request. Errors carry a JSON pointer in info->where, syntax errors offset,
     * line and column. */
    enum err (*decode)(struct call *call, const char *body, size_t bytes, struct err_info *info);
    /* Request to call->plan: tokenization, templates, limits of the model. */
    enum err (*plan)(struct call *call, struct err_info *info);
    /* Asked after a finished job when call->asks_more: makes the next plan, or leaves *out_more
     * false when this was the last one or has failed (encode tells why). NULL: one job only. */
    enum err (*more)(
        struct call *call, const struct job *job, bool *out_more, struct err_info *info);
    /* Finished (last) job to the reply body. A failure (ERR_NON_FINITE) becomes the error reply. */
    enum err (*encode)(
        struct call *call, const struct job *job, struct buf *out, struct err_info *info);
    /* Streams: appends zero or more whole SSE frames ("data: ...\n\n") for one event. Events of an
     * item come in order, those of different items as they come. NULL for endpoints that cannot
     * stream. */
    enum err (*frame)(
        struct call *call, const struct job *job, const struct token_event *event, struct buf *out);
    /* After `more` has made another plan: frames of what the finished job settled. NULL: none. */
    enum err (*frame_more)(struct call *call, const struct job *job, struct buf *out);
    /* The closing frames after the last job; with call->frames_left set, some of them. */
    enum err (*frame_end)(struct call *call, const struct job *job, struct buf *out);
};

extern const struct endpoint endpoint_embed, endpoint_embed_all, endpoint_infill, endpoint_generate,
    endpoint_generate_stream, endpoint_classify, endpoint_v1_embeddings, endpoint_v1_decisions,
    endpoint_v1_moderations, endpoint_v1_completions, endpoint_v1_chat, endpoint_v1_responses,
    endpoint_similarity, endpoint_rerank, endpoint_v1_rerank, endpoint_completion, endpoint_predict;

/* Endpoints without a job: texts to tokens and back, chats to text, and counts of their tokens. The
 * reply is written at once. */
enum err endpoint_tokenize(
    struct call *call, const char *body, size_t bytes, struct buf *out, struct err_info *info);
enum err endpoint_apply_template(
    struct call *call, const char *body, size_t bytes, struct buf *out, struct err_info *info);
enum err endpoint_v1_chat_input_tokens(
    struct call *call, const char *body, size_t bytes, struct buf *out, struct err_info *info);
enum err endpoint_v1_responses_input_tokens(
    struct call *call, const char *body, size_t bytes, struct buf *out, struct err_info *info);
enum err endpoint_detokenize(
    struct call *call, const char *body, size_t bytes, struct buf *out, struct err_info *info);
enum err endpoint_decode(
    struct call *call, const char *body, size_t bytes, struct buf *out, struct err_info *info);

#endif
