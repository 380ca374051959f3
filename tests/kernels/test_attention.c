/*
 * Goal: attention computes the masked softmax average within rounding; a row's bits depend
 * neither on company nor on what lies in slots it does not see; K/V values that do not fit are
 * refused.
 *
 * Method: random head sizes, page sizes, page orders and masks of every kind. Slots that are not
 * stored hold NaN. Bound of the error, with S the greatest sum of |q_d k_d| x scale plus the bias:
 * each weight is off by a relative eta <= 2 gamma_(dims+10) S + gamma_(slots+4 (blocks+parts)+8)
 * (error of a score, of the exponent's argument; exp, rescaling and summation), numerator and
 * denominator both, so |out - ref| <= 2 eta max |v|.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>
#include "engine/attn/mask.h"
#include "engine/base/attr.h"
#include "engine/base/half.h"
#include "tests/kernels/kernel_check.h"

enum { PAGES_MAX = 60, HEADS_KV = 2 };

/* One sequence of `slots` stored slots; the run is rows [slot_from, slots). */
struct sequence {
    int32_t slots, head_dim;
    unsigned char *pages[PAGES_MAX];
    int32_t page_count;
    float *k, *v; /* [slots, HEADS_KV, head_dim] */
    float *q;     /* [slots, head_dim] */
    int32_t *positions;
    size_t head_bytes, layer_offset;
    struct attention_args args;
};

static size_t page_bytes(const struct sequence *s)
{
    return s->layer_offset + HEADS_KV * s->head_bytes;
}

static void forget_pages(struct sequence *s)
{
    for (int32_t p = 0; p < s->page_count; p++) {
        memset(s->pages[p], 0xff, page_bytes(s));
    }
}

static void store_slot(const struct kernels *kernels, struct sequence *s, int32_t slot)
{
    const struct kv_view *kv = &s->args.kv;
    const size_t row = (size_t)slot * HEADS_KV * (size_t)s->head_dim;
    assert_true(kernels->kv_store(kv->type, kv->page_slots, HEADS_KV, s->head_dim,
        s->pages[slot / kv->page_slots], s->layer_offset, s->head_bytes, slot % kv->page_slots,
        s->k + row, s->v + row));
}

/* Positions: the context ascends with holes, then the spans fill what is left out. */
static void place(struct check_random *random, struct sequence *s, int32_t context_count)
{
    int32_t position = 0;
    for (int32_t i = 0; i < s->slots; i++) {
        if (i == context_count) {
            position = 1;
        }
        s->positions[i] = position;
        position += check_random_int(random, 1, i < context_count ? 3 : 1);
    }
}

/* Not by value: the view points into the sequence. */
static void open_sequence(struct check_random *random, enum kv_type type, int32_t slots,
    int32_t head_dim, struct sequence *s)
{
    static const int32_t page_sizes[] = {16, 32, 64, 80};
    *s = (struct sequence){.slots = slots, .head_dim = head_dim, .layer_offset = 64};
    const size_t numbers = (size_t)slots * HEADS_KV * (size_t)head_dim;
    const int32_t page_slots = page_sizes[check_random_int(random, 0, 3)];
    s->head_bytes = kv_head_bytes(type, page_slots, head_dim);
    s->page_count = (slots + page_slots - 1) / page_slots;
    assert_in_range(s->page_count, 1, PAGES_MAX);
    for (int32_t p = 0; p < s->page_count; p++) {
        s->pages[p] = check_alloc(page_bytes(s), 0);
    }
    s->k = check_alloc(numbers * sizeof(float), 4);
    s->v = check_alloc(numbers * sizeof(float), 4);
    s->q = check_alloc((size_t)slots * (size_t)head_dim * sizeof(float), 4);
    s->positions = check_alloc((size_t)slots * sizeof(int32_t), 4);
    check_random_floats(random, s->k, numbers);
    check_random_floats(random, s->v, numbers);
    check_random_floats(random, s->q, (size_t)slots * (size_t)head_dim);
    for (size_t i = 0; i < (size_t)slots * (size_t)head_dim; i++) {
        s->q[i] *= 4; /* so that weights differ by orders of magnitude */
    }
    s->args = (struct attention_args){
        .q = s->q,
        .q_stride = (size_t)head_dim,
        .out_stride = (size_t)head_dim,
        .kv = {type, page_slots, head_dim, s->pages,
            s->layer_offset + (HEADS_KV - 1) * s->head_bytes},
        .scale = 1.0f / sqrtf((float)head_dim),
        .positions = s->positions,
        .reach_left = REACH_ALL,
        .reach_right = REACH_ALL,
    };
}

static void close_sequence(struct sequence *s)
{
    for (int32_t p = 0; p < s->page_count; p++) {
        check_free(s->pages[p]);
    }
    check_free(s->k);
    check_free(s->v);
    check_free(s->q);
    check_free(s->positions);
}

/* The mask kinds in turn, with windows and slopes at times. */
static void choose_mask(struct check_random *random, struct sequence *s, int32_t kind)
{
    struct attention_args *args = &s->args;
    const int32_t some = check_random_int(random, 0, s->slots);
    args->context_count = kind % 3 == 0 ? 0 : kind % 3 == 1 ? s->slots : some;
    place(random, s, args->context_count);
    args->reach_left = kind / 3 % 3 == 0 ? REACH_ALL : check_random_int(random, 0, s->slots);
    args->reach_right = kind / 3 % 3 != 2 ? REACH_ALL : check_random_int(random, 0, s->slots);
    args->alibi_slope = kind / 9 % 2 == 0 ? 0 : check_random_float(random, 0.01f, 0.2f);
}

/* Opened, with a mask of this kind, and all slots stored. */
static void open_stored(struct check_random *random, const struct kernels *kernels,
    enum kv_type type, int32_t slots, int32_t head_dim, int32_t kind, struct sequence *s)
{
    open_sequence(random, type, slots, head_dim, s);
    choose_mask(random, s, kind);
    for (int32_t slot = 0; slot < s->slots; slot++) {
        store_slot(kernels, s, slot);
    }
}

static float *run_all(const struct kernels *kernels, struct sequence *s)
{
    float *out = check_alloc((size_t)s->slots * (size_t)s->head_dim * sizeof(float), 4);
    s->args.out = out;
    kernels->attention(&s->args, 0, s->slots);
    return out;
}

/* Greatest sum of |q_d k_d| x scale plus the bias, over all pairs: S of the bound. */
static double greatest_score(const struct sequence *s)
{
    double greatest = 0;
    for (int32_t i = 0; i < s->slots; i++) {
        for (int32_t j = 0; j < s->slots; j++) {
            const float *k = s->k + ((size_t)j * HEADS_KV + HEADS_KV - 1) * (size_t)s->head_dim;
            double sum = 0;
            for (int32_t d = 0; d < s->head_dim; d++) {
                sum +=
                    fabs((double)s->q[(size_t)i * (size_t)s->head_dim + (size_t)d] * (double)k[d]);
            }
            sum *= (double)s->args.scale;
            sum += (double)s->args.alibi_slope * abs(s->positions[i] - s->positions[j]);
            greatest = fmax(greatest, sum);
        }
    }
    return greatest;
}

static void check_kind(struct check_random *random, const struct kernels *ref,
    const struct kernels *kernels, enum kv_type type, int32_t kind)
{
    static const int32_t head_dims[] = {8, 64, 80, 5, 128, 33};
    const int32_t head_dim = head_dims[kind % 6];
    struct sequence s;
    const int32_t slots = check_random_int(random, 1, kind % 7 == 0 ? 400 : 180);
    open_stored(random, kernels, type, slots, head_dim, kind, &s);
    float *want = run_all(ref, &s);
    float *have = run_all(kernels, &s);
    const int32_t rescalings = s.slots / 64 + s.slots / ATTENTION_PART + 1;
    const double eta = 2 * check_gamma(head_dim + 10) * greatest_score(&s) +
                       check_gamma(s.slots + 4 * rescalings + 8);
    for (size_t i = 0; i < (size_t)s.slots * (size_t)head_dim; i++) {
        const double off = fabs((double)have[i] - (double)want[i]);
        if (!(off <= 2 * eta)) { /* max |v| = 1 */
            fail_msg("%s kind %d dims %d slots %d at %zu: off by %.3g, bound %.3g", kernels->name,
                kind, head_dim, s.slots, i, off, 2 * eta);
        }
    }
    check_free(want);
    check_free(have);
    close_sequence(&s);
}

static void every_mask_is_within_rounding(
    struct check_random *random, const struct kernels *kernels)
{
    const struct kernels ref = check_rung("ref");
    for (int32_t kind = 0; kind < 36; kind++) {
        check_kind(random, &ref, kernels, KV_F32, kind);
        check_kind(random, &ref, kernels, KV_F16, kind);
    }
}

static void check_same_row(const struct kernels *kernels, const struct sequence *s, int32_t row,
    const float *want, const float *have, const char *how)
{
    const size_t dims = (size_t)s->head_dim;
    if (memcmp(want + (size_t)row * dims, have + (size_t)row * dims, dims * sizeof(float)) != 0) {
        fail_msg("%s: row %d of %d differs %s", kernels->name, row, s->slots, how);
    }
}

/* All rows at once, each alone, in random pieces, and as a run that begins later. */
static void check_company(
    struct check_random *random, const struct kernels *kernels, struct sequence *s)
{
    float *want = run_all(kernels, s);
    float *have = check_alloc((size_t)s->slots * (size_t)s->head_dim * sizeof(float), 4);
    s->args.out = have;
    for (int32_t row = 0; row < s->slots; row++) {
        kernels->attention(&s->args, row, row + 1);
        check_same_row(kernels, s, row, want, have, "alone");
    }
    for (int32_t from = 0; from < s->slots;) {
        const int32_t to = from + check_random_int(random, 1, 40);
        kernels->attention(&s->args, from, to < s->slots ? to : s->slots);
        from = to;
    }
    const int32_t later = check_random_int(random, 0, s->slots - 1);
    struct attention_args args = s->args;
    args.slot_from = later;
    args.q += (size_t)later * args.q_stride;
    args.out += (size_t)later * args.out_stride;
    kernels->attention(&args, 0, s->slots - later);
    for (int32_t row = 0; row < s->slots; row++) {
        check_same_row(kernels, s, row, want, have, "in pieces");
    }
    check_free(want);
    check_free(have);
}

/* Decoding: when row r runs, the slots after it are not stored yet and hold NaN. */
static void check_decoding(const struct kernels *kernels, struct sequence *s)
{
    float *want = run_all(kernels, s);
    float *have = check_alloc((size_t)s->slots * (size_t)s->head_dim * sizeof(float), 4);
    s->args.out = have;
    forget_pages(s);
    for (int32_t slot = 0; slot < s->slots; slot++) {
        store_slot(kernels, s, slot);
        if (slot + 1 >= s->args.context_count) {
            const int32_t first = slot < s->args.context_count ? 0 : slot;
            kernels->attention(&s->args, first, slot + 1);
        }
    }
    for (int32_t row = 0; row < s->slots; row++) {
        check_same_row(kernels, s, row, want, have, "before later slots are stored");
    }
    check_free(want);
    check_free(have);
}

static void bits_do_not_depend_on_company(
    struct check_random *random, const struct kernels *kernels)
{
    for (int32_t kind = 0; kind < 18; kind++) {
        const enum kv_type type = kind % 2 == 0 ? KV_F16 : KV_F32;
        struct sequence s;
        open_stored(random, kernels, type, check_random_int(random, 1, 150),
            kind % 5 == 0 ? 12 : 64, kind, &s);
        check_company(random, kernels, &s);
        check_decoding(kernels, &s);
        close_sequence(&s);
    }
}

/* Rows put together from parts, computed in another order than they are joined: every row of a
 * short sequence, some of a long one. */
static void check_parts(const struct kernels *kernels, struct sequence *s)
{
    const int32_t step = s->slots > 2 * ATTENTION_PART ? 13 : 1;
    float *want = run_all(kernels, s);
    float *have = check_alloc((size_t)s->slots * (size_t)s->head_dim * sizeof(float), 4);
    const size_t state_floats = attention_state_floats(s->head_dim);
    float *states = check_alloc(state_floats * PAGES_MAX * sizeof(float), 4);
    for (int32_t row = s->slots - 1; row >= 0; row -= step) {
        const int32_t visible = mask_visible(s->args.context_count, row);
        const int32_t parts = (visible + ATTENTION_PART - 1) / ATTENTION_PART;
        for (int32_t part = parts - 1; part >= 0; part--) {
            kernels->attention_part(&s->args, row, part, states + (size_t)part * state_floats);
        }
        kernels->attention_merge(
            states, parts, s->head_dim, have + (size_t)row * (size_t)s->head_dim);
        check_same_row(kernels, s, row, want, have, "put together from parts");
    }
    check_free(states);
    check_free(want);
    check_free(have);
}

static void parts_give_the_bits_of_the_whole(
    struct check_random *random, const struct kernels *kernels)
{
    /* Two parts are the same joined either way round; four tell all orders and groupings apart. */
    static const int32_t slots[] = {3 * ATTENTION_PART + 101, 255, 256, 257, 400, 511};
    static const int32_t head_dims[] = {64, 8, 33};
    for (int32_t kind = 0; kind < (int32_t)ARRAY_COUNT(slots); kind++) {
        struct sequence s;
        open_stored(random, kernels, kind % 2 == 0 ? KV_F16 : KV_F32, slots[kind],
            head_dims[kind % 3], kind, &s);
        check_parts(kernels, &s);
        close_sequence(&s);
    }
}

/* The greatest head, whose tiles are taken one by one, and a long sequence. */
static void great_heads(struct check_random *random, const struct kernels *kernels)
{
    struct sequence s;
    open_stored(random, kernels, KV_F16, 70, HEAD_DIM_MAX, 2, &s);
    check_company(random, kernels, &s);
    check_decoding(kernels, &s);
    close_sequence(&s);
}

/* The two x86 rungs promise the same bits. */
static void twins_give_the_same_bits(
    struct check_random *random, const struct kernels *avx2, const struct kernels *avx512)
{
    static const int32_t head_dims[] = {64, 8, 80, 5, 128, 33, 72};
    for (int32_t kind = 0; kind < 72; kind++) {
        struct sequence s;
        open_stored(random, avx2, kind % 2 == 0 ? KV_F16 : KV_F32, check_random_int(random, 1, 180),
            head_dims[kind % 7], kind / 2, &s);
        float *want = run_all(avx2, &s);
        float *have = run_all(avx512, &s);
        for (int32_t row = 0; row < s.slots; row++) {
            check_same_row(avx512, &s, row, want, have, "from avx2's");
        }
        avx512->attention(&s.args, s.slots - 1, s.slots);
        check_same_row(avx512, &s, s.slots - 1, want, have, "from avx2's, alone");
        check_free(want);
        check_free(have);
        close_sequence(&s);
    }
}

/* ---- storing -------------------------------------------------------------------------------- */

static void stores_the_reference_bits(struct check_random *random, const struct kernels *kernels)
{
    const struct kernels ref = check_rung("ref");
    for (int32_t head_dim = 1; head_dim <= 70; head_dim += 3) {
        const enum kv_type type = head_dim % 2 == 0 ? KV_F16 : KV_F32;
        struct sequence a;
        open_sequence(random, type, 90, head_dim, &a);
        struct sequence b = a;
        for (int32_t p = 0; p < b.page_count; p++) {
            b.pages[p] = check_alloc(page_bytes(&b), 0);
        }
        for (int32_t slot = 0; slot < a.slots; slot++) {
            store_slot(&ref, &a, slot);
            store_slot(kernels, &b, slot);
        }
        for (int32_t p = 0; p < b.page_count; p++) {
            assert_memory_equal(a.pages[p], b.pages[p], page_bytes(&a));
            check_free(b.pages[p]);
        }
        close_sequence(&a);
    }
}

static bool stores(const struct kernels *kernels, enum kv_type type, float bad, int at, bool in_v)
{
    enum { DIMS = 11, SLOTS = 16 };
    float good[HEADS_KV * DIMS] = {0};
    float row[HEADS_KV * DIMS] = {0};
    row[at] = bad;
    const size_t head_bytes = kv_head_bytes(type, SLOTS, DIMS);
    unsigned char *page = check_alloc(HEADS_KV * head_bytes, 0);
    const bool stored = kernels->kv_store(
        type, SLOTS, HEADS_KV, DIMS, page, 0, head_bytes, 3, in_v ? good : row, in_v ? row : good);
    if (!stored) { /* and nothing was written */
        for (size_t i = 0; i < HEADS_KV * head_bytes; i++) {
            assert_int_equal(page[i], 0xff);
        }
    }
    check_free(page);
    return stored;
}

static void refuses_what_does_not_fit(struct check_random *random, const struct kernels *kernels)
{
    const float half_max = 65504.0f;
    const float rounds_to_max = nextafterf(65520.0f, 0);
    for (int at = 0; at < HEADS_KV * 11; at++) {
        for (int in_v = 0; in_v < 2; in_v++) {
            for (float sign = -1; sign <= 1; sign += 2) {
                assert_true(stores(kernels, KV_F16, sign * half_max, at, in_v));
                assert_true(stores(kernels, KV_F16, sign * rounds_to_max, at, in_v));
                assert_false(stores(kernels, KV_F16, sign * 65520.0f, at, in_v));
                assert_false(stores(kernels, KV_F16, sign * INFINITY, at, in_v));
                assert_true(stores(kernels, KV_F32, sign * 3e38f, at, in_v));
                assert_false(stores(kernels, KV_F32, sign * INFINITY, at, in_v));
            }
            assert_false(stores(kernels, KV_F16, NAN, at, in_v));
            assert_false(stores(kernels, KV_F32, NAN, at, in_v));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUNG_TEST(every_mask_is_within_rounding, check_wants_any),
        RUNG_TEST(bits_do_not_depend_on_company, check_wants_any),
        RUNG_TEST(parts_give_the_bits_of_the_whole, check_wants_parts),
        RUNG_TEST(great_heads, check_wants_any),
        TWIN_TEST(twins_give_the_same_bits),
        RUNG_TEST(stores_the_reference_bits, check_wants_any),
        RUNG_TEST(refuses_what_does_not_fit, check_wants_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
