/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The manifest of a checkpoint: a JSON text with the state that the run needs besides tensors, and every file with its
 * size and SHA-256. Its own last line is its checksum: `"checksum": "<SHA-256 of all bytes before the comma>"`, so that
 * no bit of a checkpoint can change unnoticed.
 */
#ifndef WEFT_TRAINING_CHECKPOINT_MANIFEST_H
#define WEFT_TRAINING_CHECKPOINT_MANIFEST_H

#include "base/format/json.h"
#include "training/checkpoint/checkpoint.h"

#define MANIFEST_MOST ((size_t)64 << 20) /**< bytes of a manifest */

/** A manifest that was read; the trees of `state` lie in `root`. */
struct manifest {
    struct checkpoint_state state;
    const char *library;
    struct checkpoint_record *records;
    size_t count;
    cJSON *root;
};

/** Write the manifest's text; the caller frees `*text`. */
weft_status manifest_format(const struct checkpoint_state *state, const struct checkpoint_record *records, size_t count,
                            char **text, struct error *error);

/** Write the list of files, "files": [{"name", "bytes", "sha256"}, ...]. */
void manifest_put_files(struct json_writer *writer, const struct checkpoint_record *records, size_t count);

/** Append the missing last line to a manifest's text; the caller frees `*text`. */
weft_status manifest_seal(const char *body, size_t size, char **text, struct error *error);

/** Check and read a manifest's text; `where` names it in messages. Errors: DATA. */
weft_status manifest_parse(const char *text, size_t size, const char *where, struct manifest *manifest,
                           struct error *error);
void manifest_free(struct manifest *manifest);

/** Whether `name` is valid for a file of a checkpoint: lowercase letters, digits, '-', and ".safetensors" at the end;
 * or the index, or one of the tokenizer's files. */
bool manifest_file_name_is_good(const char *name);

/** Whether such a file has tensors: it is neither the index nor one of the tokenizer's files. */
bool manifest_file_has_tensors(const char *name);

#endif
