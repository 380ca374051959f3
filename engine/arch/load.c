/* Tables of tensors; engine/arch/load.h. */
#include "engine/arch/load.h"

#include <stdio.h>

enum { NAME_BYTES = 96 }; /* the longest of our own names, and a layer's number */

static const char *name_of(int32_t l, const char *name, char *out)
{
    (void)snprintf(out, NAME_BYTES, "blk.%d.%s", l, name);
    return out;
}

int32_t load_rows(const struct weights *weights, int32_t l, const char *name)
{
    char full[NAME_BYTES];
    return weights_rows(weights, name_of(l, name, full));
}

enum err load_matrices(struct weights *weights, int32_t l, const struct load_matrix *rows,
    size_t row_count, struct err_info *info)
{
    enum err err = ERR_OK;
    char name[NAME_BYTES];
    for (size_t i = 0; i < row_count && err == ERR_OK; i++) {
        int32_t of = rows[i].of > 0 ? rows[i].of : rows[i].outputs;
        err = weights_matrix_part(weights, name_of(l, rows[i].name, name), rows[i].from,
            rows[i].outputs, of, rows[i].inputs, rows[i].out, info);
    }
    return err;
}

enum err load_vectors(struct weights *weights, int32_t l, const struct load_vector *rows,
    size_t row_count, struct err_info *info)
{
    enum err err = ERR_OK;
    char name[NAME_BYTES];
    for (size_t i = 0; i < row_count && err == ERR_OK; i++) {
        err = weights_vector(
            weights, name_of(l, rows[i].name, name), rows[i].count, rows[i].out, info);
    }
    return err;
}

enum err load_embedding_and_head(
    struct model *model, struct weights *weights, struct err_info *info)
{
    int32_t vocab = model->info.vocab, hidden = model->info.hidden;
    enum err err =
        weights_matrix(weights, "token_embd.weight", vocab, hidden, &model->embedding.weight, info);
    model->head = &model->embedding;
    if (err == ERR_OK && weights_has(weights, "output.weight")) {
        model->head = &model->untied_head;
        err = weights_matrix(
            weights, "output.weight", vocab, hidden, &model->untied_head.weight, info);
    }
    return err;
}
