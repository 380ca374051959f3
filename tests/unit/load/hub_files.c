/* See hub_files.h. It shares no code with the reader. */
#include "tests/unit/load/hub_files.h"

#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 256, HEADER_BYTES = 1 << 14 };

static const char *const config =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_act\":\"silu\","
    "\"hidden_size\":16,\"intermediate_size\":24,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"max_position_embeddings\":64,"
    "\"vocab_size\":10,\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,\"rope_scaling\":null,"
    "\"attention_bias\":false,\"mlp_bias\":false,\"tie_word_embeddings\":false,"
    "\"bos_token_id\":1,\"eos_token_id\":2}";

static const struct {
    const char *name;
    int outputs, inputs; /* outputs 0 = a vector */
} tensors[] = {
    {"model.embed_tokens.weight", 10, 16},
    {"model.norm.weight", 0, 16},
    {"lm_head.weight", 10, 16},
    {"model.layers.0.input_layernorm.weight", 0, 16},
    {"model.layers.0.post_attention_layernorm.weight", 0, 16},
    {"model.layers.0.self_attn.q_proj.weight", 16, 16},
    {"model.layers.0.self_attn.k_proj.weight", 8, 16},
    {"model.layers.0.self_attn.v_proj.weight", 8, 16},
    {"model.layers.0.self_attn.o_proj.weight", 16, 16},
    {"model.layers.0.mlp.gate_proj.weight", 24, 16},
    {"model.layers.0.mlp.up_proj.weight", 24, 16},
    {"model.layers.0.mlp.down_proj.weight", 16, 24},
};

static void need(int condition)
{
    if (!condition) {
        perror("hub_files");
        abort();
    }
}

static void path_of(const struct hub_files *files, const char *name, char out[PATH_BYTES])
{
    need(snprintf(out, PATH_BYTES, "%s/%s", files->folder, name) < PATH_BYTES);
}

unsigned char *hub_files_safetensors(const char *header, size_t data_bytes, size_t *out_count)
{
    const float number = 0.25F;
    const uint64_t length = strlen(header);
    *out_count = sizeof(length) + length + data_bytes;
    unsigned char *file = malloc(*out_count);
    need(file != NULL);
    memcpy(file, &length, sizeof(length));
    memcpy(file + sizeof(length), header, length);
    memset(file + sizeof(length) + length, 0, data_bytes);
    for (size_t i = 0; i + sizeof(number) <= data_bytes; i += sizeof(number)) {
        memcpy(file + sizeof(length) + length + i, &number, sizeof(number));
    }
    return file;
}

static void put_model(const struct hub_files *files)
{
    static char header[HEADER_BYTES];
    size_t used = 0;
    size_t at = 0;
    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
        const int outputs = tensors[i].outputs;
        const size_t end =
            at + (size_t)(outputs > 0 ? outputs : 1) * (size_t)tensors[i].inputs * sizeof(float);
        char rows[16] = "";
        if (outputs > 0) {
            snprintf(rows, sizeof(rows), "%d,", outputs);
        }
        used += (size_t)snprintf(header + used, sizeof(header) - used,
            "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s%d],\"data_offsets\":[%zu,%zu]}",
            i == 0 ? "{" : ",", tensors[i].name, rows, tensors[i].inputs, at, end);
        at = end;
    }
    snprintf(header + used, sizeof(header) - used, "}");
    size_t count = 0;
    unsigned char *file = hub_files_safetensors(header, at, &count);
    hub_files_put(files, "model.safetensors", file, count);
    free(file);
}

void hub_files_open(struct hub_files *files)
{
    const char *folder = getenv("TMPDIR");
    snprintf(
        files->folder, sizeof(files->folder), "%.40s/hub-XXXXXX", folder == NULL ? "/tmp" : folder);
    need(mkdtemp(files->folder) != NULL);
    hub_files_text(files, "config.json", config);
    put_model(files);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    return remove(path);
}

void hub_files_close(struct hub_files *files)
{
    need(nftw(files->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

void hub_files_put(const struct hub_files *files, const char *name, const void *bytes, size_t count)
{
    char path[PATH_BYTES];
    path_of(files, name, path);
    for (char *slash = path + strlen(files->folder) + 1; (slash = strchr(slash, '/')) != NULL;
         slash++) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    (void)unlink(path);
    FILE *file = fopen(path, "wb");
    need(file != NULL);
    need(fwrite(bytes, 1, count, file) == count);
    need(fclose(file) == 0);
}

void hub_files_text(const struct hub_files *files, const char *name, const char *text)
{
    hub_files_put(files, name, text, strlen(text));
}

void hub_files_remove(const struct hub_files *files, const char *name)
{
    char path[PATH_BYTES];
    path_of(files, name, path);
    need(remove(path) == 0);
}

char *hub_files_get(const struct hub_files *files, const char *name, size_t *out_count)
{
    char path[PATH_BYTES];
    struct stat status;
    path_of(files, name, path);
    FILE *file = fopen(path, "rb");
    need(file != NULL);
    need(fstat(fileno(file), &status) == 0);
    char *bytes = malloc((size_t)status.st_size + 1);
    need(bytes != NULL);
    need(fread(bytes, 1, (size_t)status.st_size, file) == (size_t)status.st_size);
    bytes[status.st_size] = '\0';
    fclose(file);
    *out_count = (size_t)status.st_size;
    return bytes;
}

void hub_files_change(
    const struct hub_files *files, const char *name, const char *from, const char *to)
{
    size_t count = 0;
    char *bytes = hub_files_get(files, name, &count);
    char *found = memmem(bytes, count, from, strlen(from));
    if (found == NULL) {
        fprintf(stderr, "hub_files: no %s in %s\n", from, name);
        abort();
    }
    const size_t before = (size_t)(found - bytes);
    const size_t after = count - before - strlen(from);
    char *changed = malloc(count + strlen(to));
    need(changed != NULL);
    memcpy(changed, bytes, before);
    memcpy(changed + before, to, strlen(to));
    memcpy(changed + before + strlen(to), found + strlen(from), after);
    hub_files_put(files, name, changed, before + strlen(to) + after);
    free(changed);
    free(bytes);
}
