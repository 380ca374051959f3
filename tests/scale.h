/*
 * How much slower this build is allowed to be than the plain one: sanitizers cost a factor of two
 * to twenty, an emulated CPU about ten. Tests multiply bounds on time by it, and may divide the
 * number of random rounds.
 */
#ifndef TESTS_SCALE_H
#define TESTS_SCALE_H

#include <stdlib.h>

static inline int test_scale(void)
{
    const char *text = getenv("MAGNETD_TEST_SCALE");
    int scale = text == NULL ? 1 : (int)strtol(text, NULL, 10);
    return scale > 0 ? scale : 1;
}

#endif
