/*
 * Assertions state our own promises and stay on in release builds. Bytes from a client or from a
 * model file never reach one: those get an error.
 */
#ifndef ENGINE_BASE_ASSERT_H
#define ENGINE_BASE_ASSERT_H

#include "engine/base/attr.h"

NORETURN void assert_failed(const char *file, int line, const char *condition);

#define ASSERT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            assert_failed(__FILE__, __LINE__, #condition);                                         \
        }                                                                                          \
    } while (0)

#endif
