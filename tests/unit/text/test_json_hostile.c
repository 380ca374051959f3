/*
 * Goal: no tokenizer.json makes a tokenizer that misbehaves: each broken or unsupported file is
 * refused within 100 ms a MiB with the place that is to blame; running out of memory is an error
 * wherever it happens; limits hold.
 * Method: four good files, one for each model, with one string replaced in each case; every
 * allocation made to fail once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "engine/base/attr.h"
#include "engine/base/mem.h"
#include "engine/text/normalizer.h"
#include "engine/text/splitter.h"
#include "engine/text/tokenizer_json.h"
#include "engine/text/trie.h"
#include "engine/text/vocab.h"
#include "tests/scale.h"

#define ADDED(id, content, special)                                                                \
    "{\"id\":" id ",\"content\":\"" content "\",\"single_word\":false,\"lstrip\":false,"           \
    "\"rstrip\":false,\"normalized\":false,\"special\":" special "}"
#define TEMPLATE                                                                                   \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"[C]\","              \
    "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[S]"  \
    "\","                                                                                          \
    "\"type_id\":0}}],\"pair\":[],\"special_tokens\":{\"[C]\":{\"id\":\"[C]\",\"ids\":[1],"        \
    "\"tokens\":[\"[C]\"]},\"[S]\":{\"id\":\"[S]\",\"ids\":[2],\"tokens\":[\"[S]\"]}}}"
#define FILE_OF(added, normalizer, pre, post, decoder, model)                                      \
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":" added            \
    ",\"normalizer\":" normalizer ",\"pre_tokenizer\":" pre ",\"post_processor\":" post            \
    ",\"decoder\":" decoder ",\"model\":" model "}"
#define SPECIALS                                                                                   \
    "[" ADDED("0", "[U]", "true") "," ADDED("1", "[C]", "true") "," ADDED("2", "[S]", "true") "]"

static const char WORDPIECE[] = FILE_OF(SPECIALS,
    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
    "\"strip_accents\":null,\"lowercase\":true}",
    "{\"type\":\"BertPreTokenizer\"}", TEMPLATE,
    "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
    "{\"type\":\"WordPiece\",\"unk_token\":\"[U]\",\"continuing_subword_prefix\":\"##\","
    "\"max_input_chars_per_word\":100,"
    "\"vocab\":{\"[U]\":0,\"[C]\":1,\"[S]\":2,\"a\":3,\"##b\":4,\"ab\":5}}");

static const char BYTE_BPE[] = FILE_OF("[" ADDED("3", "<e>", "true") "]", "null",
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"String\":\"x\"},"
    "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"Digits\",\"individual_digits\":true},"
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}]"
    "}",
    "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"}]}", "{\"type\":\"ByteLevel\"}",
    "{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
    "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":"
    "false,"
    "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[[\"a\",\"b\"]]}");

static const char CHAR_BPE[] = FILE_OF("[" ADDED("0", "<u>", "true") "]",
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\u2581\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}]}",
    "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"first\","
    "\"split\":false}",
    "{\"type\":\"RobertaProcessing\",\"sep\":[\"a\",1],\"cls\":[\"b\",2]}",
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\u2581\"}"
    ","
    "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}",
    "{\"type\":\"BPE\",\"unk_token\":\"<u>\",\"fuse_unk\":true,\"byte_fallback\":false,"
    "\"vocab\":{\"<u>\":0,\"a\":1,\"b\":2,\"ab\":3,\"\u2581\":4},\"merges\":[\"a b\"]}");

static const char UNIGRAM[] = FILE_OF("[" ADDED("0", "<u>", "true") "]",
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Precompiled\",\"precompiled_charsmap\":"
    "\"BAAAAAAAAAAA\"},{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true},"
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"}]}",
    "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"add_prefix_space\":true}", "null",
    "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"add_prefix_space\":true}",
    "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<u>\",0.0],[\"a\",-1.5],[\"\u2581\",-2]]}");

/* The text with the first `find` replaced; malloc'ed. */
static char *edited(const char *text, const char *find, const char *put)
{
    const char *at = strstr(text, find);
    assert_non_null(at);
    size_t size = strlen(text) + strlen(put) + 1;
    char *out = malloc(size);
    assert_non_null(out);
    snprintf(out, size, "%.*s%s%s", (int)(at - text), text, put, at + strlen(find));
    return out;
}

static struct tokenizer_json files_of(const char *text)
{
    return (struct tokenizer_json){.tokenizer = text, .tokenizer_bytes = strlen(text), .bos = -1};
}

static struct tokenizer *opened(const char *text)
{
    struct tokenizer_json files = files_of(text);
    struct tokenizer *tokenizer = NULL;
    struct err_info info = {0};
    if (tokenizer_open_json(&files, &tokenizer, &info) != ERR_OK) {
        printf("does not open: %s: %s\n", info.where, info.text);
        abort();
    }
    return tokenizer;
}

static void refused_files(const struct tokenizer_json *files, enum err code, const char *where)
{
    struct tokenizer *tokenizer = NULL;
    struct err_info info = {0};
    uint64_t held = mem_bytes(MEM_TOKENIZER);
    const clock_t from = clock(); /* whatever else runs */
    enum err err = tokenizer_open_json(files, &tokenizer, &info);
    const double ms = 1e3 * (double)(clock() - from) / CLOCKS_PER_SEC;
    if (err != code || strcmp(info.where, where) != 0) {
        printf("expected %d at %s, got %d at %s: %s\n", code, where, err, info.where, info.text);
    }
    assert_int_equal(err, code);
    assert_string_equal(info.where, where);
    assert_true(info.text[0] != '\0');
    assert_null(tokenizer);
    assert_int_equal(mem_bytes(MEM_TOKENIZER), held);
    const double mebibytes = 1 + (double)(files->tokenizer_bytes >> 20);
    assert_true(ms <= 100 * mebibytes * test_scale());
}

struct hostile {
    const char *find, *put;
    enum err code;
    const char *where; /* behind "tokenizer.json#"; "" where the JSON itself is broken */
};

static void check_cases(const char *good, const struct hostile *cases, size_t count)
{
    tokenizer_close(opened(good));
    for (size_t i = 0; i < count; i++) {
        char where[ERR_WHERE_BYTES];
        char *text = edited(good, cases[i].find, cases[i].put);
        struct tokenizer_json files = files_of(text);
        snprintf(where, sizeof(where), "tokenizer.json%s%s", cases[i].where[0] != '\0' ? "#" : "",
            cases[i].where);
        refused_files(&files, cases[i].code, where);
        free(text);
    }
}

#define SINGLE "\"single\":[{\"SpecialToken\":{\"id\":\"[C]\",\"type_id\":0}}"
static const struct hostile wordpiece_cases[] = {
    {"\"version\"", "\"versio\"", ERR_UNSUPPORTED, "/versio"},
    {"\"added_tokens\":[", "\"added_tokens\":[1,", ERR_FORMAT, "/added_tokens/0"},
    {"\"added_tokens\":", "\"added_tokens\":1,\"padding2\":", ERR_UNSUPPORTED, "/padding2"},
    {"\"id\":0,", "", ERR_FORMAT, "/added_tokens/0"},
    {"\"id\":0,", "\"id\":-1,", ERR_FORMAT, "/added_tokens/0/id"},
    {"\"id\":0,", "\"id\":2097152,", ERR_FORMAT, "/added_tokens/0/id"},
    {"\"id\":0,", "\"id\":0.5,", ERR_FORMAT, "/added_tokens/0/id"},
    {"\"id\":0,", "\"id\":3,", ERR_FORMAT, "/added_tokens/0"},
    {"\"id\":0,", "\"id\":7,", ERR_FORMAT, "/model"},
    {"\"added_tokens\":[", "\"added_tokens\":[" ADDED("0", "[U]", "false") ",", ERR_FORMAT,
        "/added_tokens/1"},
    {"\"content\":\"[U]\",", "\"content\":7,", ERR_FORMAT, "/added_tokens/0/content"},
    {"\"content\":\"[U]\",", "", ERR_FORMAT, "/added_tokens/0"},
    {"\"id\":0,\"content\":\"[U]\"", "\"id\":9,\"content\":\"\"", ERR_FORMAT, "/added_tokens/0"},
    {"\"lstrip\":false", "\"lstrip\":0", ERR_FORMAT, "/added_tokens/0/lstrip"},
    {"\"lstrip\":false", "\"ltrip\":false", ERR_UNSUPPORTED, "/added_tokens/0/ltrip"},
    {"\"BertNormalizer\"", "\"ByteLevel\"", ERR_UNSUPPORTED, "/normalizer"},
    {"\"BertNormalizer\"", "null", ERR_FORMAT, "/normalizer"},
    {"\"BertNormalizer\"", "1", ERR_FORMAT, "/normalizer/type"},
    {"\"clean_text\":true", "\"clean_text\":1", ERR_FORMAT, "/normalizer/clean_text"},
    {"\"clean_text\":true", "\"cleantext\":true", ERR_UNSUPPORTED, "/normalizer/cleantext"},
    {"\"strip_accents\":null", "\"strip_accents\":\"\"", ERR_FORMAT, "/normalizer/strip_accents"},
    {"\"lowercase\":true", "\"lowercase\":[]", ERR_FORMAT, "/normalizer/lowercase"},
    {"\"lowercase\":true", "\"a~/b\":1", ERR_UNSUPPORTED, "/normalizer/a~0~1b"},
    {"{\"type\":\"BertPreTokenizer\"}", "null", ERR_UNSUPPORTED, "/pre_tokenizer"},
    {"{\"type\":\"BertPreTokenizer\"}", "{}", ERR_FORMAT, "/pre_tokenizer"},
    {"{\"type\":\"BertPreTokenizer\"}", "[]", ERR_FORMAT, "/pre_tokenizer"},
    {"\"BertPreTokenizer\"", "\"UnicodeScripts\"", ERR_UNSUPPORTED, "/pre_tokenizer"},
    {"\"BertPreTokenizer\"", "\"BertPreTokenizer\",\"x\":1", ERR_UNSUPPORTED, "/pre_tokenizer/x"},
    {"\"BertPreTokenizer\"", "\"ByteLevel\"", ERR_UNSUPPORTED, "/model"},
    {"\"BertPreTokenizer\"", "\"Digits\"", ERR_UNSUPPORTED, "/pre_tokenizer"},
    {"\"TemplateProcessing\"", "\"Template\"", ERR_UNSUPPORTED, "/post_processor"},
    {SINGLE, "\"single\":1,\"x\":[1", ERR_FORMAT, "/post_processor/single"},
    {SINGLE, "\"single\":[null", ERR_FORMAT, "/post_processor/single/0"},
    {SINGLE, "\"single\":[{\"Other\":1}", ERR_UNSUPPORTED, "/post_processor/single/0/Other"},
    {SINGLE, "\"single\":[{\"SpecialToken\":1}", ERR_FORMAT,
        "/post_processor/single/0/SpecialToken"},
    {SINGLE, SINGLE ",{\"SpecialToken\":{\"id\":\"[C]\",\"type_id\":0}}", ERR_UNSUPPORTED,
        "/post_processor/single/1/SpecialToken"},
    {SINGLE, "\"single\":[{\"SpecialToken\":{\"id\":\"[X]\",\"type_id\":0}}", ERR_FORMAT,
        "/post_processor/special_tokens/[X]"},
    {"\"A\",\"type_id\":0", "\"A\",\"type_id\":1", ERR_UNSUPPORTED,
        "/post_processor/single/1/Sequence"},
    {"\"A\",\"type_id\":0", "\"B\",\"type_id\":0", ERR_UNSUPPORTED,
        "/post_processor/single/1/Sequence"},
    {"\"Sequence\":{\"id\":\"A\"", "\"SpecialToken\":{\"id\":\"[C]\"", ERR_UNSUPPORTED,
        "/post_processor/single/1/SpecialToken"},
    {"\"special_tokens\":{", "\"special_tokens\":1,\"x\":{", ERR_FORMAT,
        "/post_processor/special_tokens"},
    {"\"ids\":[1]", "\"ids\":[1,2]", ERR_UNSUPPORTED, "/post_processor/special_tokens/[C]/ids"},
    {"\"ids\":[1]", "\"ids\":[6]", ERR_UNSUPPORTED, "/post_processor/special_tokens/[C]/ids"},
    {"\"ids\":[1]", "\"ids\":1", ERR_FORMAT, "/post_processor/special_tokens/[C]/ids"},
    {"\"type\":\"WordPiece\",\"prefix\"", "\"type\":\"CTC\",\"prefix\"", ERR_UNSUPPORTED,
        "/decoder"},
    {"\"type\":\"WordPiece\",\"prefix\"", "\"prefix\"", ERR_UNSUPPORTED, "/decoder"},
    {"\"model\":{", "\"model\":[],\"x\":{", ERR_UNSUPPORTED, "/x"},
    {"\"type\":\"WordPiece\",\"unk", "\"type\":\"WordLevel\",\"unk", ERR_UNSUPPORTED, "/model"},
    {"\"unk_token\":\"[U]\"", "\"unk_token\":\"[V]\"", ERR_FORMAT, "/model/unk_token"},
    {"subword_prefix\":\"##\"", "subword_prefix\":\"\"", ERR_UNSUPPORTED, "/model"},
    {"subword_prefix\":\"##\"", "subword_prefix\":\"0123456789abcdef\"", ERR_UNSUPPORTED, "/model"},
    {"per_word\":100", "per_word\":0", ERR_FORMAT, "/model/max_input_chars_per_word"},
    {"per_word\":100", "per_word\":1025", ERR_FORMAT, "/model/max_input_chars_per_word"},
    {"\"vocab\":{", "\"vocab\":[],\"merges\":{", ERR_UNSUPPORTED, "/model/merges"},
    {"\"vocab\":{\"[U]\":0,\"[C]\":1,\"[S]\":2,\"a\":3,\"##b\":4,\"ab\":5}", "\"vocab\":[]",
        ERR_FORMAT, "/model/vocab"},
    {"\"a\":3", "\"a\":\"3\"", ERR_FORMAT, "/model/vocab"},
    {"\"a\":3", "\"a\":4", ERR_FORMAT, "/model/vocab"},
    {"\"a\":3", "\"a\":-3", ERR_FORMAT, "/model/vocab"},
    {"\"a\":3", "\"\":3", ERR_FORMAT, "/model/vocab"},
    {"\"a\":3", "\"a\":2097152", ERR_FORMAT, "/model"},
    {"\"a\":3", "\"a\":9223372036854775807", ERR_FORMAT, "/model"},
    {"\"a\":3", "\"a\":9223372036854775808", ERR_FORMAT, ""},
    {"\"a\":3", "\"a\":3,\"a\":6", ERR_FORMAT, ""},
    {"\"a\":3", "\"a\\u0000\":3", ERR_FORMAT, ""},
};

static const struct hostile byte_cases[] = {
    {"\"added_tokens\":[", "\"added_tokens\":{},\"x\":[", ERR_UNSUPPORTED, "/x"},
    {"\"String\":\"x\"", "\"String\":\"\"", ERR_UNSUPPORTED,
        "/pre_tokenizer/pretokenizers/0/pattern"},
    {"\"String\":\"x\"", "\"Regex\":\"x+\"", ERR_UNSUPPORTED,
        "/pre_tokenizer/pretokenizers/0/pattern"},
    {"\"String\":\"x\"", "\"Glob\":\"x\"", ERR_UNSUPPORTED,
        "/pre_tokenizer/pretokenizers/0/pattern/Glob"},
    {"{\"String\":\"x\"}", "\"x\"", ERR_FORMAT, "/pre_tokenizer/pretokenizers/0/pattern"},
    {"{\"String\":\"x\"},\"behavior\":\"Isolated\"",
        "{\"Regex\":\"'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|"
        "\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Contiguous\"",
        ERR_UNSUPPORTED, "/pre_tokenizer/pretokenizers/0/pattern"},
    {"\"behavior\":\"Isolated\"", "\"behavior\":\"isolated\"", ERR_FORMAT,
        "/pre_tokenizer/pretokenizers/0"},
    {"\"invert\":false", "\"invert\":0", ERR_FORMAT, "/pre_tokenizer/pretokenizers/0/invert"},
    {"\"type\":\"Digits\",\"individual_digits\":true", "\"type\":\"ByteLevel\"", ERR_UNSUPPORTED,
        "/pre_tokenizer/pretokenizers/2"},
    {"\"type\":\"Digits\",\"individual_digits\":true", "\"type\":\"CharDelimiterSplit\"",
        ERR_UNSUPPORTED, "/pre_tokenizer/pretokenizers/1"},
    {"\"individual_digits\":true", "\"individual\":true", ERR_UNSUPPORTED,
        "/pre_tokenizer/pretokenizers/1/individual"},
    {"\"type\":\"Digits\",\"individual_digits\":true", "\"type\":\"Punctuation\",\"behavior\":1",
        ERR_FORMAT, "/pre_tokenizer/pretokenizers/1/behavior"},
    {"\"trim_offsets\":true", "\"trim_offsets\":1", ERR_FORMAT,
        "/pre_tokenizer/pretokenizers/2/trim_offsets"},
    {"\"pretokenizers\":[", "\"pretokenizers\":{},\"x\":[", ERR_UNSUPPORTED, "/pre_tokenizer/x"},
    {"\"pretokenizers\":[", "\"pretokenizers\":[null,", ERR_FORMAT,
        "/pre_tokenizer/pretokenizers/0"},
    {"\"processors\":[", "\"processors\":[null,", ERR_FORMAT, "/post_processor/processors/0"},
    {"\"processors\":[", "\"processors\":1,\"x\":[", ERR_FORMAT, "/post_processor/processors"},
    {"\"processors\":[", "\"processors\":[" TEMPLATE "," TEMPLATE ",", ERR_UNSUPPORTED,
        "/post_processor/processors/1"},
    {"\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":{\"type\":\"WordPiece\"}",
        ERR_UNSUPPORTED, "/decoder"},
    {"\"dropout\":null", "\"dropout\":0.1", ERR_UNSUPPORTED, "/model/dropout"},
    {"\"continuing_subword_prefix\":null", "\"continuing_subword_prefix\":\"@\"", ERR_UNSUPPORTED,
        "/model/continuing_subword_prefix"},
    {"\"end_of_word_suffix\":null", "\"end_of_word_suffix\":\"</w>\"", ERR_UNSUPPORTED,
        "/model/end_of_word_suffix"},
    {"\"fuse_unk\":false", "\"fuse_unk\":null,\"z\":0", ERR_UNSUPPORTED, "/model/z"},
    {"\"ignore_merges\":false", "\"ignore_merges\":\"no\"", ERR_FORMAT, "/model/ignore_merges"},
    {"\"merges\":[", "\"merges\":[[\"a\"],", ERR_FORMAT, "/model/merges"},
    {"\"merges\":[", "\"merges\":[[\"a\",1],", ERR_FORMAT, "/model/merges"},
    {"\"merges\":[", "\"merges\":[\"ab\",", ERR_FORMAT, "/model/merges"},
    {"\"merges\":[", "\"merges\":[\"b a\",", ERR_FORMAT, "/model/merges"},
    {"\"merges\":[", "\"merges\":[7,", ERR_FORMAT, "/model/merges"},
    {"\"merges\":[[\"a\",\"b\"]]", "\"merges\":{}", ERR_FORMAT, "/model/merges"},
    {",\"merges\":[[\"a\",\"b\"]]", "", ERR_FORMAT, "/model/merges"},
    {"\"id\":3,\"content\":\"<e>\"", "\"id\":3,\"content\":\"ab\"", ERR_FORMAT, "/model"},
};

static const struct hostile char_cases[] = {
    {"\"normalizers\":[", "\"normalizers\":1,\"x\":[", ERR_UNSUPPORTED, "/normalizer/x"},
    {"\"normalizers\":[", "\"normalizers\":[null,", ERR_FORMAT, "/normalizer/normalizers/0"},
    {"\"normalizers\":[", "\"normalizers\":[1,", ERR_FORMAT, "/normalizer/normalizers/0"},
    {"\"prepend\":\"\u2581\"", "\"prepend\":\"0123456789012345678901234567890123456789\"",
        ERR_UNSUPPORTED, "/normalizer/normalizers/0/prepend"},
    {"\"prepend\":\"\u2581\"", "\"prepend\":null", ERR_UNSUPPORTED,
        "/normalizer/normalizers/0/prepend"},
    {"\"String\":\" \"},\"content\":\"\u2581\"", "\"String\":\"\"},\"content\":\"\u2581\"",
        ERR_UNSUPPORTED, "/normalizer/normalizers/1/pattern"},
    {"\"String\":\" \"", "\"Regex\":\"(a+)+b\"", ERR_UNSUPPORTED,
        "/normalizer/normalizers/1/pattern"},
    {"\"replacement\":\"\u2581\"", "\"replacement\":\"_\"", ERR_UNSUPPORTED, "/pre_tokenizer"},
    {"\"first\"", "\"last\"", ERR_FORMAT, "/pre_tokenizer"},
    {"\"split\":false", "\"split\":0", ERR_FORMAT, "/pre_tokenizer/split"},
    {"\"sep\":[\"a\",1]", "\"sep\":[\"a\"]", ERR_FORMAT, "/post_processor/sep"},
    {"\"sep\":[\"a\",1]", "\"sep\":1", ERR_FORMAT, "/post_processor/sep"},
    {"\"cls\":[\"b\",2]", "\"cls\":[\"b\",5]", ERR_FORMAT, "/post_processor/cls"},
    {"\"decoders\":[", "\"decoders\":[null,", ERR_FORMAT, "/decoder/decoders/0"},
    {"\"decoders\":[", "\"decoders\":1,\"x\":[", ERR_FORMAT, "/decoder/decoders"},
    {"\"content\":\" \"},{\"type\":\"ByteF", "\"content\":\"_\"},{\"type\":\"ByteF",
        ERR_UNSUPPORTED, "/decoder/decoders/0"},
    {"\"start\":1", "\"start\":2", ERR_UNSUPPORTED, "/decoder/decoders/3"},
    {"\"stop\":0", "\"stop\":-1", ERR_FORMAT, "/decoder/decoders/3/stop"},
    {"\"byte_fallback\":false,\"vocab\":{", "\"byte_fallback\":true,\"vocab\":{\"<0x0A>\":5,",
        ERR_FORMAT, "/model"},
    {"\"byte_fallback\":false,\"vocab\":{", "\"byte_fallback\":true,\"vocab\":{\"<0xZZ>\":5,",
        ERR_FORMAT, "/model"},
    {"\"merges\":[", "\"merges\":[\"< u>\",", ERR_FORMAT, "/model/merges"},
};

static const struct hostile unigram_cases[] = {
    {"\"BAAAAAAAAAAA\"", "\"BAAAAAAAAAA\"", ERR_FORMAT,
        "/normalizer/normalizers/0/precompiled_charsmap"},
    {"\"BAAAAAAAAAAA\"", "\"BAAA*AAAAAAA\"", ERR_FORMAT,
        "/normalizer/normalizers/0/precompiled_charsmap"},
    {"\"BAAAAAAAAAAA\"", "\"/////wAAAAAA\"", ERR_FORMAT,
        "/normalizer/normalizers/0/precompiled_charsmap"},
    {"\"BAAAAAAAAAAA\"", "\"BAAAAAAAAAAB\"", ERR_FORMAT,
        "/normalizer/normalizers/0/precompiled_charsmap"},
    {"\"BAAAAAAAAAAA\"", "\"BAAAAAAAAAD/AA==\"", ERR_FORMAT,
        "/normalizer/normalizers/0/precompiled_charsmap"},
    {"\"BAAAAAAAAAAA\"", "null", ERR_FORMAT, "/normalizer/normalizers/0/precompiled_charsmap"},
    {"\"BAAAAAAAAAAA\"},",
        "\"BAAAAAAAAAAA\"},{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAAAAAAAA\"},",
        ERR_UNSUPPORTED, "/normalizer/normalizers/1"},
    {"\"strip_left\":false", "\"strip_left\":1", ERR_FORMAT,
        "/normalizer/normalizers/1/strip_left"},
    {"\"unk_id\":0", "\"unk_id\":3", ERR_FORMAT, "/model/unk_id"},
    {"\"unk_id\":0", "\"unk_id\":-1", ERR_FORMAT, "/model/unk_id"},
    {"[\"a\",-1.5]", "[\"a\"]", ERR_FORMAT, "/model/vocab/1"},
    {"[\"a\",-1.5]", "[\"a\",\"b\"]", ERR_FORMAT, "/model/vocab/1"},
    {"[\"a\",-1.5]", "[7,-1.5]", ERR_FORMAT, "/model/vocab/1"},
    {"[\"a\",-1.5]", "\"a\"", ERR_FORMAT, "/model/vocab/1"},
    {"[\"a\",-1.5]", "[\"a\",1e999]", ERR_FORMAT, ""},
    {"\"vocab\":[", "\"vocab\":{},\"x\":[", ERR_UNSUPPORTED, "/model/x"},
    {"[[\"<u>\",0.0],[\"a\",-1.5],[\"\u2581\",-2]]", "{}", ERR_FORMAT, "/model/vocab"},
    {"\"Unigram\"", "\"Unigram\",\"dropout\":null", ERR_UNSUPPORTED, "/model/dropout"},
};

static void test_wordpiece(void **state)
{
    (void)state;
    check_cases(WORDPIECE, wordpiece_cases, ARRAY_COUNT(wordpiece_cases));
}

static void test_bytes(void **state)
{
    (void)state;
    check_cases(BYTE_BPE, byte_cases, ARRAY_COUNT(byte_cases));
}

static void test_characters(void **state)
{
    (void)state;
    check_cases(CHAR_BPE, char_cases, ARRAY_COUNT(char_cases));
}

static void test_unigram(void **state)
{
    (void)state;
    check_cases(UNIGRAM, unigram_cases, ARRAY_COUNT(unigram_cases));
}

/* `count` times `part` between two ends; malloc'ed. */
static char *repeated(const char *front, const char *part, size_t count, const char *back)
{
    size_t size = strlen(front) + count * strlen(part) + strlen(back) + 1;
    char *out = malloc(size);
    assert_non_null(out);
    char *at = stpcpy(out, front);
    for (size_t i = 0; i < count; i++) {
        at = stpcpy(at, part);
    }
    stpcpy(at, back);
    return out;
}

static void refused(const char *text, enum err code, const char *where)
{
    struct tokenizer_json files = files_of(text);
    refused_files(&files, code, where);
}

static void test_json(void **state)
{
    (void)state;
    static const char *const broken[] = {"", "{", "{}x", "nul", "\"\\ud800\"", "\xFF", "{\"a\":}"};
    for (size_t i = 0; i < ARRAY_COUNT(broken); i++) {
        refused(broken[i], ERR_FORMAT, "tokenizer.json");
    }
    refused("[]", ERR_FORMAT, "tokenizer.json#");
    refused("{}", ERR_FORMAT, "tokenizer.json#/model");
    char *deep = repeated("{\"model\":", "[", 100000, "");
    refused(deep, ERR_LIMIT, "tokenizer.json");
    free(deep);
    char *wide = repeated("[", "0,", LIMIT_TOKENIZER_VALUES, "0]");
    refused(wide, ERR_LIMIT, "tokenizer.json");
    free(wide);
    struct tokenizer_json files = {
        .tokenizer = "{}", .tokenizer_bytes = (size_t)LIMIT_TOKENIZER_BYTES + 1, .bos = -1};
    refused_files(&files, ERR_LIMIT, "tokenizer.json");
}

/* Chains and depths at their limits and one past them. */
static void test_limits(void **state)
{
    (void)state;
    static const char front[] = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}";
    static const char splits[] = "{\"type\":\"Sequence\",\"pretokenizers\":["
                                 "{\"type\":\"BertPreTokenizer\"}";
    for (size_t i = 0; i < 2; i++) {
        char *chain = repeated(front, ",{\"type\":\"NFC\"}", NORMALIZER_STEPS_MAX - 1 + i, "]}");
        char *text = edited(WORDPIECE,
            "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
            "\"strip_accents\":null,\"lowercase\":true}",
            chain);
        if (i == 0) {
            tokenizer_close(opened(text));
        } else {
            refused(text, ERR_LIMIT, "tokenizer.json#/normalizer/normalizers/16");
        }
        free(chain);
        free(text);
        chain = repeated(splits, ",{\"type\":\"Punctuation\"}", SPLITTER_STEPS_MAX - 2 + i, "]}");
        text = edited(WORDPIECE, "{\"type\":\"BertPreTokenizer\"}", chain);
        if (i == 0) {
            tokenizer_close(opened(text));
        } else {
            refused(text, ERR_LIMIT, "tokenizer.json#/pre_tokenizer/pretokenizers/15");
        }
        free(chain);
        free(text);
        char *piece = repeated("\"", "x", VOCAB_PIECE_BYTES_MAX + i, "\":3");
        text = edited(WORDPIECE, "\"a\":3", piece);
        if (i == 0) {
            struct tokenizer *tokenizer = opened(text);
            assert_int_equal(detokenizer_bound(tokenizer), 3 * (VOCAB_PIECE_BYTES_MAX + 2));
            tokenizer_close(tokenizer);
        } else {
            refused(text, ERR_FORMAT, "tokenizer.json#/model/vocab");
        }
        free(piece);
        free(text);
    }
}

static void test_config(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        enum err code;
        const char *where;
    } cases[] = {
        {"{", ERR_FORMAT, "tokenizer_config.json"},
        {"[]", ERR_FORMAT, "tokenizer_config.json#"},
        {"{\"do_lower_case\":false}", ERR_UNSUPPORTED, "tokenizer_config.json#/do_lower_case"},
        {"{\"do_lower_case\":true,\"strip_accents\":false}", ERR_UNSUPPORTED,
            "tokenizer_config.json#/strip_accents"},
        {"{\"strip_accents\":null,\"tokenize_chinese_chars\":0}", ERR_FORMAT,
            "tokenizer_config.json#/tokenize_chinese_chars"},
        {"{\"bos_token\":1}", ERR_FORMAT, "tokenizer_config.json#/bos_token"},
        {"{\"eos_token\":\"nobody\"}", ERR_FORMAT, "tokenizer_config.json#/eos_token"},
        {"{\"pad_token\":{\"content\":7}}", ERR_FORMAT, "tokenizer_config.json#/pad_token/content"},
    };
    struct tokenizer_json files = files_of(WORDPIECE);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        files.config = cases[i].config;
        files.config_bytes = strlen(cases[i].config);
        refused_files(&files, cases[i].code, cases[i].where);
    }
    files = files_of(WORDPIECE);
    files.rows = 5; /* there are 6 tokens */
    refused_files(&files, ERR_FORMAT, "tokenizer.json#/model");
    files.rows = 0;
    files.bos = 6;
    refused_files(&files, ERR_FORMAT, "bos_token_id");
    files.bos = -1;
    files.ends[0] = 6;
    files.end_count = 1;
    refused_files(&files, ERR_FORMAT, "eos_token_id");
}

/* ---- the table of characters ---------------------------------------------------------------- */

/* A trie in which a, and any number of them, is a key. */
static enum err load_circle(struct charsmap *map, size_t string_bytes, struct err_info *info)
{
    enum { UNITS = 'a' };
    static unsigned char blob[4 + 4 * UNITS + CHARSMAP_STRING_BYTES_MAX + 2];
    const uint32_t trie[][2] = {{0, 1u << 10}, {'a' ^ 1, 'a' << 10 | 1u << 8 | 'a'}};
    const uint32_t trie_bytes = 4 * UNITS;
    memset(blob, 0, sizeof(blob));
    memcpy(blob, &trie_bytes, sizeof(trie_bytes));
    for (size_t i = 0; i < ARRAY_COUNT(trie); i++) {
        memcpy(blob + 4 + 4 * trie[i][0], &trie[i][1], sizeof(trie[i][1]));
    }
    memset(blob + 4 + 4 * UNITS, 'x', string_bytes);
    return charsmap_load(map, blob, 4 + 4 * UNITS + string_bytes + 1, "map", info);
}

static void test_charsmap(void **state)
{
    (void)state;
    struct charsmap map;
    struct err_info info;
    char text[2 * CHARSMAP_KEY_BYTES_MAX];
    memset(text, 'a', sizeof(text));
    assert_int_equal(load_circle(&map, CHARSMAP_STRING_BYTES_MAX + 1, &info), ERR_LIMIT);
    assert_string_equal(info.where, "map");
    assert_int_equal(load_circle(&map, CHARSMAP_STRING_BYTES_MAX, &info), ERR_OK);
    for (size_t bytes = 0; bytes <= sizeof(text); bytes++) {
        const char *string = NULL;
        size_t string_bytes = 0;
        size_t prefix = 0;
        bool found = charsmap_find(&map, text, bytes, true, &string, &string_bytes, &prefix);
        assert_int_equal(found, bytes > 0);
        assert_int_equal(prefix, MIN(bytes, (size_t)CHARSMAP_KEY_BYTES_MAX));
        assert_int_equal(string_bytes, found ? CHARSMAP_STRING_BYTES_MAX : 0);
    }
    charsmap_free(&map);
}

/* A token whose normalized spelling has no end: as many steps as there may be, each of 32 times. */
static void test_growing_token(void **state)
{
    (void)state;
    static const char front[] = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}";
    static const char step[] = ",{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},"
                               "\"content\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}";
    static const char file[] =
        FILE_OF("[{\"id\":0,\"content\":\"x\",\"normalized\":true,\"special\":true}]", "NORMALIZER",
            "null", "null", "null", "{\"type\":\"BPE\",\"vocab\":{\"x\":0},\"merges\":[]}");
    char *chain = repeated(front, step, NORMALIZER_STEPS_MAX - 1, "]}");
    char *text = edited(file, "NORMALIZER", chain);
    refused(text, ERR_LIMIT, "tokenizer.json#/added_tokens");
    free(chain);
    free(text);
}

/* One piece whose bytes are chosen so that its edges met in one place under the golden ratio as
 * multiplier. The time of each byte is that of any other. */
static void test_chosen_bytes(void **state)
{
    enum { NODES = 1 << 16 };
    static char piece[NODES];
    (void)state;
    for (uint64_t node = 0; node < NODES; node++) {
        uint64_t least = UINT64_MAX;
        for (uint64_t byte = 0; byte < 256; byte++) {
            uint64_t home =
                (((node << 8 | byte) * UINT64_C(0x9E3779B97F4A7C15)) >> 32) % (2 * NODES);
            piece[node] = home < least ? (char)byte : piece[node];
            least = MIN(least, home);
        }
    }
    struct trie trie;
    assert_int_equal(trie_init(&trie), ERR_OK);
    const clock_t from = clock();
    assert_int_equal(trie_add(&trie, piece, NODES, 7), ERR_OK);
    const double ms = 1e3 * (double)(clock() - from) / CLOCKS_PER_SEC;
    int32_t node = TRIE_ROOT;
    for (size_t i = 0; i < NODES; i++) {
        node = trie_next(&trie, node, (unsigned char)piece[i]);
        assert_int_equal(node, i + 1);
    }
    assert_int_equal(trie.ids[node], 7);
    trie_free(&trie);
    assert_true(ms <= 100 * test_scale());
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ (hash >> 29);
}

/* The same of a vocabulary's table: pieces of eight bytes, of 256 the one with the least hash. */
static void test_chosen_pieces(void **state)
{
    enum { PIECES = 1 << 16, MASK = 2 * PIECES - 1 };
    struct pieces pieces;
    (void)state;
    assert_int_equal(pieces_init(&pieces, PIECES, (size_t)8 * PIECES), ERR_OK);
    for (uint64_t id = 0; id < PIECES; id++) {
        uint64_t chosen = 0;
        uint64_t least = UINT64_MAX;
        for (uint64_t word = id << 8; word < (id + 1) << 8; word++) {
            uint64_t home = mix(mix(mix(8, word), 0), 0) & MASK;
            chosen = home < least ? word : chosen;
            least = MIN(least, home);
        }
        pieces_append(&pieces, (const char *)&chosen, sizeof(chosen));
    }
    const clock_t from = clock();
    pieces_index(&pieces, NULL, 0);
    const double ms = 1e3 * (double)(clock() - from) / CLOCKS_PER_SEC;
    for (int32_t id = 0; id < PIECES; id++) {
        size_t count;
        const char *piece = pieces_get(&pieces, id, &count);
        assert_int_equal(pieces_find(&pieces, piece, count), id);
    }
    pieces_free(&pieces);
    assert_true(ms <= 100 * test_scale());
}

/* ---- memory --------------------------------------------------------------------------------- */

static void fail_opening(const char *text)
{
    struct tokenizer_json files = files_of(text);
    uint64_t held = mem_bytes(MEM_TOKENIZER);
    enum err err = ERR_NO_MEMORY;
    for (uint64_t nth = 1; err != ERR_OK; nth++) {
        struct tokenizer *tokenizer = NULL;
        mem_fail_after(nth, 0);
        err = tokenizer_open_json(&files, &tokenizer, NULL);
        mem_fail_after(0, 0);
        assert_true(err == ERR_OK || err == ERR_NO_MEMORY);
        assert_true((err == ERR_OK) == (tokenizer != NULL));
        if (tokenizer != NULL) { /* what tokenizer_bytes says is what it holds */
            assert_int_equal(tokenizer_bytes(tokenizer), mem_bytes(MEM_TOKENIZER) - held);
        }
        tokenizer_close(tokenizer);
        assert_int_equal(mem_bytes(MEM_TOKENIZER), held);
        assert_true(nth < 100);
    }
}

static void fail_encoding(const char *file)
{
    static const char text[] = "ab  E\xCC\x81 [S]<u>x1 \xE2\x96\x81 \xEF\xBC\xA1 ba";
    struct tokenizer *tokenizer = opened(file);
    uint64_t held = mem_bytes(MEM_REQUESTS);
    enum err err = ERR_NO_MEMORY;
    for (uint64_t nth = 1; err != ERR_OK; nth++) {
        struct token_list list;
        int32_t(*spans)[2] = NULL;
        token_list_init(&list, 1000);
        mem_fail_after(nth, 0);
        err = tokenizer_encode_spans(
            tokenizer, text, sizeof(text) - 1, TOKENIZE_SPECIAL, &list, &spans, NULL);
        mem_fail_after(0, 0);
        assert_true(err == ERR_OK || err == ERR_NO_MEMORY);
        assert_true(err == ERR_OK ? list.count > 0 : list.count == 0 && spans == NULL);
        mem_free(spans);
        token_list_free(&list);
        assert_int_equal(mem_bytes(MEM_REQUESTS), held);
        assert_true(nth < 100);
    }
    tokenizer_close(tokenizer);
}

static void test_no_memory(void **state)
{
    (void)state;
    static const char *const files[] = {WORDPIECE, BYTE_BPE, CHAR_BPE, UNIGRAM};
    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        fail_opening(files[i]);
        fail_encoding(files[i]);
    }
    char *normalized = edited(WORDPIECE, "\"normalized\":false", "\"normalized\":true");
    fail_opening(normalized);
    fail_encoding(normalized);
    free(normalized);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wordpiece),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_characters),
        cmocka_unit_test(test_unigram),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_charsmap),
        cmocka_unit_test(test_growing_token),
        cmocka_unit_test(test_chosen_bytes),
        cmocka_unit_test(test_chosen_pieces),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
