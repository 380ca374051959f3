/*
 * The products of a decode step and nothing else: every matrix of the model times `rows` rows, in
 * the regions of a step, on the engine's threads. What a step does between them (attention, norms,
 * rotation, sampling, waiting for each other) is then the difference to the engine's own rate.
 */
#ifndef TESTS_BENCH_PRODUCTS_H
#define TESTS_BENCH_PRODUCTS_H

#include "engine/base/threads.h"
#include "engine/engine.h"

struct products;

/* Loads the model that `config` names a second time. Exits with a message where that fails. */
struct products *products_open(const struct engine_config *config, int32_t rows_max);
void products_close(struct products *products);
/* One step's products with `rows` rows, at most rows_max. */
void products_step(struct products *products, int32_t rows);

#endif
