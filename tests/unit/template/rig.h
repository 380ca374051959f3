/* A template over one set of values: rendered text with its marks, or what went wrong. */
#ifndef TESTS_UNIT_TEMPLATE_RIG_H
#define TESTS_UNIT_TEMPLATE_RIG_H

#include "engine/template/template.h"

struct rig {
    struct arena arena;
    struct rendered rendered; /* of the last rendering that succeeded */
    struct err_info info;     /* of the last one that did not */
};

void rig_open(struct rig *rig);
void rig_close(struct rig *rig);
/* With `u` a client's text "ab", `n` its number 7, `l` its list ["x", "y"], and `h` a client's text
 * of many lines. */
enum err rig_render(struct rig *rig, const char *source, const struct template_limits *limits);
/* template_open alone. */
enum err rig_parse(struct rig *rig, const char *source);

#endif
