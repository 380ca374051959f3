/* Plain text, one fact a line, sizes in MiB. */
#include "server/plan_text.h"

static void size_line(FILE *file, const char *name, uint64_t bytes, const char *note)
{
    fprintf(file, "  %-10s %10.1f MiB  %s\n", name, (double)bytes / (1024.0 * 1024.0), note);
}

void plan_text_model(FILE *file, const struct model_info *model)
{
    fprintf(file, "model %s: %s, %.1f M parameters, mostly %s, %.1f MiB\n", model->name,
        model->architecture, (double)model->parameters / 1e6, model->weights_type,
        (double)model->file_bytes / (1024.0 * 1024.0));
    fprintf(file,
        "  layers %d, width %d, heads %d (%d for keys and values) of %d, feed-forward %d\n"
        "  vocabulary %d, trained on a context of %d\n",
        model->layers, model->hidden, model->heads, model->heads_kv, model->head_dim, model->ffn,
        model->vocab, model->context_trained);
}

void plan_text_memory(FILE *file, const struct memory_plan *plan)
{
    char note[128];
    fprintf(file, "memory plan\n");
    size_line(file, "weights", plan->weights, "");
    snprintf(note, sizeof(note), "%d pages of %d tokens, %s, context %d, %d kept for reuse",
        plan->pages, plan->page_slots, plan->kv_f32 ? "f32" : "f16", plan->context,
        plan->reuse_pages);
    size_line(file, "cache", plan->cache, note);
    snprintf(note, sizeof(note), "%d pages of one layer, for texts that only become vectors",
        plan->one_shot_pages);
    size_line(file, "one-shot", plan->one_shot, note);
    snprintf(note, sizeof(note), "%d threads, %d rows a step, %s activations", plan->threads,
        plan->step_rows, plan->int8_activations ? "int8" : "f32");
    size_line(file, "scratch", plan->scratch, note);
    snprintf(note, sizeof(note), "%d jobs, %d sequences at once", plan->jobs_max, plan->sequences);
    size_line(file, "jobs", plan->jobs, note);
    size_line(file, "tokenizer", plan->tokenizer, "");
    size_line(file, "total", plan->total, "");
}
