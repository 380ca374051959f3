/* Pages that tell what is loaded and what it can do. Never a file's path. */
#ifndef SERVER_HANDLE_INFO_H
#define SERVER_HANDLE_INFO_H

#include "server/app.h"

/* GET /v1/models and /v1/models/{id}; that the id is ours was checked before. */
void handle_models(struct app *app, struct request *request);
void handle_model(struct app *app, struct request *request);
void handle_info(struct app *app, struct request *request);
/* GET /props, as llama.cpp's server has it. */
void handle_props(struct app *app, struct request *request);

#endif
