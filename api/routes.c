/* What the route table cannot say; the table itself is generated from schemas/routes.json. */
#include "api/routes.h"

#include <string.h>

/* Ollama's, Anthropic's, and paths whose prefix was forgotten. */
static const struct {
    const char *theirs, *ours;
} HINTS[] = {
    {"/api/chat", "/v1/chat/completions"},
    {"/api/generate", "/v1/completions"},
    {"/api/embed", "/v1/embeddings"},
    {"/api/embeddings", "/v1/embeddings"},
    {"/api/tags", "/v1/models"},
    {"/api/show", "/info"},
    {"/v1/messages", "/v1/chat/completions"},
    {"/v1/messages/count_tokens", "/v1/chat/completions/input_tokens"},
    {"/v1/complete", "/v1/completions"},
    {"/responses", "/v1/responses"},
    {"/chat/completions", "/v1/chat/completions"},
    {"/completions", "/v1/completions"},
    {"/embeddings", "/v1/embeddings"},
    {"/models", "/v1/models"},
};

const char *route_hint(const char *path)
{
    for (size_t i = 0; i < ARRAY_COUNT(HINTS); i++) {
        if (strcmp(HINTS[i].theirs, path) == 0) {
            return HINTS[i].ours;
        }
    }
    return NULL;
}

enum family route_family(const char *path)
{
    return strncmp(path, "/v1/", 4) == 0 ? FAMILY_OPENAI : FAMILY_LLAMA;
}
