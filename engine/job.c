/* The one thing a submitter may do to a job it does not own: ask for its end. */
#include "engine/job.h"

void job_cancel(struct job *job)
{
    atomic_store_explicit(&job->cancelled, true, memory_order_relaxed);
}
