/* Checked size arithmetic: every size computed from a file or a request goes through here.
 * Each function writes its result and returns true, or returns false on overflow. */
#ifndef ENGINE_BASE_CHECKED_H
#define ENGINE_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/attr.h"

MUST_USE static inline bool checked_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

MUST_USE static inline bool checked_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Rounds up to a multiple of `alignment`, a power of two. */
MUST_USE static inline bool checked_align(size_t value, size_t alignment, size_t *out)
{
    size_t sum;
    if (!checked_add(value, alignment - 1, &sum)) {
        return false;
    }
    *out = sum & ~(alignment - 1);
    return true;
}

#endif
