/* Loops whose unrolling is part of the design: arrays of vectors become registers only when every
 * index is a constant. gcc and clang spell it differently. */
#ifndef ENGINE_KERNELS_UNROLL_H
#define ENGINE_KERNELS_UNROLL_H

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define UNROLL _Pragma("GCC unroll 16") /* no count is greater */
#define NO_UNROLL _Pragma("GCC unroll 1")
#endif

#endif
