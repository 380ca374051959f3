/*
 * The choice of mode rerank, on numbers alone: where candidates leave the greedy one, which
 * prefixes of candidates are worth scoring, and what a scored fill is worth. Private to api/.
 *
 * All three ask for the same number, as far as it is known: log p(fill, right | left). What
 * surprises: it is not divided by lengths. The right is the same for all fills of a gap, and a
 * longer fill must earn its tokens, since nothing else says how long the missing text is.
 */
#ifndef API_CHOICE_H
#define API_CHOICE_H

#include <stdint.h>

enum {
    CHOICE_SCORED = 8,        /* cuts that are scored: so many branches of forced tokens */
    CHOICE_SCORED_MAX = 16,   /* when so many answers are wanted */
    CHOICE_BRANCHES_MAX = 31, /* candidates besides the greedy one */
    CHOICE_ALTERNATIVES = 8,  /* tokens looked at where the greedy candidate may be left */
};

/* Behind `at` tokens of the greedy candidate another token. */
struct choice_branch {
    int32_t at, token;
    float logprob; /* of the token */
    double total;  /* log p of the `at` tokens and this one */
};

/* The most likely branches, best first; ties stay in the order they came in. */
struct choice_branches {
    struct choice_branch list[CHOICE_BRANCHES_MAX];
    int32_t count, count_max; /* count_max <= CHOICE_BRANCHES_MAX */
};

void choice_offer(struct choice_branches *branches, const struct choice_branch *branch);

/* A candidate's text, and where it may be cut. */
struct choice_candidate {
    const char *text;
    const int32_t *ends;   /* [to + 1] bytes of text of its first n tokens; -1: no cut there */
    const float *logprobs; /* [to] of its tokens */
    const float *firsts;   /* [to + 1] log p(right[0]) behind its first n tokens, n >= from */
    int32_t from, to;      /* cuts leave `from` to `to` tokens; none when to < from */
};

struct choice_cut {
    int32_t candidate, token_count;
};

/* The longest cut of candidate 0, which is what continuing the left alone would have given, and
 * then the cuts with the greatest log p(fill, right[0]), best first, no text twice. Ties go to the
 * earlier candidate, then to the shorter cut. Returns how many, at most `wanted`. */
int32_t choice_keep(const struct choice_candidate *candidates, int32_t count, int32_t wanted,
    struct choice_cut out_cuts[CHOICE_SCORED_MAX]);
/* log p(right) + log p(fill). */
float choice_score(const float *right, int32_t right_count, const float *fill, int32_t fill_count);

#endif
