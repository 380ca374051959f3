/* Every bound of the engine, with its reason. Each has a test at the limit and one past it. */
#ifndef ENGINE_ENGINE_LIMITS_H
#define ENGINE_ENGINE_LIMITS_H

enum {
    LIMIT_INPUTS = 2048,            /* inputs of one request (docs/api.md) */
    LIMIT_ITEMS = 2 * LIMIT_INPUTS, /* sequences of one plan: labels are asked in two orders */
    LIMIT_STEPS = 130,              /* 64 gaps and some; 2 per moderation question, 63 questions */
    LIMIT_STOPS = 16,
    LIMIT_STOP_BYTES = 256,
    LIMIT_TOP_LOGPROBS = 100, /* n_probs of /infill; other routes stop at 20 */
    LIMIT_LOGIT_BIAS = 1024,
    LIMIT_GAPS = 64,
    LIMIT_ADAPTERS = 8,       /* loaded at once: LLM2Vec, the most that is known, has two */
    LIMIT_ADAPTER_RANK = 512, /* of one; the largest in use have 256 */
    LIMIT_PROMPTS = 16,       /* named prompts of a profile */
    LIMIT_END_TOKENS = 16,    /* tokens that end a text */
    LIMIT_STOP_TOKENS = 16,   /* ends of one step besides the model's */
    LIMIT_CHOICES = 255,
    LIMIT_CONTEXT = 1 << 20, /* tokens of one sequence, whatever the file says */
    LIMIT_PRIORITY = 100,
    LIMIT_SALT_BYTES = 32,  /* of a cache_salt */
    LIMIT_BULK_INPUTS = 32, /* an embedding of more is bulk: nobody reads so many at once */
    LIMIT_THREADS = 256,
    LIMIT_VOCAB = 1 << 21,
    LIMIT_LAYERS = 512,
    LIMIT_HIDDEN = 1 << 16,
    LIMIT_FFN = 1 << 18,
    LIMIT_HEADS = 1024,
    LIMIT_HEAD_DIM = 512,

    /* Model files. The largest vocabulary in use (256k tokens) needs about 16 MiB of metadata. */
    LIMIT_FILE_META_BYTES = 128 << 20,  /* header, metadata and tensor directory */
    LIMIT_FILE_KEYS = 1 << 16,          /* real files have tens */
    LIMIT_FILE_TENSORS = 1 << 16,       /* 128 a layer */
    LIMIT_FILE_STRINGS = 1 << 23,       /* in all arrays: LIMIT_VOCAB tokens, merges, twice that */
    LIMIT_FILE_STRING_BYTES = 64 << 20, /* one string: a chat template or a profile at most */
    LIMIT_FILE_KEY_BYTES = (1 << 16) - 1, /* by the format */
    LIMIT_FILE_NAME_BYTES = 64,           /* of a tensor, by the format */
    LIMIT_TOKENIZER_BYTES = 64 << 20, /* tokenizer.json; Gemma's, the largest known, has 33 MB */
    LIMIT_TOKENIZER_VALUES = 1 << 23, /* its values; two million there */
    LIMIT_FILE_ALIGNMENT = 1 << 16,   /* a page of any machine; files use 32 */

    /* Chat templates. The largest known has 13 KB, 2,000 nodes and 70 names. */
    LIMIT_TEMPLATE_BYTES = 1 << 18,
    LIMIT_TEMPLATE_NODES = 1 << 16,
    LIMIT_TEMPLATE_NAMES = 1024,
    LIMIT_TEMPLATE_NESTING = 64, /* of brackets, operators and blocks: parsed by recursion */
    /* Rendering: what an ordinary template takes for the largest request that fits a body. */
    LIMIT_TEMPLATE_STEPS = 1000000,      /* less than 0.1 s */
    LIMIT_TEMPLATE_TIME_US = 100000,     /* of computing, where steps are slower than that */
    LIMIT_TEMPLATE_PROBE_STEPS = 100000, /* of one short message, when a model is loaded */
    LIMIT_TEMPLATE_PROBE_TIME_US = 20000,
    LIMIT_TEMPLATE_DEPTH = 200,              /* bodies, expressions and macros within another */
    LIMIT_TEMPLATE_OUTPUT_BYTES = 8 << 20,   /* twice a body */
    LIMIT_TEMPLATE_MEMORY_BYTES = 128 << 20, /* a conversation is copied some times */
    LIMIT_TEMPLATE_RANGE = 100000,           /* Jinja's sandbox has the same */

    /* Folders of safetensors. */
    LIMIT_FILE_PARTS = 256,             /* open at once while loading; real ones have 163 */
    LIMIT_FILE_HEADER_BYTES = 16 << 20, /* of a part: 250 a tensor; the format allows 100 MB */
    LIMIT_FILE_INDEX_BYTES = 16 << 20,  /* names of tensors and their parts */
    LIMIT_FILE_TENSOR_NAME_BYTES = 256, /* module paths: real ones have up to 80 */
    LIMIT_FILE_CONFIG_BYTES = 1 << 20,  /* config.json and its like: a few KiB */
    LIMIT_PUT_KEYS = 64,                /* what a config.json becomes */
};

#endif
