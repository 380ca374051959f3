/* See rig.h. */
#include "tests/unit/template/rig.h"

#include <stdlib.h>
#include <string.h>

void rig_open(struct rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    arena_init(&rig->arena, MEM_OTHER, 4096, (size_t)64 << 20);
}

void rig_close(struct rig *rig)
{
    arena_drop(&rig->arena);
}

static struct value foreign(struct rig *rig, const char *words)
{
    struct value value;
    if (!value_foreign(&rig->arena, words, strlen(words), &value)) {
        abort();
    }
    return value;
}

static struct map *values(struct rig *rig)
{
    struct map *map = map_new(&rig->arena);
    struct list *list = list_new(&rig->arena, LIST_PLAIN);
    struct value number = value_integer(7);
    struct value shown = value_list(list);
    number.foreign = true;
    shown.foreign = true;
    if (map == NULL || list == NULL || !list_add(&rig->arena, list, foreign(rig, "x")) ||
        !list_add(&rig->arena, list, foreign(rig, "y")) ||
        !map_set(&rig->arena, map, value_words("u"), foreign(rig, "ab")) ||
        !map_set(&rig->arena, map, value_words("n"), number) ||
        !map_set(&rig->arena, map, value_words("l"), shown) ||
        !map_set(&rig->arena, map, value_words("h"), foreign(rig, "p\nq"))) {
        abort();
    }
    return map;
}

enum err rig_parse(struct rig *rig, const char *source)
{
    struct template *template;
    enum err err = template_open(source, strlen(source), &template, &rig->info);
    if (err == ERR_OK) {
        template_close(template);
    }
    return err;
}

enum err rig_render(struct rig *rig, const char *source, const struct template_limits *limits)
{
    struct template *template;
    enum err err = template_open(source, strlen(source), &template, &rig->info);
    if (err != ERR_OK) {
        return err;
    }
    err =
        template_render(template, values(rig), 0, limits, &rig->arena, &rig->rendered, &rig->info);
    template_close(template);
    return err;
}
