/* Compiler attributes used across the project, under one spelling for gcc and clang. */
#ifndef ENGINE_BASE_ATTR_H
#define ENGINE_BASE_ATTR_H

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_index, first_index)                                                     \
    __attribute__((format(printf, format_index, first_index)))
#define NORETURN __attribute__((noreturn))

#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
