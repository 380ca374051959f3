/*
 * Pages for sequences (see memory.h). The decision that surprises: sharing within a job (n samples,
 * many questions about one text, independent gaps) is no case of its own. An item whose beginning a
 * running sequence is about to store waits for that sequence, then finds the beginning in the reuse
 * store like everybody else.
 */
#include "engine/sched/memory.h"

#include <string.h>
#include "engine/base/assert.h"
#include "engine/plan_check.h"
#include "engine/sched/scheduler_private.h"

/* Rows worth waiting for: about what a step carries of a prompt beside decodes. */
enum { WAIT_ROWS = 16 };

static struct reuse_key key_of(const struct seq *seq)
{
    struct reuse_key key = {.context_count = seq->item->context_count, .stack = seq->stack};
    memcpy(key.salt, seq->job->plan.cache_salt, sizeof key.salt);
    return key;
}

static struct slot_list first_slots(const struct seq *seq, int32_t count)
{
    return (struct slot_list){
        .tokens = seq->tokens, .positions = seq->slots.positions, .count = count};
}

static bool runs(const struct seq *seq)
{
    return seq->job != NULL && !seq->paused;
}

static bool uses_cache(const struct scheduler *scheduler, const struct seq *seq)
{
    return seq->slots.pages == scheduler->config.pages;
}

static int32_t pages_for(const struct seq *seq, int32_t slots)
{
    int32_t page_slots = seq->slots.pages->page_slots;
    return (slots + page_slots - 1) / page_slots;
}

/* Slots a sequence should hold pages for while it may still grow. */
static int32_t slots_wanted(const struct scheduler *scheduler, const struct seq *seq)
{
    int64_t wanted = (int64_t)seq->slot_count + scheduler->config.reserve_tokens;
    return (int32_t)MIN(wanted, seq->slots_max);
}

bool memory_suffices(const struct seq *seq)
{
    return seq->slots.page_count >= pages_for(seq, seq->slot_count);
}

/* Rows it may take from the store: those of the prompt, or those it had before preemption. */
static int32_t reuse_limit(const struct seq *seq)
{
    return seq->job->plan.cache_off ? 0 : MAX(seq_reuse_limit(seq), seq->taken);
}

/* ---- taking pages -------------------------------------------------------------------------- */

static bool hold(struct scheduler *scheduler, struct seq *seq, int32_t slots)
{
    while (!slots_hold(&seq->slots, slots)) {
        if (!reuse_evict(&scheduler->reuse)) {
            return false;
        }
    }
    return true;
}

/* Pages that running sequences have yet to take to be where slots_wanted has them. Leaving them
 * free keeps a newcomer from being preempted at once. */
static int32_t pages_promised(const struct scheduler *scheduler)
{
    int32_t count = 0;
    for (int32_t i = 0; i < scheduler->config.sequences; i++) {
        const struct seq *seq = &scheduler->seqs[i];
        if (runs(seq)) {
            int32_t wanted = pages_for(seq, slots_wanted(scheduler, seq));
            count += MAX(wanted - seq->slots.page_count, 0);
        }
    }
    return count;
}

/* Takes what the store has and pages for the rest; without room it holds nothing again. The
 * sequence itself counts among those that pages are promised to. */
static bool try_pages(struct scheduler *scheduler, struct seq *seq, int32_t *out_reused)
{
    struct reuse_key key = key_of(seq);
    struct slot_list list = first_slots(seq, reuse_limit(seq));
    struct pages *pages = scheduler->config.pages;
    int32_t found = reuse_find(&scheduler->reuse, &key, &list) / pages->page_slots;
    if (pages_promised(scheduler) - found > pages->free_count + reuse_idle(&scheduler->reuse)) {
        return false; /* before a page is copied, or evicted for the copy */
    }
    *out_reused = reuse_take(&scheduler->reuse, &key, &list, &seq->slots);
    if (pages_promised(scheduler) > pages->free_count + reuse_idle(&scheduler->reuse)) {
        slots_release(&seq->slots);
        return false;
    }
    bool held = hold(scheduler, seq, slots_wanted(scheduler, seq));
    ASSERT(held);
    return true;
}

/* ---- sharing and ending -------------------------------------------------------------------- */

void memory_share(struct scheduler *scheduler, struct seq *seq)
{
    if (seq->err != ERR_OK || seq->job->plan.cache_off || !seq_shares(seq)) {
        return;
    }
    struct reuse_key key = key_of(seq);
    struct slot_list list = first_slots(seq, seq->stored);
    reuse_keep(&scheduler->reuse, &key, &list, &seq->slots);
}

void memory_release(struct scheduler *scheduler, struct seq *seq)
{
    if (seq->park != NULL) {
        seq->park->owner = NULL;
        seq->park = NULL;
    }
    memory_share(scheduler, seq);
    slots_release(&seq->slots);
    reuse_trim(&scheduler->reuse);
}

/* ---- preemption ---------------------------------------------------------------------------- */

static void preempt(struct scheduler *scheduler, struct seq *seq)
{
    memory_release(scheduler, seq);
    seq_detach(seq);
    seq->paused = true;
    scheduler->counters.preemptions++;
}

/* The oldest sequence with pages of the cache that runs and is not held up by its client. */
static struct seq *oldest_runner(struct scheduler *scheduler)
{
    struct seq *oldest = NULL;
    for (int32_t i = 0; i < scheduler->config.sequences; i++) {
        struct seq *seq = &scheduler->seqs[i];
        if (runs(seq) && uses_cache(scheduler, seq) && !seq_blocked(seq) &&
            (oldest == NULL || seq->age < oldest->age)) {
            oldest = seq;
        }
    }
    return oldest;
}

/* It has nothing to do before its client has read. An item of such a stream whose prompt is not
 * computed is none: it may have been promised rows in this step. */
static bool waits_for_client(const struct scheduler *scheduler, struct seq *seq)
{
    return seq_next(seq, &scheduler->config.tools) == SEQ_WAITS;
}

/* Whether a is the better one to preempt: waits for its client, is of a lower class, or else
 * started later. */
static bool gives_way_before(const struct scheduler *scheduler, struct seq *a, struct seq *b)
{
    enum service_class class_a = a->job->place.service_class;
    enum service_class class_b = b->job->place.service_class;
    bool waits = waits_for_client(scheduler, a);
    if (waits != waits_for_client(scheduler, b)) {
        return waits;
    }
    if (class_a != class_b) {
        return class_a > class_b;
    }
    return a->age > b->age;
}

/* Who gives way to the others, `kept` and whoever has rows in this step excepted; NULL when nobody
 * else holds pages. */
static struct seq *choose_victim(struct scheduler *scheduler, const struct seq *kept)
{
    struct seq *victim = NULL;
    for (int32_t i = 0; i < scheduler->config.sequences; i++) {
        struct seq *seq = &scheduler->seqs[i];
        if (runs(seq) && uses_cache(scheduler, seq) && seq != kept && !seq->chosen &&
            seq->slots.page_count > 0 &&
            (victim == NULL || gives_way_before(scheduler, seq, victim))) {
            victim = seq;
        }
    }
    return victim;
}

/* Pages for a sequence that holds none. Running sequences keep theirs, unless they wait for their
 * clients: nobody waits for a client but its own request. */
static bool take_pages(struct scheduler *scheduler, struct seq *seq, int32_t *out_reused)
{
    while (!try_pages(scheduler, seq, out_reused)) {
        struct seq *victim = choose_victim(scheduler, seq);
        if (victim == NULL || !waits_for_client(scheduler, victim)) {
            return false;
        }
        preempt(scheduler, victim);
    }
    return true;
}

/* ---- starting ------------------------------------------------------------------------------ */

/* Leading slots that two sequences have in common. */
static int32_t common_slots(const struct seq *a, const struct seq *b, int32_t limit)
{
    int32_t count = 0;
    while (count < limit && a->tokens[count] == b->tokens[count] &&
           a->slots.positions[count] == b->slots.positions[count]) {
        count++;
    }
    return count;
}

/* Whether `first` is computing at least WAIT_ROWS rows that `seq` could take from it, beyond the
 * `known` ones. Nobody waits for whom a lower class serves. */
static bool worth_waiting_for(const struct seq *first, const struct seq *seq, int32_t known)
{
    struct reuse_key a = key_of(first), b = key_of(seq);
    if (first->job->place.service_class > seq->job->place.service_class || first->err != ERR_OK ||
        first->job->plan.cache_off || !seq_shares(first) ||
        first->stored >= seq_prompt_count(first) || !reuse_same_key(&a, &b)) {
        return false;
    }
    int32_t limit = MIN(reuse_limit(seq), seq_prompt_count(first));
    if (limit < known + WAIT_ROWS) {
        return false;
    }
    int32_t common = common_slots(first, seq, limit);
    return common >= known + WAIT_ROWS && common >= a.context_count;
}

/* Waiting is bounded: only for sequences that ran when it began, each of which stores its prompt,
 * ends or is preempted. */
static bool prefix_is_coming(struct scheduler *scheduler, const struct seq *seq)
{
    struct job *job = seq->job;
    if (scheduler->reuse.capacity == 0 || reuse_limit(seq) < WAIT_ROWS) {
        return false;
    }
    struct reuse_key key = key_of(seq);
    struct slot_list list = first_slots(seq, reuse_limit(seq));
    uint64_t age = job->place.wait_age != 0 ? job->place.wait_age : scheduler->age + 1;
    int32_t known = -1;
    for (int32_t i = 0; i < scheduler->config.sequences; i++) {
        const struct seq *first = &scheduler->seqs[i];
        if (first == seq || !runs(first) || first->age >= age ||
            !worth_waiting_for(first, seq, MAX(known, 0))) {
            continue;
        }
        known = known >= 0 ? known : reuse_find(&scheduler->reuse, &key, &list);
        if (worth_waiting_for(first, seq, known)) {
            job->place.wait_age = age;
            return true;
        }
    }
    return false;
}

static void count_reuse(struct scheduler *scheduler, struct seq *seq)
{
    if (scheduler->reuse.capacity == 0 || reuse_limit(seq) == 0) {
        return;
    }
    struct sched_counters *counters = &scheduler->counters;
    enum reuse_store store = seq->item->context_count > 0 ? REUSE_CONTEXT : REUSE_PREFIX;
    counters->reuse_hits[store] += seq->cached > 0;
    counters->reuse_misses[store] += seq->cached == 0;
    int32_t again = 0;
    for (int32_t index = seq->reread; seq_reread(seq, &index) >= 0;) {
        again++;
    }
    seq->result->cached_tokens = MAX(seq->cached - again, 0);
    counters->cached_tokens[seq->job->plan.kind] += (uint64_t)seq->result->cached_tokens;
}

/* A causal text could also run bit by bit, and from a beginning that is kept. */
static bool is_one_shot(const struct scheduler *scheduler, const struct seq *seq, bool whole)
{
    if (plan_item_one_shot(seq->item)) {
        return true;
    }
    struct reuse_key key = key_of(seq);
    struct slot_list list = first_slots(seq, reuse_limit(seq));
    return whole && seq->item->context_count == 0 && plan_item_vectors(seq->item) &&
           reuse_find(&scheduler->reuse, &key, &list) == 0;
}

enum memory_start memory_start(struct scheduler *scheduler, struct seq *seq, bool whole)
{
    int32_t reused = 0;
    if (is_one_shot(scheduler, seq, whole)) {
        slots_use(&seq->slots, &scheduler->one_shot);
        bool held = slots_hold(&seq->slots, seq->slot_count);
        ASSERT(held);
        seq->job->place.wait_age = 0;
        seq->age = ++scheduler->age;
        return MEMORY_STARTED;
    }
    slots_use(&seq->slots, scheduler->config.pages);
    if (!scheduler->resumed) {
        return MEMORY_NO_PAGES;
    }
    if (prefix_is_coming(scheduler, seq)) {
        return MEMORY_PREFIXED;
    }
    if (!take_pages(scheduler, seq, &reused)) {
        return MEMORY_NO_PAGES;
    }
    seq->job->place.wait_age = 0;
    seq->age = ++scheduler->age;
    seq_attach(seq, reused);
    count_reuse(scheduler, seq);
    return MEMORY_STARTED;
}

/* ---- growing and resuming ------------------------------------------------------------------ */

static struct seq *oldest_in_need(struct scheduler *scheduler)
{
    struct seq *oldest = NULL;
    for (int32_t i = 0; i < scheduler->config.sequences; i++) {
        struct seq *seq = &scheduler->seqs[i];
        if (runs(seq) && seq_next(seq, &scheduler->config.tools) == SEQ_ROWS &&
            !memory_suffices(seq) && (oldest == NULL || seq->age < oldest->age)) {
            oldest = seq;
        }
    }
    return oldest;
}

void memory_grow(struct scheduler *scheduler)
{
    struct seq *seq;
    while ((seq = oldest_in_need(scheduler)) != NULL) {
        while (!seq->paused && !hold(scheduler, seq, seq->slot_count)) {
            struct seq *victim = choose_victim(scheduler, oldest_runner(scheduler));
            ASSERT(victim != NULL); /* else the oldest held everything, and still too little */
            preempt(scheduler, victim);
        }
    }
}

static struct seq *oldest_paused(struct scheduler *scheduler)
{
    struct seq *oldest = NULL;
    for (int32_t i = 0; i < scheduler->config.sequences; i++) {
        struct seq *seq = &scheduler->seqs[i];
        if (seq->job != NULL && seq->paused && !seq_blocked(seq) &&
            (oldest == NULL || seq->age < oldest->age)) {
            oldest = seq;
        }
    }
    return oldest;
}

bool memory_resume(struct scheduler *scheduler)
{
    struct seq *seq;
    while ((seq = oldest_paused(scheduler)) != NULL) {
        int32_t reused = 0;
        seq->paused = false; /* pages are promised to it as to everyone who runs */
        if (!take_pages(scheduler, seq, &reused)) {
            seq->paused = true;
            return false;
        }
        seq_attach(seq, reused);
    }
    return true;
}
