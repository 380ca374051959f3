/*
 * The choice of mode rerank, on numbers alone: which prefixes of the candidates are worth scoring,
 * and what a scored fill is worth. Private to api/.
 */
#ifndef API_CHOICE_H
#define API_CHOICE_H

#include <stdint.h>

enum {
    CHOICE_KEPT = 16,  /* cuts that are scored: so many branches of R forced tokens in one batch */
    CHOICE_OF_ONE = 3, /* of one candidate: its neighbouring cuts differ by little */
};

/* A candidate's text, and where it may be cut. */
struct choice_candidate {
    const char *text;
    const int32_t *ends; /* [to + 1] bytes of text of its first n tokens; -1: no cut there */
    const float *firsts; /* [to + 1] log p(right[0]) behind its first n tokens */
    int32_t from, to;    /* cuts leave `from` to `to` tokens; none when to < from */
};

struct choice_cut {
    int32_t candidate, token_count;
};

/* The cuts with the best first scores, best first, no text twice, at most CHOICE_OF_ONE of a
 * candidate. Ties go to the earlier candidate, then to the shorter cut. Returns how many. */
int32_t choice_keep(const struct choice_candidate *candidates, int32_t count,
    struct choice_cut out_cuts[CHOICE_KEPT]);
/* mean log p(right) + 0.3 mean log p(fill); the mean of no tokens is 0. */
float choice_score(const float *right, int32_t right_count, const float *fill, int32_t fill_count);

#endif
