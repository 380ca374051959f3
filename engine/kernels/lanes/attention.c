/*
 * Attention of a run of rows: an online softmax over blocks of 64 slots anchored at slot 0.
 *
 * Keys and values are turned to float in a tile in the L1 cache and multiplied by the same inner
 * kernel as weights: scores = q K over the head's numbers, sums += p V over the slots. A block's
 * rows share the tiles. Per row the operations and their order are fixed by its own slots:
 *
 *   score   one FMA chain over the head's numbers; then x scale, - slope x distance
 *   block   m' = max(m, greatest score); p = exp(score - m'); c = exp(m - m')
 *           total = total c + (sum of p, eight vectors in order, then eight_sum)
 *           sums = sums c, then one FMA chain over the slots in ascending order
 *   part    every ATTENTION_PART slots m, total and sums begin anew, and what they were joins the
 *           row's state so far: m' = the greater m, both are scaled by exp(their m - m') and added
 *   end     sums / total + 0: the + 0 turns a -0 into 0, see below
 *
 * Parts let several threads work on one row (attention_part, attention_merge): what they put
 * together is what one call for many rows computes, operation by operation.
 *
 * Stale memory: lanes a row must not see get the score -inf by a blend before anything is computed
 * from them, so p = 0 there. Values are only read at slots that some row of the call sees, which
 * are stored and finite; p = 0 then adds an exact 0. All that 0 x v can change is the sign of a
 * sum that is zero, hence the + 0 at the end.
 */
#include <string.h>
#include "engine/attn/mask.h"
#include "engine/base/assert.h"
#include "engine/kernels/lanes/isa.h"
#include "engine/kernels/lanes/lanes_exp.h"
#include "engine/kernels/lanes/lanes.h"

enum {
    ROWS = 48,  /* that share converted tiles */
    BLOCK = 64, /* slots of one softmax step */
    BLOCK_VECTORS = BLOCK / LANES,
    TILE_FLOATS = 8192, /* converted at once: 32 KiB */
};

/* Of one row over some slots, or a pointer into arrays of many. */
struct state {
    float *greatest, *total;
    float *sums; /* [dims_padded] */
};

struct block_rows {
    int32_t first, count;  /* rows of the run */
    int32_t visible;       /* slots seen by the last row, which sees the most */
    int32_t dims_padded;   /* head_dim rounded up to whole panels */
    bool windowed, placed; /* a reach; a reach or a slope */
    /* Of the part at work, and of the parts before it. */
    float greatest[ROWS], total[ROWS];
    float greatest_before[ROWS], total_before[ROWS];
    _Alignas(64) float scores[ROWS][BLOCK];
    _Alignas(64) float sums[ROWS * HEAD_DIM_MAX]; /* [count][dims_padded] */
    _Alignas(64) float sums_before[ROWS * HEAD_DIM_MAX];
    _Alignas(64) float tile[TILE_FLOATS];
};

_Static_assert(HEAD_DIM_MAX *KV_TILE <= TILE_FLOATS, "a tile of keys must fit");
_Static_assert(HEAD_DIM_MAX % PANEL_OUTPUTS == 0, "padding must fit");

/* ---- keys and values to float --------------------------------------------------------------- */

/* Where slot's tile of keys begins (slot a multiple of KV_TILE), or its values. */
static const void *kv_at(const struct kv_view *kv, int32_t slot, bool values)
{
    const size_t number = kv->type == KV_F16 ? 2 : 4;
    const size_t in_page = (size_t)(slot % kv->page_slots) + (values ? (size_t)kv->page_slots : 0);
    return kv->pages[slot / kv->page_slots] + kv->head_offset +
           in_page * (size_t)kv->head_dim * number;
}

/* `count` numbers, with zeros up to a whole vector. */
static void to_floats(enum kv_type type, const void *from, int32_t count, float *out)
{
    if (type == KV_F32) {
        const float *numbers = from;
        for (int32_t i = 0; i < count; i += LANES) {
            floats_store(out + i, lanes_load(numbers + i, count - i));
        }
        return;
    }
    const uint16_t *numbers = from;
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        floats_store(out + i, floats_of_f16(numbers + i));
    }
    if (i < count) {
        uint16_t rest[LANES] = {0};
        memcpy(rest, numbers + i, (size_t)(count - i) * sizeof *rest);
        floats_store(out + i, floats_of_f16(rest));
    }
}

/* ---- scores --------------------------------------------------------------------------------- */

/* scores[r][slot - from] = q[r] . K[slot] for rows [row, count) and slots [from, from + slots),
 * whole tiles of them. */
static void score_block(const struct attention_args *args, struct block_rows *rows, int32_t row,
    int32_t from, int32_t slots)
{
    const int32_t dims = args->kv.head_dim;
    const int32_t tile_floats = dims * KV_TILE;
    const int32_t tiles_at_once = MIN(BLOCK / KV_TILE, TILE_FLOATS / tile_floats);
    const int32_t tiles = (slots + KV_TILE - 1) / KV_TILE;
    for (int32_t tile = 0; tile < tiles; tile += tiles_at_once) {
        const int32_t count = MIN(tiles - tile, tiles_at_once);
        for (int32_t t = 0; t < count; t++) {
            const void *keys = kv_at(&args->kv, from + (tile + t) * KV_TILE, false);
            to_floats(args->kv.type, keys, tile_floats, rows->tile + t * tile_floats);
        }
        const struct tile_job job = {
            .x = args->q + (size_t)(rows->first + row) * args->q_stride,
            .x_stride = args->q_stride,
            .w = rows->tile,
            .w_stride = KV_TILE,
            .w_panel = (size_t)tile_floats,
            .count = dims,
            .y = rows->scores[row] + tile * KV_TILE,
            .y_stride = BLOCK,
        };
        ISA(tile)(&job, rows->count - row, count);
    }
}

/* The same for the last row alone. */
static void score_block_of_one(
    const struct attention_args *args, struct block_rows *rows, int32_t from, int32_t slots)
{
    const int32_t row = rows->count - 1;
    const void *tiles[BLOCK / KV_TILE];
    int32_t count = 0;
    for (int32_t slot = 0; slot < slots; slot += KV_TILE) {
        tiles[count++] = kv_at(&args->kv, from + slot, false);
    }
    const float *q = args->q + (size_t)(rows->first + row) * args->q_stride;
    ISA(decode_scores)(args->kv.type, q, args->kv.head_dim, tiles, count, rows->scores[row]);
}

/* ---- softmax of one block of one row -------------------------------------------------------- */

/* Position of each of LANES slots minus the query's; slots past `visible` read as the query's. */
static ints offsets_of(
    const struct attention_args *args, int32_t slot, int32_t slot_q, int32_t visible)
{
    const ints own = ints_all(args->positions[slot_q]);
    const bools seen = lanes_first(visible - slot);
    const ints positions = ints_load_first(args->positions + slot, visible - slot);
    return ints_where(seen, ints_sub(positions, own));
}

/* Scales, biases and masks the scores of LANES slots. */
static floats finish_scores(const struct attention_args *args, const struct block_rows *rows,
    floats scores, int32_t slot, int32_t slot_q)
{
    const int32_t visible = mask_visible(args->context_count, slot_q);
    bools seen = lanes_first(visible - slot);
    floats s = scores * floats_all(args->scale);
    if (rows->placed) {
        const ints offsets = offsets_of(args, slot, slot_q, visible);
        const floats distance = floats_of_ints(ints_size(offsets));
        s = s - floats_all(args->alibi_slope) * distance;
        if (rows->windowed) {
            const bools left = ints_greater(ints_all(-args->reach_left), offsets);
            const bools right = ints_greater(offsets, ints_all(args->reach_right));
            seen = (bools)(seen & ~(left | right));
        }
    }
    return floats_where(seen, s, floats_all(-__builtin_inff()));
}

static float exp_of(float x)
{
    return lanes_exp(floats_all(x))[0];
}

static void scale_sums(float *sums, int32_t count, float by)
{
    for (int32_t d = 0; d < count; d += LANES) {
        floats_store(sums + d, floats_load(sums + d) * floats_all(by));
    }
}

static float sum_of_weights(const float p[BLOCK])
{
    eight sum = eight_load(p);
    for (int i = 8; i < BLOCK; i += 8) {
        sum = eight_add(sum, eight_load(p + i));
    }
    return eight_sum(sum);
}

/* Turns a row's scores of the block at slot `from` into weights p and updates its running state. */
static void weigh_block(
    const struct attention_args *args, struct block_rows *rows, int32_t row, int32_t from)
{
    const int32_t slot_q = args->slot_from + rows->first + row;
    float *scores = rows->scores[row];
    floats s[BLOCK_VECTORS];
    floats best = floats_all(-__builtin_inff());
    for (int v = 0; v < BLOCK_VECTORS; v++) {
        s[v] = finish_scores(args, rows, floats_load(scores + v * LANES), from + v * LANES, slot_q);
        best = floats_max(s[v], best);
    }
    const float block_greatest = floats_greatest(best);
    if (block_greatest == -__builtin_inff()) {
        memset(scores, 0, sizeof rows->scores[row]); /* the row sees none of the block */
        return;
    }
    const float before = rows->greatest[row];
    const float greatest = MAX(before, block_greatest);
    for (int v = 0; v < BLOCK_VECTORS; v++) {
        const floats p = lanes_exp(s[v] - floats_all(greatest));
        floats_store(scores + v * LANES, p);
    }
    if (before != greatest) {
        const float shrink = exp_of(before - greatest);
        rows->total[row] *= shrink;
        scale_sums(rows->sums + (size_t)row * (size_t)rows->dims_padded, rows->dims_padded, shrink);
    }
    rows->total[row] += sum_of_weights(scores);
    rows->greatest[row] = greatest;
}

/* ---- values --------------------------------------------------------------------------------- */

/* sums[r] += p[r][slot] V[slot] for rows [row, count) and slots [from, from + slots). */
static void add_values(const struct attention_args *args, struct block_rows *rows, int32_t row,
    int32_t from, int32_t slots)
{
    const int32_t padded = rows->dims_padded;
    const int32_t at_once = TILE_FLOATS / padded;
    for (int32_t slot = 0; slot < slots; slot += at_once) {
        const int32_t count = MIN(slots - slot, at_once);
        for (int32_t i = 0; i < count; i++) {
            const void *values = kv_at(&args->kv, from + slot + i, true);
            to_floats(args->kv.type, values, args->kv.head_dim, rows->tile + i * padded);
        }
        const struct tile_job job = {
            .x = rows->scores[row] + slot,
            .x_stride = BLOCK,
            .w = rows->tile,
            .w_stride = (size_t)padded,
            .w_panel = PANEL_OUTPUTS,
            .count = count,
            .y = rows->sums + (size_t)row * (size_t)padded,
            .y_stride = (size_t)padded,
            .resume = true,
        };
        ISA(tile)(&job, rows->count - row, padded / PANEL_OUTPUTS);
    }
}

/* The same for the last row alone; head_dim is a multiple of LANES. */
static void add_values_of_one(
    const struct attention_args *args, struct block_rows *rows, int32_t from, int32_t slots)
{
    const int32_t row = rows->count - 1;
    float *sums = rows->sums + (size_t)row * (size_t)rows->dims_padded;
    for (int32_t slot = 0; slot < slots; slot += KV_TILE) {
        ISA(decode_values)
        (args->kv.type, rows->scores[row] + slot, MIN(slots - slot, KV_TILE),
            kv_at(&args->kv, from + slot, true), args->kv.head_dim, sums);
    }
}

/* False when every row's window leaves out the whole block. */
static bool in_reach(
    const struct attention_args *args, const struct block_rows *rows, int32_t from, int32_t to)
{
    if (!rows->windowed) {
        return true;
    }
    for (int32_t row = 0; row < rows->count; row++) {
        const int64_t own = args->positions[args->slot_from + rows->first + row];
        for (int32_t slot = from; slot < to; slot++) {
            const int64_t offset = args->positions[slot] - own;
            if (offset >= -(int64_t)args->reach_left && offset <= args->reach_right) {
                return true;
            }
        }
    }
    return false;
}

/* ---- states --------------------------------------------------------------------------------- */

static struct state part_of(struct block_rows *rows, int32_t row)
{
    return (struct state){&rows->greatest[row], &rows->total[row],
        rows->sums + (size_t)row * (size_t)rows->dims_padded};
}

static struct state before_of(struct block_rows *rows, int32_t row)
{
    return (struct state){&rows->greatest_before[row], &rows->total_before[row],
        rows->sums_before + (size_t)row * (size_t)rows->dims_padded};
}

static void state_clear(const struct state *state, int32_t dims_padded)
{
    *state->greatest = -__builtin_inff();
    *state->total = 0;
    memset(state->sums, 0, (size_t)dims_padded * sizeof(float));
}

/* Slots that the row does not see leave it as it is, to the bit. */
static void state_join(const struct state *state, const struct state *next, int32_t dims_padded)
{
    if (*next->greatest == -__builtin_inff()) {
        return;
    }
    if (*state->greatest == -__builtin_inff()) {
        *state->greatest = *next->greatest;
        *state->total = *next->total;
        memcpy(state->sums, next->sums, (size_t)dims_padded * sizeof(float));
        return;
    }
    const float greatest = MAX(*state->greatest, *next->greatest);
    const float a = exp_of(*state->greatest - greatest);
    const float b = exp_of(*next->greatest - greatest);
    *state->greatest = greatest;
    *state->total = *state->total * a + *next->total * b;
    for (int32_t d = 0; d < dims_padded; d += LANES) {
        const floats joined = floats_load(state->sums + d) * floats_all(a) +
                              floats_load(next->sums + d) * floats_all(b);
        floats_store(state->sums + d, joined);
    }
}

static void state_finish(const struct state *state, int32_t dims, float *out)
{
    const floats total = floats_all(*state->total);
    for (int32_t d = 0; d < dims; d += LANES) {
        const floats mean = floats_load(state->sums + d) / total;
        lanes_store(out + d, dims - d, mean + floats_zero());
    }
}

/* ---- a block of rows ------------------------------------------------------------------------ */

/* The state of every row after slots [from, to) of one part. */
static void attend_part(
    const struct attention_args *args, struct block_rows *rows, int32_t from, int32_t to)
{
    const int32_t slot_from = args->slot_from + rows->first;
    for (int32_t r = 0; r < rows->count; r++) {
        const struct state part = part_of(rows, r);
        state_clear(&part, rows->dims_padded);
    }
    for (; from < to; from += BLOCK) {
        const int32_t slots = MIN(to - from, BLOCK);
        if (!in_reach(args, rows, from, from + slots)) {
            continue;
        }
        /* Later rows see no less: rows before the first that sees the block are done. */
        int32_t row = 0;
        while (mask_visible(args->context_count, slot_from + row) <= from) {
            row++;
        }
        const bool one = row + 1 == rows->count && args->kv.head_dim % LANES == 0;
        if (one) {
            score_block_of_one(args, rows, from, slots);
        } else {
            score_block(args, rows, row, from, slots);
        }
        for (int32_t r = row; r < rows->count; r++) {
            weigh_block(args, rows, r, from);
        }
        if (one) {
            add_values_of_one(args, rows, from, slots);
        } else {
            add_values(args, rows, row, from, slots);
        }
    }
}

static void attend(const struct attention_args *args, struct block_rows *rows)
{
    for (int32_t r = 0; r < rows->count; r++) {
        rows->greatest_before[r] = -__builtin_inff();
    }
    for (int32_t from = 0; from < rows->visible; from += ATTENTION_PART) {
        attend_part(args, rows, from, MIN(rows->visible, from + ATTENTION_PART));
        for (int32_t r = 0; r < rows->count; r++) {
            const struct state before = before_of(rows, r), part = part_of(rows, r);
            state_join(&before, &part, rows->dims_padded);
        }
    }
    for (int32_t r = 0; r < rows->count; r++) {
        const struct state before = before_of(rows, r);
        float *out = args->out + (size_t)(rows->first + r) * args->out_stride;
        state_finish(&before, args->kv.head_dim, out);
    }
}

/* Rows [first, first + count), count <= ROWS, about to begin. */
static void begin_rows(
    const struct attention_args *args, struct block_rows *rows, int32_t first, int32_t count)
{
    rows->first = first;
    rows->count = count;
    rows->visible = mask_visible(args->context_count, args->slot_from + first + count - 1);
    rows->windowed = args->reach_left != REACH_ALL || args->reach_right != REACH_ALL;
    rows->placed = rows->windowed || args->alibi_slope != 0;
    rows->dims_padded = (args->kv.head_dim + PANEL_OUTPUTS - 1) / PANEL_OUTPUTS * PANEL_OUTPUTS;
    /* Lanes of tiles that no row sees are never scored, but pass through the blend. */
    memset(rows->scores, 0, (size_t)count * sizeof rows->scores[0]);
}

static void check_args(const struct attention_args *args)
{
    ASSERT(args->kv.head_dim >= 1 && args->kv.head_dim <= HEAD_DIM_MAX);
    ASSERT(args->kv.page_slots >= KV_TILE && args->kv.page_slots % KV_TILE == 0);
}

void ISA(attention)(const struct attention_args *args, int32_t row_from, int32_t row_to)
{
    check_args(args);
    struct block_rows rows;
    for (int32_t first = row_from; first < row_to; first += ROWS) {
        begin_rows(args, &rows, first, MIN(row_to - first, ROWS));
        attend(args, &rows);
    }
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* How one lies in memory: the sums, padded, then the two numbers. */
static struct state stored_state(float *state, int32_t dims_padded)
{
    return (struct state){state + dims_padded, state + dims_padded + 1, state};
}

void ISA(attention_part)(const struct attention_args *args, int32_t row, int32_t part, float *state)
{
    check_args(args);
    struct block_rows rows;
    begin_rows(args, &rows, row, 1);
    const int32_t from = part * ATTENTION_PART;
    ASSERT(part >= 0 && from < rows.visible);
    attend_part(args, &rows, from, MIN(rows.visible, from + ATTENTION_PART));
    const struct state out = stored_state(state, rows.dims_padded), whole = part_of(&rows, 0);
    state_clear(&out, rows.dims_padded);
    state_join(&out, &whole, rows.dims_padded);
}

void ISA(attention_merge)(const float *states, int32_t part_count, int32_t head_dim, float *out)
{
    float sums[HEAD_DIM_MAX], next_sums[HEAD_DIM_MAX];
    float greatest, total, next_greatest, next_total;
    const int32_t padded = (head_dim + PANEL_OUTPUTS - 1) / PANEL_OUTPUTS * PANEL_OUTPUTS;
    const struct state all = {&greatest, &total, sums};
    state_clear(&all, padded);
    for (int32_t part = 0; part < part_count; part++) {
        const float *from = states + (size_t)part * attention_state_floats(head_dim);
        memcpy(next_sums, from, (size_t)padded * sizeof(float));
        next_greatest = from[padded];
        next_total = from[padded + 1];
        const struct state next = {&next_greatest, &next_total, next_sums};
        state_join(&all, &next, padded);
    }
    state_finish(&all, head_dim, out);
}
