/*
 * The one handler of every compute endpoint (and of the direct ones): body to task, task to
 * worker and engine, results to reply or stream. What an endpoint means is in api/; that the
 * client may leave, the deadline pass or the stream be full at any moment is here.
 */
#ifndef SERVER_HANDLE_COMPUTE_H
#define SERVER_HANDLE_COMPUTE_H

#include "server/app.h"

/* The body is whole: start. */
void handle_compute_body(struct app *app, struct request *request);
/* The stream has room: take events from the job. */
void handle_compute_fill(struct app *app, struct request *request);
/* Nobody wants the answer any more. Without a task nothing happens. */
void handle_compute_drop(struct app *app, struct request *request);
/* News of workers and of the engine. */
void handle_compute_wake(struct app *app);

#endif
