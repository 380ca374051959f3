/* The end of a broken promise: say where on stderr without allocating or locking, then abort. */
#include "engine/base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void assert_failed(const char *file, int line, const char *condition)
{
    char text[512];
    (void)snprintf(text, sizeof text, "%s:%d: assertion failed: %s\n", file, line, condition);
    if (write(STDERR_FILENO, text, strlen(text)) < 0) {
        /* Nothing is left to tell it to. */
    }
    abort();
}
