/* What the route table cannot say; the table itself is generated from schemas/routes.json. */
#include "api/routes.h"

#include <string.h>

enum family route_family(const char *path)
{
    return strncmp(path, "/v1/", 4) == 0 ? FAMILY_OPENAI : FAMILY_LLAMA;
}
