/*
 * What a loaded network and a running pass are made of; private to model/, arch/ and blocks/.
 *
 * A pass works on one tile of rows at a time. A tile lists batch rows, not necessarily
 * consecutive ones: the last unit takes only rows that something is read from. Whatever the tile,
 * a row's numbers are the same, for no kernel mixes rows.
 */
#ifndef ENGINE_MODEL_PARTS_H
#define ENGINE_MODEL_PARTS_H

#include "engine/arch/arch.h"
#include "engine/blocks/rope.h"
#include "engine/model/model.h"

enum {
    TILE_ROWS_MAX = 4096,
    /* Rows of one attention chunk. Small enough that one long prompt feeds every thread, large
     * enough that a K/V tile once in the cache is used many times. */
    PIECE_ROWS = 48,
    /* Parts of single rows whose attention is under way at once (engine/blocks/attention.c): one
     * row that sees 131,072 slots, or 32 rows that see 4,096. More rows feed all threads anyway. */
    STATE_PARTS = 512,
};

/* Layers behind the pooling; files call them dense_2 and dense_3. */
enum { DENSE_MAX = 2, DENSE_FIRST = 2 };

enum { ROPES_MAX = 2 }; /* a network whose local layers rotate in a way of their own has two */

struct rope_shape {
    double base;
    double factor; /* positions are divided by it: "linear" scaling; 1 = none */
};

enum norm_kind { NORM_RMS, NORM_LAYER };

/* What a network needs besides the sizes in model_info. */
struct hyper {
    int32_t rotary_dim; /* leading numbers of a head that rotate */
    enum rope_style rope_style;
    struct rope_shape ropes[ROPES_MAX];
    int32_t rope_count;
    float alibi_slopes[LIMIT_HEADS]; /* 0: scores do not fall with distance */
    int32_t window; /* attention.sliding_window, in the network's own sense; 0 = none */
    enum norm_kind norm_kind;
    float norm_eps;
    float attention_scale;
};

/* What a stack of adapters adds to a product W x: B (A x), the pairs of all its adapters side by
 * side, each B times its scale. */
struct low_rank {
    struct packed a; /* [rank, inputs]; no outputs: the stack leaves this matrix as it is */
    struct packed b; /* [outputs, rank] */
    /* Where A x lies in a row of scratch->low: matrices that read the same rows share it. */
    int32_t column;
};

/* W x + b. */
struct linear {
    struct packed weight; /* [outputs, inputs] */
    float *bias;          /* [outputs] or NULL */
    struct low_rank *low; /* [stacks], of stack 1 on; NULL: no stack may change it */
};

struct norm {
    float *weight; /* NULL: there is no norm here, and numbers stay as they are */
    float *bias;   /* or NULL; of NORM_LAYER */
};

/* All that layers of all networks are made of; a network fills what it has. */
struct layer {
    struct norm attn_norm, ffn_norm; /* of what goes in; [hidden] */
    /* Of what comes out, before or after it is added, as the network says; [hidden] */
    struct norm attn_post_norm, ffn_post_norm;
    struct norm q_norm, k_norm; /* of each head, before it rotates; [head_dim] */
    struct linear q;            /* [heads * head_dim, hidden] */
    struct linear k, v;         /* [heads_kv * head_dim, hidden] */
    struct linear output;       /* [hidden, heads * head_dim] */
    struct linear gate, up;     /* [ffn, hidden] */
    struct linear down;         /* [hidden, ffn] */
    int32_t reach;              /* rows see so many positions to either side, or REACH_ALL */
    int32_t rope;               /* which of the model's rotates q and k */
};

/* A layer of the dense head: from vector to vector. */
struct dense {
    struct linear linear;
    int32_t inputs, outputs;
    bool biased, tanh; /* tanh(W x + b); else W x + b */
};

struct model {
    const struct network *network;
    const struct kernels *kernels;
    struct model_info info;
    struct hyper hyper;
    struct layer *layers;      /* [info.layers] */
    unsigned char *weights;    /* the block that all tensors below and in layers lie in */
    struct linear embedding;   /* [vocab, hidden] */
    struct linear untied_head; /* [vocab, hidden]; no data: tied */
    const struct linear *head; /* one of the two, or NULL: rows become vectors and nothing else */
    struct norm output_norm;   /* [hidden] */
    struct norm embed_norm;    /* of the rows before the first layer; [hidden] */
    float *token_types;        /* [types][hidden] or NULL */
    float *positions;          /* [context_trained][hidden], added to the embedding, or NULL */
    float *rope_divisors;      /* [rotary_dim / 2] or NULL: Llama 3.1's factors */
    struct rope_table ropes[ROPES_MAX];
    struct dense dense[DENSE_MAX];
    int32_t dense_count;
    uint64_t bytes;
    bool sums_wanted; /* some matrix has minima (tensor_type_has_minima) */
    bool dry;

    struct weights_matrix *matrices; /* [matrix_count]: where the matrices of the file went */
    int32_t matrix_count;
    struct low_rank *low_ranks; /* [matrix_count][stack_count] */
    int32_t stack_count;
    unsigned char *stacked; /* the block that their numbers lie in */
    uint64_t stacked_bytes;
};

/* Consecutive slots of one sequence that lie consecutively in a tile. */
struct piece {
    struct run *run;
    int32_t tile_from, count;
    int32_t slot_from;
    /* Of the attention at work: the first of its chunks; its parts and where their states lie. */
    int32_t chunk_from, part_from, part_count;
};

/* Consecutive rows of a tile that one stack of adapters lies on. */
struct span {
    int32_t row_from, row_to;
    int32_t stack; /* from 1 on */
};

struct tile {
    int32_t row_count;
    int32_t *rows; /* [row_count] batch rows, ascending */
    struct piece *pieces;
    int32_t piece_count;
    struct span *spans;
    int32_t span_count; /* 0: no row of the tile has adapters */
    /* Of each of the model's rotations: [row_count][rotary_dim / 2][2]. */
    float *cos_sin[ROPES_MAX];
    /* The window of batch rows the tile was taken from; place[row - window_from] is the row's
     * index in the tile, -1 = not in it. */
    int32_t window_from, window_to;
    int32_t *place;
};

struct scratch {
    int32_t tile_rows;
    struct tile tile;
    float *h;        /* [tile_rows, hidden]: normed rows, and what is about to be added to x */
    float *q;        /* [tile_rows, heads * head_dim] */
    float *attended; /* [tile_rows, heads * head_dim] */
    float *states;   /* [STATE_PARTS][heads][attention_state_floats(head_dim)] */
    float *k, *v;    /* [tile_rows, heads_kv * head_dim] */
    float *gate;     /* [tile_rows, ffn] */
    /* What the widest input is prepared to: rows of ACTIVATION_INT8, or the sums of f32 rows. */
    unsigned char *prepared;
    float *dense[2]; /* [dense_rows(), dense_widest]: what goes in and what comes out */
    float *low;      /* [tile_rows, adapter_width]: A x of the matrices that are worked on */
};

/* Vectors that go through the dense head side by side. */
int32_t dense_rows(int32_t tile_rows);

/* Sizes of the dense head, from the file's keys, once those of the network are known; its weights,
 * like struct network's `load`. */
MUST_USE enum err dense_describe(
    struct model *model, const struct gguf *gguf, struct err_info *info);
MUST_USE enum err dense_load(struct model *model, struct weights *weights, struct err_info *info);

/* Bytes of one row in scratch->prepared. */
size_t scratch_prepared_bytes(const struct model_info *info, int32_t inputs);

struct pass {
    const struct model *model;
    const struct kernels *kernels;
    struct scratch *scratch;
    struct threads *threads;
    struct batch *batch;
    struct tile *tile;
    /* Both halves of a layer run over this same tile: the first half then leaves Q, which needs
     * the same norm and rotation, in scratch for the second. */
    bool joined;
};

#endif
