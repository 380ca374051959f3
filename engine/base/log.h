/*
 * Log lines as JSON objects on stderr through one writer thread. A call formats into a bounded
 * ring and returns; when the ring is full the line is dropped and counted. Before log_open and
 * after log_close lines are written directly. Never pass text of users or keys.
 */
#ifndef ENGINE_BASE_LOG_H
#define ENGINE_BASE_LOG_H

#include <stdint.h>
#include "engine/base/attr.h"
#include "engine/base/err.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

MUST_USE enum err log_open(enum log_level level);
void log_close(void); /* writes out what is waiting */
void log_text(enum log_level level, const char *area, const char *format, ...) PRINTF_LIKE(3, 4);
/* One prepared JSON object without its newline, e.g. an access-log line. */
void log_json(enum log_level level, const char *json, uint32_t count);
uint64_t log_dropped(void);

#endif
