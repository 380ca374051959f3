/* What the loop waits for; private to the front. */
#ifndef SERVER_LOOP_H
#define SERVER_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct http;

enum loop_tag { LOOP_LISTENER, LOOP_FRONT, LOOP_WAKE, LOOP_WATCHER, LOOP_SIGNAL, LOOP_REFUSAL };

/* Wakes the loop when fd becomes readable, until loop_remove. */
bool loop_add(struct http *http, int fd, enum loop_tag tag, uint32_t index);
void loop_remove(struct http *http, int fd);

#endif
