/* Plain text, one fact a line, sizes in MiB. */
#include "server/plan_text.h"

#include <string.h>
#include "engine/base/utf8.h"
#include "engine/template/chat_template.h"
#include "engine/text/tokenizer.h"

const char *plan_text_pooling(enum pooling pooling)
{
    switch (pooling) {
    case POOLING_MEAN:
        return "mean";
    case POOLING_CLS:
        return "cls";
    case POOLING_LAST:
        return "last";
    case POOLING_EOS:
        return "eos";
    case POOLING_WEIGHTED_MEAN:
        return "weighted_mean";
    case POOLING_NONE:
        break;
    }
    return "none";
}

const char *plan_text_attention(enum attention attention)
{
    return attention == ATTENTION_CAUSAL ? "causal" : "bidirectional";
}

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

static void token_line(
    FILE *file, const char *name, const struct tokenizer *tokenizer, const int32_t *ids, int count)
{
    fprintf(file, "  %s", name);
    for (int i = 0; i < count; i++) {
        fprintf(file, " %d %s%s", ids[i], tokenizer_stored_piece(tokenizer, ids[i]),
            i + 1 < count ? "," : "");
    }
    fprintf(file, "%s\n", count == 0 ? " none" : "");
}

void plan_text_tokenizer(FILE *file, const struct tokenizer *tokenizer)
{
    const bool adds[] = {tokenizer_adds_bos(tokenizer), tokenizer_adds_eos(tokenizer)};
    const int32_t around[] = {
        tokenizer_special(tokenizer, TOKEN_BOS), tokenizer_special(tokenizer, TOKEN_EOS)};
    int32_t ends[LIMIT_END_TOKENS];
    fprintf(file, "tokenizer %d tokens\n", tokenizer_vocab(tokenizer));
    token_line(file, "before a text", tokenizer, &around[0], adds[0] && around[0] >= 0);
    token_line(file, "behind a text", tokenizer, &around[1], adds[1] && around[1] >= 0);
    token_line(file, "ends of an answer", tokenizer, ends, tokenizer_ends(tokenizer, ends));
}

void plan_text_chat(FILE *file, const struct chat_template *template)
{
    const char *refusal = template == NULL ? NULL : chat_template_refusal(template);
    if (refusal != NULL) {
        fprintf(file, "chat template refused, the model serves without it: %s\n", refusal);
    } else {
        fprintf(file, "chat template %s\n", template == NULL ? "none" : "read");
    }
}

const char *plan_text_kind(enum kind kind)
{
    static const char *const words[KIND_COUNT] = {
#define X(name, word) [KIND_##name] = word,
        KIND_MAP(X)
#undef X
    };
    return words[kind];
}

void plan_text_shown(FILE *file, const char *text)
{
    const char *const end = text + strlen(text);
    while (text < end) {
        int32_t code = -1;
        const int32_t count = utf8_decode(text, (size_t)(end - text), &code);
        const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
        (void)fwrite(control ? "?" : text, 1, control ? 1 : (size_t)count, file);
        text += count;
    }
}

static void adapter_lines(FILE *file, const struct model_info *model)
{
    const struct stack_table *table = &model->stack_table;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        if (table->both_ways[kind] == 0) {
            continue;
        }
        const struct stack *stack = &model->stacks[table->both_ways[kind] - 1];
        fprintf(file, "  adapters of %s%s:", plan_text_kind((enum kind)kind),
            table->causal[kind] == 0 ? ", where rows see each other" : "");
        for (int32_t i = 0; i < stack->count; i++) {
            fputs(i == 0 ? " " : ", ", file);
            plan_text_shown(file, model->adapters[stack->adapters[i]]);
        }
        fprintf(file, "\n");
    }
}

void plan_text_profile(FILE *file, const struct model_info *model)
{
    static const char *const infill[] = {
#define X(name, word) [INFILL_##name] = word,
        INFILL_MODE_MAP(X)
#undef X
    };
    fprintf(file, "profile%s%s%s%s\n", model->can_generate ? " generate" : "",
        model->can_embed ? " embed" : "", model->can_infill ? " infill" : "",
        model->can_classify ? " classify" : "");
    if (model->can_embed) {
        fprintf(file, "  vectors of %d, %s, pooled by %s%s%s%s\n", model->vector,
            plan_text_attention(model->embed_attention), plan_text_pooling(model->embed_pooling),
            model->pool_skip_instruction ? " without the instruction" : "",
            model->dense_widest > 0 ? ", dense head" : "", model->vector_norm ? ", normed" : "");
    }
    for (int32_t i = 0; i < model->prompt_count; i++) {
        fputs(i == 0 ? "  prompts " : ", ", file);
        plan_text_shown(file, model->prompts[i].name);
    }
    if (model->default_prompt[0] != '\0') {
        fputs(", by default ", file);
        plan_text_shown(file, model->default_prompt);
    }
    fprintf(file, "%s", model->prompt_count > 0 ? "\n" : "");
    for (int32_t i = 0; model->can_infill && i < model->infill_mode_count; i++) {
        fprintf(file, "%s%s", i == 0 ? "  gaps by " : ", ", infill[model->infill_modes[i]]);
    }
    fprintf(file, "%s", model->can_infill ? "\n" : "");
    adapter_lines(file, model);
    if (model->can_classify) {
        fprintf(file, "  moderation %s, %scalibrated\n", model->moderation_profile,
            model->calibrated ? "" : "not ");
    }
}

void plan_text_memory(FILE *file, const struct memory_plan *plan)
{
    char note[128];
    fprintf(file, "memory plan\n");
    size_line(file, "weights", plan->weights, "");
    if (plan->adapters > 0) {
        size_line(file, "adapters", plan->adapters, "f32, beside the weights");
    }
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
