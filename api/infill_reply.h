/*
 * The reply of llama.cpp's form of /infill, member by member, so that `response_fields` can pick
 * any of them. Private to api/.
 */
#ifndef API_INFILL_REPLY_H
#define API_INFILL_REPLY_H

#include "api/rerank.h"

struct infill_llama_notes {
    enum infill_mode mode;
    struct call_ids prompt; /* what was fed, in slot order */
    bool truncated;
    int32_t answers;          /* n_cmpl */
    struct call_ids space;    /* the space that was moved into the gap; none = nothing was */
    struct rerank_gap rerank; /* in that mode */
    /* Streams: bytes of text already sent; whether n_indent has ended the text. */
    size_t sent;
    bool cut;
};

/* How many answers there are. */
int32_t infill_reply_count(const struct infill_llama_notes *notes, const struct job *job);
/* Answer `index` as one object; `stream` = the last frame, whose content was sent before. */
MUST_USE enum err infill_reply_write(struct call *call, const struct job *job, int32_t index,
    bool stream, struct json_out *out, struct err_info *info);
/* What filled the gap in answer `index`. */
struct infill_fill infill_reply_fill(
    const struct infill_llama_notes *notes, const struct job *job, int32_t index);
/* Answers begin with a token that begins with a space, which is the prefix's and not shown. */
bool infill_reply_spaced(const struct infill_llama_notes *notes);
/* Bytes of text that may be shown: all, or up to the first line after the first that is indented by
 * fewer than n_indent columns. Unless the text has ended, the blank beginning of a last line is
 * held back. *out_cut says whether such a line was met. */
size_t infill_reply_visible(
    const char *text, size_t bytes, int32_t n_indent, bool ended, bool *out_cut);

#endif
