/*
 * A folder as a model hub lays it out, made for tests: a tiny llama in safetensors with its
 * config.json in a new temporary folder, whose files can be changed one by one.
 */
#ifndef TESTS_UNIT_LOAD_HUB_FILES_H
#define TESTS_UNIT_LOAD_HUB_FILES_H

#include <stddef.h>

struct hub_files {
    char folder[64];
};

/* config.json and model.safetensors of one layer, 16 wide, untied. */
void hub_files_open(struct hub_files *files);
/* Removes the folder. */
void hub_files_close(struct hub_files *files);

/* Writes a file, and folders before it where the name has a slash. */
void hub_files_put(
    const struct hub_files *files, const char *name, const void *bytes, size_t count);
void hub_files_text(const struct hub_files *files, const char *name, const char *text);
void hub_files_remove(const struct hub_files *files, const char *name);
/* Puts `to` for the first `from` in a file, which must be there. */
void hub_files_change(
    const struct hub_files *files, const char *name, const char *from, const char *to);
/* The file's bytes, malloc'ed. */
char *hub_files_get(const struct hub_files *files, const char *name, size_t *out_count);

/* A safetensors file from its header's text and `data_bytes` of data, malloc'ed to its exact size.
 * Every number in the data is 0.25 (as F32). */
unsigned char *hub_files_safetensors(const char *header, size_t data_bytes, size_t *out_count);

#endif
