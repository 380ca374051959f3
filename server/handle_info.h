/* GET /info: what is loaded and what it can do. Never a file's path. */
#ifndef SERVER_HANDLE_INFO_H
#define SERVER_HANDLE_INFO_H

#include "server/app.h"

void handle_info(struct app *app, struct request *request);

#endif
