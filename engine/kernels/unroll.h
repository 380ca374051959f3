/* Loops whose unrolling is part of the design: arrays of vectors become registers only when every
 * index is a constant. gcc and clang spell it differently. With a sanitizer's checks on every
 * access the unrolled bodies take minutes to compile, so there the loops stay: same sums. */
#ifndef ENGINE_KERNELS_UNROLL_H
#define ENGINE_KERNELS_UNROLL_H

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif

#if defined(SANITIZED)
#define UNROLL
#define NO_UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define UNROLL _Pragma("GCC unroll 16") /* no count is greater */
#define NO_UNROLL _Pragma("GCC unroll 1")
#endif

#endif
