/*
 * Text around one gap, cut to what fits, and the prompt that fill-in-the-middle models want:
 *
 *     psm              BOS  extra files  PRE prefix SUF suffix MID
 *     spm              BOS  extra files  PRE SUF suffix MID prefix
 *     spm, Seed-Coder  BOS  extra files  SUF suffix PRE prefix MID
 *     spm, Codestral   BOS  extra files  SUF suffix PRE prefix
 *
 * Special tokens go in by id; texts are tokenized without specials. What CodeLlama's own code does
 * to a suffix, encoding it behind a character of its own and dropping that again, is the same as
 * encoding it without a space prefix, which is done for every family. (Bavarian et al., "Efficient
 * Training of Language Models to Fill in the Middle", arXiv 2207.14255.)
 */
#ifndef API_FIM_H
#define API_FIM_H

#include "api/call.h"

struct fim_texts {
    struct bound_text prefix; /* what stands before the gap */
    struct bound_text suffix;
    struct bound_text after_mid; /* put after MID: the beginning of the fill */
    const struct infill_request_input_extra_item *extra;
    int32_t extra_count;
    struct bound_text repo, filename; /* empty = none */
};

/* The same in tokens, cut at the far ends. */
struct fim_ids {
    struct call_ids extra, prefix, suffix, after_mid;
    bool truncated;
};

/* Tokens the texts may take: `context` less a share for the answer. */
int64_t fim_room(const struct call *call, int64_t budget);
/* The window is min(2048, room): three quarters for the prefix, which keeps its end, one quarter
 * for the suffix, which keeps its start; a share one side does not use goes to the other. Extra
 * files get the rest of the room: whole oldest ones are dropped before one is cut at its front. */
MUST_USE enum err fim_window(struct call *call, const struct fim_texts *texts, int64_t room,
    struct fim_ids *out_ids, struct err_info *info);
enum fim_layout { FIM_LAYOUT_PSM, FIM_LAYOUT_SPM, FIM_LAYOUT_SEED, FIM_LAYOUT_CODESTRAL };

/* The layout of the request's fim_order, or of the vocabulary's family. ERR_NOT_CAPABLE at
 * /fim_order for an order in which the family was never trained. */
MUST_USE enum err fim_layout(
    const struct call *call, enum fim_layout *out_layout, struct err_info *info);
MUST_USE enum err fim_prompt(struct call *call, const struct fim_ids *ids, enum fim_layout layout,
    struct call_ids *out_prompt, struct err_info *info);
/* What ends a fill besides the model's ends: every FIM token, the file separator, and what the
 * families call their end. */
int32_t fim_stop_tokens(const struct tokenizer *tokenizer, int32_t out[LIMIT_STOP_TOKENS]);

#endif
