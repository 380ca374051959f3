/*
 * A scripted engine and scripted endpoints behind the real headers, so that the server can be
 * tested without a model and with whatever timing a test wants. A request body says what happens:
 *
 *     {"tokens":5,"step_ms":20,"prompt_ms":100,"bytes":4,"stream":true,"timeout_ms":500,
 *      "reply_bytes":100000,"decode_ms":0,"fail":"non_finite","fail_after":2,"plan_fail":"context"}
 *
 * "jobs":3 makes a chain of three such jobs; "more_fail":"non_finite" breaks it after the first,
 * "more_ms":50 makes planning the next one slow. "alloc_fail":n makes the nth allocation from there
 * fail, whoever makes it.
 *
 * A job takes prompt_ms, then step_ms for each token of `bytes` letters; a cancel or deadline is
 * noticed only at the end of a step, as in the real engine. The model path "fake:load_ms=300"
 * makes loading slow, "fake:first_pass=fail" breaks the first forward pass.
 */
#ifndef TESTS_INTEGRATION_FAKE_FAKE_H
#define TESTS_INTEGRATION_FAKE_FAKE_H

#include "engine/types.h"

struct fake_script {
    struct plan_item item; /* first: the engine finds its script through plan.items */
    struct plan_step step;
    int32_t tokens, step_ms, prompt_ms, bytes, reply_bytes, fail_after;
    enum err fail;
    int32_t jobs, more_ms; /* jobs still to be made after this one */
    int32_t tokens_before; /* of the jobs before */
    enum err more_fail;
};

#endif
