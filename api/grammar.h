/*
 * What a request says of the form of its output, made into a grammar of the engine
 * (docs/constrained.md). Private to api/.
 */
#ifndef API_GRAMMAR_H
#define API_GRAMMAR_H

#include "api/call.h"
#include "engine/sample/grammar_build.h"

/* ERR_UNSUPPORTED_FIELD and ERR_INVALID say at which byte of the expression; ERR_LIMIT. */
MUST_USE enum err grammar_of_regex(struct call *call, const struct bound_text *pattern,
    const char *where, const struct grammar **out_grammar, struct err_info *info);
/* One of the texts, none of which is empty. */
MUST_USE enum err grammar_of_choices(struct call *call, const struct bound_texts *choices,
    const char *where, const struct grammar **out_grammar, struct err_info *info);
/* Any object of JSON. */
MUST_USE enum err grammar_of_any_object(struct call *call, const char *where,
    const struct grammar **out_grammar, struct err_info *info);

/* A value of JSON that a schema, itself a text of JSON, takes. Errors name the keyword. */
MUST_USE enum err grammar_of_schema(struct call *call, const struct bound_text *schema,
    const char *where, const struct grammar **out_grammar, struct err_info *info);

/* An expression as a part of a grammar: from a state to a state, as bytes, or as what stands
 * between the quotes of a string of JSON. Errors name the byte in info->offset. */
enum grammar_spelling { GRAMMAR_PLAIN, GRAMMAR_IN_STRING };
MUST_USE enum err grammar_regex(struct grammar_builder *builder, const char *pattern, size_t bytes,
    enum grammar_spelling spelling, int32_t from, int32_t *out_to, struct err_info *info);

/* Parts of JSON: from a state to the one behind. */
int32_t grammar_json_string(struct grammar_builder *builder, int32_t from);
int32_t grammar_json_integer(struct grammar_builder *builder, int32_t from);
/* Up to 15 digits. */
void grammar_json_integer_between(
    struct grammar_builder *builder, int32_t from, int64_t low, int64_t high, int32_t to);
int32_t grammar_json_number(struct grammar_builder *builder, int32_t from);
/* Any value within brackets: entry of a rule, made once. */
int32_t grammar_json_value(struct grammar_builder *builder);
/* `,` or `:` and at most one space. */
int32_t grammar_json_mark(struct grammar_builder *builder, int32_t from, char mark);
/* One character between quotes. */
void grammar_json_character(struct grammar_builder *builder, int32_t from, int32_t to);
/* {"any key": entry, ...} and [entry, ...], from a state to a state. */
void grammar_json_map(struct grammar_builder *builder, int32_t from, int32_t entry, int32_t to);
void grammar_json_list(struct grammar_builder *builder, int32_t from, int32_t entry, int32_t to);

/* Finishes into the call's arena; errors name `where`. */
MUST_USE enum err grammar_close(struct call *call, struct grammar_builder *builder, int32_t start,
    const char *where, const struct grammar **out_grammar, struct err_info *info);

#endif
