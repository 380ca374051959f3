/*
 * Texts continued on OpenAI's routes: what /v1/completions and /v1/chat/completions share. A route
 * turns its body into prompts and a shape; the plan, the walk over an answer's tokens, the usage
 * and the order of a stream's events are here. Private to api/.
 */
#ifndef API_V1_TEXT_H
#define API_V1_TEXT_H

#include "api/call.h"
#include "api/infill.h"

/* One prompt. `text` is what stands before the answer: offsets count its characters. */
struct v1_prompt {
    struct call_ids ids;
    struct bound_text text;
    bool control_shown; /* control tokens are spelled in `text` */
};

/* Tokens on the way to a client, of a prompt or of an answer. */
struct v1_tokens {
    const char *text;
    const int32_t *tokens;
    const float *logprobs;           /* NULL: none is known */
    const struct token_logprob *top; /* [token_count * top_stride], NULL = none */
    int32_t token_count, top_stride;
    int64_t text_bytes; /* bytes that may be shown so far */
    enum finish finish; /* FINISH_NONE: more may come, and what makes more text than that waits */
    bool has_end;       /* FINISH_EOS: the end token is the last one */
    bool is_prompt;     /* its first token follows nothing: no log-probability */
    bool withheld;      /* nothing of it may be shown: content_filter */
};

/* A place among tokens. What a token adds to the text is found by pushing it through a detokenizer,
 * so an entry is shown when its text is, stop strings and unfinished characters included. */
struct v1_walk {
    struct detokenizer detokenizer;
    char *scratch; /* detokenizer_bound() bytes */
    int32_t index;
    int64_t bytes;      /* of text before the next token, those of an unfinished character too */
    int64_t characters; /* whole ones before it, the prompt's included */
};

struct v1_token {
    int32_t id;
    const char
        *piece; /* its own bytes, control tokens spelled out; cut where a stop string begins */
    size_t bytes;
    int64_t offset;                  /* in characters from the start of the prompt */
    const float *logprob;            /* NULL: not known */
    const struct token_logprob *top; /* [top_stride] of its tokens, NULL = none */
};

/* What of a choice a stream has sent, and what may be sent of it. */
struct v1_sent {
    struct v1_tokens known; /* as of its newest event; no tokens: there was none */
    struct v1_walk walk;    /* the next token to be shown */
    int64_t text_bytes;     /* that are out */
    bool begun, ended;
};

struct v1_text;

/* An event opens a choice, carries a part of it, or ends it. */
enum v1_part { V1_OPENING, V1_PART, V1_END };

/* One choice as a route writes it: an answer, or what an event tells of it. */
struct v1_choice {
    int32_t index;
    const char *bytes; /* its text, or those released since the last event */
    size_t count;
    const struct v1_tokens *tokens; /* entries of log-probabilities begin at `walk` */
    struct v1_walk *walk;           /* moves behind those that were written */
    const char *finish;             /* NULL while it goes on */
};

/* What a route's answers look like. */
struct v1_shape {
    const char *id_prefix, *object, *chunk_object;
    /* An object in `choices`, of a whole reply and of an event. */
    void (*choice)(struct json_out *out, const struct call *call, const struct job *job,
        const struct v1_choice *choice);
    void (*delta)(struct json_out *out, const struct call *call, const struct job *job,
        enum v1_part part, const struct v1_choice *choice);
    /* Members of the whole reply that come last, and in an event of their own (`verdicts`); or
     * NULL. */
    void (*more)(struct json_out *out, const struct call *call);
    /* Frames of its own for a part of the one answer, instead of a chunk with a choice; or NULL. */
    enum err (*event)(const struct call *call, const struct job *job, enum v1_part part,
        const struct v1_choice *choice, struct buf *out);
};

struct v1_text {
    const struct v1_shape *shape;
    const struct common_openai_text *options;
    const struct common_sampling *sampling;
    struct v1_prompt *prompts; /* [prompt_count] */
    int32_t prompt_count;
    /* Of the response_format and its schema, for errors. */
    const char *format_where, *schema_where;
    const struct grammar *grammar;         /* what answers must be, NULL = anything */
    int64_t budget;                        /* tokens of an answer; -1 = the room */
    int32_t top_logprobs;                  /* -1 = no log-probabilities */
    bool prompt_logprobs;                  /* and those of the prompt */
    bool opens;                            /* an event of its own begins each choice */
    bool hides_end;                        /* an end token has no entry of its own */
    bool verdicts;                         /* shape->more has something to say */
    const bool *withheld;                  /* of each choice; NULL: none is */
    struct infill_llama_notes *infill;     /* a suffix was given: how the gap is filled */
    struct infill_request *infill_request; /* and the request that says so */
    const char *id;
    int64_t created;
    char *scratch;        /* for walks */
    struct v1_sent *sent; /* of a stream: each choice */
    int32_t settled;      /* choices whose end was looked after when the job had ended */
};

/* When the route has filled in what it asks: id, time and so on. call->state is then `text`. */
MUST_USE enum err v1_text_init(struct call *call, struct v1_text *text, struct err_info *info);
/* Whether answers have to have a form. */
bool v1_text_constrained(const struct common_openai_text *options);
/* Room for what a stream sends of so many choices. */
MUST_USE enum err v1_text_expect(
    struct call *call, struct v1_text *text, size_t choices, struct err_info *info);
/* n items for each prompt. */
MUST_USE enum err v1_text_plan(struct call *call, struct v1_text *text, struct err_info *info);

/* The same for one prompt, a chat; errors name `where`. */
MUST_USE enum err v1_text_plan_chat(struct call *call, struct v1_text *text,
    const struct common_messages *messages, const char *where, struct err_info *info);

int32_t v1_text_choices(const struct v1_text *text, const struct job *job);
/* Answer `index` of a finished job. */
struct v1_tokens v1_text_answer(const struct v1_text *text, const struct job *job, int32_t index);
/* The prompt of a choice, as tokens to be shown. */
struct v1_tokens v1_text_prompt(const struct v1_text *text, const struct job *job, int32_t index);

/* A walk from the start of an answer (or of a prompt) to prompt `index`. */
struct v1_walk v1_walk_start(
    const struct call *call, const struct v1_text *text, int32_t prompt, bool of_prompt);
/* False when no further token is to be shown, now or at all; else *walk has moved on. */
bool v1_walk_next(struct v1_walk *walk, const struct call *call, const struct v1_tokens *tokens,
    struct v1_token *out_token);

struct call_usage v1_text_usage(
    const struct call *call, const struct v1_text *text, const struct job *job);
/* {"token":..., "logprob":..., "bytes":[...], "top_logprobs":[...]} of all that may be shown. */
void v1_write_entries(struct json_out *out, const struct call *call, const struct v1_tokens *tokens,
    struct v1_walk *walk);
/* A log-probability JSON can hold: OpenAI's stand-in for minus infinity is -9999. */
void v1_write_logprob(struct json_out *out, float logprob);

MUST_USE enum err v1_text_encode(
    struct call *call, const struct job *job, struct buf *out, struct err_info *info);
MUST_USE enum err v1_text_frame(
    struct call *call, const struct job *job, const struct token_event *event, struct buf *out);
MUST_USE enum err v1_text_frame_end(struct call *call, const struct job *job, struct buf *out);

#endif
