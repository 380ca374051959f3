/*
 * Plain structs that cross the engine's one door: what a request wants (plan), what came of it
 * (results) and what was loaded (model_info). No HTTP and no wire JSON on this side.
 *
 * The four tasks are four plans over the same rows of the same forward pass. A plan is a list of
 * items; an item is one sequence: a prompt in slot order, how much of it is mutually visible
 * (context_count), what is read from its rows, and a short program of steps to run after it.
 *
 *     /embed      context_count = 0 or n, pooling, no steps
 *     /generate   context_count = 0, one DECODE
 *     /infill     context_count = n, one DECODE per gap, read_row = the gap's left neighbour
 *     /classify   context_count = 0, FORCE label, CHOOSE value, FORCE label, CHOOSE value ...
 *     prefix-LM   context_count = prompt, one DECODE
 *     scoring     context_count = 0, one FORCE whose log-probabilities are wanted
 *
 * Ownership: everything a plan points to belongs to the submitter and stays unchanged until the job
 * is done. Results are written by the engine into memory the job holds.
 */
#ifndef ENGINE_TYPES_H
#define ENGINE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/engine_limits.h"

/* Order is the order of the metric label `kind`; ORDER KIND. */
#define KIND_MAP(X)                                                                                \
    X(EMBED, "embed") X(INFILL, "infill") X(GENERATE, "generate") X(CLASSIFY, "classify")

enum kind {
#define X(name, word) KIND_##name,
    KIND_MAP(X)
#undef X
        KIND_COUNT
};

/* Classes of service, the most urgent first; the word is the metric label `class`. ORDER CLASS. */
#define CLASS_MAP(X)                                                                               \
    X(INTERACTIVE, "interactive")                                                                  \
    X(GENERATE, "generate") X(CLASSIFY, "classify") X(EMBED, "embed") X(BULK, "bulk")

enum service_class {
#define X(name, word) CLASS_##name,
    CLASS_MAP(X)
#undef X
        CLASS_COUNT
};

/* What the client says about its own hurry. NORMAL: kind and size decide the class. */
enum urgency { URGENCY_NORMAL, URGENCY_INTERACTIVE, URGENCY_BULK };

enum pooling {
    POOLING_NONE,
    POOLING_MEAN,
    POOLING_CLS,
    POOLING_LAST,
    POOLING_EOS,
    POOLING_WEIGHTED_MEAN
};

/* How a gap is filled (docs/infill.md), and the word for it in profiles and on the wire. */
#define INFILL_MODE_MAP(X) X(HYBRID, "hybrid") X(GLM, "glm") X(FIM, "fim") X(RERANK, "rerank")

enum infill_mode {
#define X(name, word) INFILL_##name,
    INFILL_MODE_MAP(X)
#undef X
        INFILL_MODE_COUNT
};

enum attention { ATTENTION_CAUSAL, ATTENTION_BIDIRECTIONAL };

enum finish {
    FINISH_NONE,
    FINISH_EOS,
    FINISH_STOP_STRING,
    FINISH_LENGTH,
    FINISH_CANCELLED,
    FINISH_TIMEOUT,
    FINISH_ERROR
};

/* ---- sampling ------------------------------------------------------------------------------ */

enum sampler_kind {
    SAMPLER_PENALTIES,
    SAMPLER_TOP_K,
    SAMPLER_TYPICAL_P,
    SAMPLER_TOP_P,
    SAMPLER_MIN_P,
    SAMPLER_TEMPERATURE,
    SAMPLER_KIND_COUNT
};

struct logit_bias {
    int32_t token;
    float bias; /* -INFINITY bans the token */
};

struct stop_string {
    const char *bytes;
    int32_t count; /* 1..LIMIT_STOP_BYTES */
};

/* Values are already checked against the ranges of docs/api.md; "off" values are neutral. */
struct sampling {
    float temperature;                         /* 0 = greedy */
    int32_t top_k;                             /* <= 0 = off */
    float top_p;                               /* 1 = off */
    float min_p;                               /* 0 = off */
    float typical_p;                           /* 1 = off */
    float repetition_penalty;                  /* 1 = off */
    float presence_penalty, frequency_penalty; /* 0 = off */
    int32_t penalty_last_n; /* tokens looked back on, prompt included; -1 = all, 0 = none */
    uint64_t seed;          /* already resolved: never "random" here */
    uint32_t sample_index;  /* random stream: 0 for the first of n samples */
    const struct logit_bias *logit_bias;
    int32_t logit_bias_count;
    /* Order of the chain; sampler_count == 0 and no_samplers == false means the default order
     * penalties, top_k, typical_p, top_p, min_p, temperature. */
    enum sampler_kind samplers[SAMPLER_KIND_COUNT];
    int32_t sampler_count;
    bool no_samplers; /* an explicitly empty chain: sample from the plain softmax */
};

struct grammar; /* engine/sample/grammar.h */

/* ---- plan ---------------------------------------------------------------------------------- */

enum step_kind {
    STEP_FORCE,  /* append given tokens; their log-probabilities are returned */
    STEP_CHOOSE, /* read candidate logits at the current row, append the winner's tokens */
    STEP_DECODE, /* sample tokens until a stop condition */
};

/* What may begin the text of a DECODE step (engine/sample/border.h). */
enum border {
    BORDER_FREE,
    BORDER_SPACE,   /* one space and no more; it is no part of the step's text */
    BORDER_NO_SPACE /* anything but a space */
};

/* What stands behind the text of a DECODE step, which does not end with the same. */
enum behind { BEHIND_OTHER, BEHIND_SPACE, BEHIND_MARK /* that ends sentences */ };

/* One value a CHOOSE step may take; its first token tells it from the others. */
struct plan_choice {
    const int32_t *tokens;
    int32_t token_count; /* >= 1 */
};

struct plan_step {
    enum step_kind kind;
    /* Prompt row whose final hidden state predicts this step's first token; -1 = the newest row of
     * the sequence. Gaps name their left neighbour here. */
    int32_t read_row;
    /* Position of this step's first token; -1 = one after the newest row's. */
    int32_t position;

    /* FORCE */
    const int32_t *tokens;
    int32_t token_count;
    /* CHOOSE */
    const struct plan_choice *choices;
    int32_t choice_count;
    /* DECODE */
    int32_t tokens_max; /* >= 0; 0 only runs the prompt */
    int32_t tokens_min; /* end tokens and stop strings are held off before this many */
    bool ban_end;       /* end tokens are never sampled (`until: length`, `ignore_eos`) */
    const struct stop_string *stops;
    int32_t stop_count;
    /* A line after the first that is indented by fewer columns ends the text before it, with
     * FINISH_LENGTH; 0 = none does. At most LIMIT_STOP_BYTES. */
    int32_t indent_min;
    const int32_t *stop_tokens; /* ends besides the model's own; not part of the text */
    int32_t stop_token_count;
    /* DECODE and FORCE: alternatives wanted per token, 0..LIMIT_TOP_LOGPROBS (DECODE only); -1 =
     * not even the token's own log-probability, which lets a FORCE skip the head. */
    int32_t top_logprobs;
    bool special_text; /* control tokens are spelled out in the text */
    /* DECODE: how the text begins and ends. BORDER_SPACE: the vocabulary must have a token that is
     * a space. */
    enum border border;
    enum behind behind;
    bool sentence; /* the text is one sentence: a token that begins behind it is an end token */
    const struct grammar *grammar; /* DECODE: what the text must be, NULL = anything; the tokens of
                                      its end end the step */
    /* DECODE: a token whose log-probability is wanted wherever one is sampled: how likely it would
     * have come instead. NULL = none. */
    const int32_t *watch;
};

struct plan_item {
    const int32_t *tokens;    /* [token_count] in slot order: context first */
    const int32_t *positions; /* [token_count] or NULL = 0, 1, 2, ... */
    int32_t token_count;      /* 1..context */
    int32_t context_count;    /* leading slots that all see each other; 0 = causal */

    /* Vectors. Rows pool_from..token_count take part in pooling. */
    enum pooling pooling;
    int32_t pool_from;
    bool token_vectors; /* every row's final hidden state, not pooled */
    bool normalize;
    int32_t dimensions;   /* 0 = all; else cut to this many, then normalised */
    bool prompt_logprobs; /* log-probability of every prompt token given those before (causal) */
    int32_t prompt_top;   /* and so many alternatives to each, 0..LIMIT_TOP_LOGPROBS */

    const struct plan_step *steps;
    int32_t step_count;       /* 0..LIMIT_STEPS */
    struct sampling sampling; /* for DECODE steps */
};

struct plan {
    enum kind kind;
    const struct plan_item *items;
    int32_t item_count; /* 1..LIMIT_ITEMS */
    bool cache_off;     /* neither takes K/V from the reuse store nor leaves any there */
    /* K/V are shared only between plans with the same bytes; zeros to its end. */
    char cache_salt[LIMIT_SALT_BYTES];
    bool stream;         /* token events are wanted while it runs, of all items in one ring */
    int64_t deadline_us; /* monotonic, 0 = none: then every unfinished item ends FINISH_TIMEOUT */
    int64_t
        start_by_us; /* monotonic, 0 = none: a job that has not started then ends ERR_DEADLINE */
    /* monotonic, 0 = none: a job that decodes and has no token by then ends ERR_DEADLINE. */
    int64_t first_by_us;
    /* A DECODE step ends FINISH_TIMEOUT so long after its first token; 0 = never. With predict_line
     * only once its text holds a whole line. */
    int64_t predict_us;
    bool predict_line;

    /* Who is served first; never what the answer is. */
    enum urgency urgency;
    int32_t priority; /* -LIMIT_PRIORITY..LIMIT_PRIORITY among the client's own, lower first */
    uint64_t client;  /* who asks, hashed: clients of a class share it evenly */
};

/* ---- results ------------------------------------------------------------------------------- */

struct token_logprob {
    int32_t token;
    float logprob; /* natural log over the whole vocabulary, before sampling changes the logits */
};

/* One sampled token. `text_bytes` bytes of the step's text were released with it (0 while an
 * unfinished character or a possible stop string is held back). */
struct token_event {
    int32_t item, step;
    int32_t index; /* of the token within its step, from 0 */
    int32_t token;
    float logprob;
    bool special; /* a control token */
    bool last;    /* the step ends here; `finish` says why */
    enum finish finish;
    int32_t text_from, text_bytes; /* into the step's text */
};

struct step_result {
    enum finish finish; /* DECODE; FINISH_LENGTH for finished FORCE and CHOOSE */
    /* DECODE and FORCE: the tokens and their log-probabilities (0 when the step wants none). A
     * DECODE that ended FINISH_EOS has the end token as its last one, without text. */
    int32_t *tokens;
    float *logprobs;
    int32_t token_count;
    /* DECODE: row k holds the alternatives of token k, best first:
     * top[k * top_logprobs .. + top_counts[k]]. */
    struct token_logprob *top;
    /* DECODE with a watched token: its log-probability where token k was sampled [token_count]. */
    float *watched;
    /* DECODE: released text, stop string and end token excluded, whole UTF-8. text_ends[k] is the
     * end of token k's released text. */
    char *text;
    int32_t text_bytes;
    int32_t *text_ends;
    /* CHOOSE: softmax over the candidates' first tokens [choice_count], the winner, and the
     * winner's share of the whole vocabulary. */
    float *probabilities;
    int32_t choice;
    float confidence;
    int32_t stop_index; /* which stop string ended the step; -1 = none, or the grammar did */
};

struct item_result {
    enum err err;
    struct err_info info;
    float *vector; /* [dimensions] pooled, or [token_count, hidden] for token_vectors */
    int32_t vector_rows, vector_dim;
    float *prompt_logprobs; /* [token_count]; entry 0 is NaN-free 0 and has no meaning */
    /* [token_count * prompt_top]: row k the likeliest at the place of token k, best first; row 0
     * has no meaning. */
    struct token_logprob *prompt_top;
    struct step_result *steps; /* [step_count] */
    float *saved_hidden;       /* the engine's: rows saved for steps with a read_row */
    /* cached_tokens: prompt tokens whose rows were not computed again. */
    int32_t prompt_tokens, cached_tokens, generated_tokens;
};

/* Times of a job, monotonic microseconds; 0 = not reached. */
struct job_times {
    int64_t submitted, started, prompt_done, first_token, finished;
};

/* ---- adapters ------------------------------------------------------------------------------- */

/* LoRA adapters that apply together; stacks are counted from 1, 0 = none. */
struct stack {
    int32_t adapters[LIMIT_ADAPTERS]; /* indices, each once */
    int32_t count;                    /* at least 1 */
};

/* Which stack lies on all rows of an item: by the plan's kind and whether rows of the item see each
 * other. */
struct stack_table {
    int32_t causal[KIND_COUNT], both_ways[KIND_COUNT];
};

static inline int32_t stack_of(
    const struct stack_table *table, enum kind kind, int32_t context_count)
{
    return context_count > 0 ? table->both_ways[kind] : table->causal[kind];
}

/* ---- the loaded model ---------------------------------------------------------------------- */

struct model_info {
    char name[128]; /* from the file; never a path */
    char architecture[32];
    char weights_type[16]; /* most common matrix type, lower case: "q4_1" */
    int32_t layers, hidden, heads, heads_kv, head_dim, ffn, vocab, context_trained;
    int32_t vector;       /* numbers of a pooled vector: hidden, or what the dense head gives */
    int32_t dense_widest; /* numbers between layers of a dense head; 0 = it has none */
    int32_t context;      /* tokens of one sequence this engine was opened for */
    uint64_t parameters;
    uint64_t file_bytes;
    bool embeds_only; /* the network has no head: rows become vectors and nothing else */
    char adapters[LIMIT_ADAPTERS][64]; /* names, never paths */
    int32_t adapter_count;
    struct stack stacks[KIND_COUNT]; /* more kinds of lists there are not */
    int32_t stack_count;
    struct stack_table stack_table;
    int32_t adapter_width; /* numbers of a row that adapters keep while a pass works on it */
    bool int8_activations; /* inputs of block-format matrices are prepared in 8 bits */

    /* Profile (docs/add-a-model.md): what the checkpoint wants when a request does not say. */
    enum attention embed_attention, prompt_attention;
    enum pooling embed_pooling;
    bool pool_skip_instruction;
    bool vector_norm; /* a pooled vector passes a layer norm before it is cut */
    bool can_generate, can_embed, can_infill, can_classify;
    bool calibrated; /* a profile states the moderation template */
    /* What works with this model, in the order in which the request's `auto` prefers it. */
    enum infill_mode infill_modes[INFILL_MODE_COUNT];
    int32_t infill_mode_count;
    char moderation_profile[32];
    struct {
        char name[32];
        char text[512];
    } prompts[LIMIT_PROMPTS];
    int32_t prompt_count;
    char default_prompt[32]; /* of a request that says nothing of prompts; "" = none */
    char instruction[512];   /* form of a client's instruction; "" = before the text, and a space */
    int32_t token_offset;    /* vector of token l is row l + offset: 0 or -1 */
    int32_t dimensions[16];  /* sizes of vectors the checkpoint was trained for */
    int32_t dimension_count;
};

#endif
