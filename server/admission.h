/*
 * Whether a request is let in, decided from its head alone, in a fixed order: audit, route and
 * method, life cycle, room in the queue, size of the body, all bodies together, media types. So an
 * overloaded or stopping server refuses before it has read or parsed a byte of the body.
 */
#ifndef SERVER_ADMISSION_H
#define SERVER_ADMISSION_H

#include "server/app.h"

/* Sets request->route and family; on refusal also the reply. */
void admission_check(struct app *app, struct request *request, const struct head *head);
/* Whole seconds, 1-60, from the tokens waiting and the engine's recent speed. */
int admission_retry_after_s(struct app *app);
/* 429 with Retry-After. */
void admission_refuse_busy(struct app *app, struct request *request);

#endif
