/*
 * Goal: the mask rule (two integers and an order of slots) is hybrid attention as written.
 *
 * Method: the definition is small enough to try out whole. Over 12 positions every subset S may be
 * spans; the rest is the context C. Written out,
 *
 *     allow(i, j)  =  j in C,  or  i in S and j in S and order(j) <= order(i)
 *
 * where order is the order in which span tokens are decoded; left to right and right to left are
 * tried. Windows are compared with a brute-force scan over slots.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "engine/attn/mask.h"

enum { POSITIONS = 12 };

enum decode_order { LEFT_TO_RIGHT, RIGHT_TO_LEFT };

struct layout {
    int32_t context_count;
    int32_t position_of[POSITIONS]; /* by slot */
};

static bool is_span(uint32_t spans, int32_t position)
{
    return spans >> position & 1;
}

/* Slot order: context by position, then spans as they are decoded. */
static struct layout lay_out(uint32_t spans, enum decode_order order)
{
    struct layout layout = {0};
    int32_t slot = 0;
    for (int32_t p = 0; p < POSITIONS; p++) {
        if (!is_span(spans, p)) {
            layout.position_of[slot++] = p;
        }
    }
    layout.context_count = slot;
    for (int32_t i = 0; i < POSITIONS; i++) {
        const int32_t p = order == LEFT_TO_RIGHT ? i : POSITIONS - 1 - i;
        if (is_span(spans, p)) {
            layout.position_of[slot++] = p;
        }
    }
    return layout;
}

static bool allowed_by_definition(uint32_t spans, enum decode_order order, int32_t i, int32_t j)
{
    const bool earlier = order == LEFT_TO_RIGHT ? j <= i : j >= i;
    return !is_span(spans, j) || (is_span(spans, i) && earlier);
}

static bool within(const struct slot_interval *intervals, int32_t count, int32_t slot)
{
    for (int32_t i = 0; i < count; i++) {
        if (slot >= intervals[i].from && slot < intervals[i].to) {
            return true;
        }
    }
    return false;
}

static void check_spans(uint32_t spans, enum decode_order order)
{
    const struct layout layout = lay_out(spans, order);
    for (int32_t q = 0; q < POSITIONS; q++) {
        const int32_t visible = mask_visible(layout.context_count, q);
        struct slot_interval intervals[2];
        const int32_t count =
            mask_intervals(layout.context_count, q, NULL, REACH_ALL, REACH_ALL, intervals);
        assert_int_equal(count, 1);
        for (int32_t k = 0; k < POSITIONS; k++) {
            const bool want =
                allowed_by_definition(spans, order, layout.position_of[q], layout.position_of[k]);
            assert_int_equal(want, k < visible);
            assert_int_equal(want, within(intervals, count, k));
        }
    }
}

static void every_subset_of_spans_in_both_orders(void **state)
{
    (void)state;
    for (uint32_t spans = 0; spans < 1u << POSITIONS; spans++) {
        check_spans(spans, LEFT_TO_RIGHT);
        check_spans(spans, RIGHT_TO_LEFT);
    }
}

static void all_spans_is_causal_and_none_is_full(void **state)
{
    (void)state;
    for (int32_t q = 0; q < POSITIONS; q++) {
        assert_int_equal(mask_visible(0, q), q + 1);
        assert_int_equal(mask_visible(POSITIONS, q), POSITIONS);
    }
}

static void check_window(const struct layout *layout, int32_t left, int32_t right)
{
    for (int32_t q = 0; q < POSITIONS; q++) {
        struct slot_interval intervals[2];
        const int32_t count =
            mask_intervals(layout->context_count, q, layout->position_of, left, right, intervals);
        assert_in_range(count, 1, 2);
        assert_true(within(intervals, count, q));
        assert_true(count == 1 || intervals[0].to < intervals[1].from);
        for (int32_t k = 0; k < POSITIONS; k++) {
            const int64_t offset = (int64_t)layout->position_of[k] - layout->position_of[q];
            const bool want = k < mask_visible(layout->context_count, q) &&
                              offset >= -(int64_t)left && offset <= (int64_t)right;
            assert_int_equal(want, within(intervals, count, k));
        }
    }
}

static void windows_against_brute_force(void **state)
{
    (void)state;
    static const int32_t reaches[] = {0, 1, 2, 5, POSITIONS, REACH_ALL};
    for (uint32_t spans = 0; spans < 1u << POSITIONS; spans += 3) {
        const struct layout layout = lay_out(spans, LEFT_TO_RIGHT);
        for (size_t l = 0; l < sizeof reaches / sizeof *reaches; l++) {
            for (size_t r = 0; r < sizeof reaches / sizeof *reaches; r++) {
                check_window(&layout, reaches[l], reaches[r]);
            }
        }
    }
}

/* Several slots may share a position: a gap's tokens in GLM all stand at its mask. */
static void equal_positions_and_great_ones(void **state)
{
    (void)state;
    const int32_t positions[] = {0, 3, 3, 3, INT32_MAX - 1, 3, 3, INT32_MAX - 1};
    struct slot_interval intervals[2];
    assert_int_equal(mask_intervals(5, 6, positions, 0, 0, intervals), 2);
    assert_int_equal(intervals[0].from, 1);
    assert_int_equal(intervals[0].to, 4);
    assert_int_equal(intervals[1].from, 5);
    assert_int_equal(intervals[1].to, 7);
    assert_int_equal(mask_intervals(5, 7, positions, 1, REACH_ALL, intervals), 2);
    assert_int_equal(intervals[0].from, 4);
    assert_int_equal(intervals[0].to, 5);
    assert_int_equal(intervals[1].from, 7);
    assert_int_equal(intervals[1].to, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_subset_of_spans_in_both_orders),
        cmocka_unit_test(all_spans_is_causal_and_none_is_full),
        cmocka_unit_test(windows_against_brute_force),
        cmocka_unit_test(equal_positions_and_great_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
