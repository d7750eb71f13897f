/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Downloaded public weights: the tensors of one safetensors file, or of several with an index.
 *
 *     DIRECTORY/model.safetensors                       all tensors, or
 *     DIRECTORY/model.safetensors.index.json            {"metadata": {...}, "weight_map": {"NAME": "FILE", ...}}
 *     DIRECTORY/model-00001-of-00002.safetensors ...    the files that it names
 *
 * Files are mapped, so bytes are read on first access.
 */
#ifndef WEFT_TRAINING_CHECKPOINT_TENSOR_FILES_H
#define WEFT_TRAINING_CHECKPOINT_TENSOR_FILES_H

#include "training/checkpoint/safetensors.h"

#define TENSOR_FILES_MOST 4096 /**< files that an index may name */

struct tensor_files;

/**
 * Open `path`: a .safetensors file, an index (a name that ends in .json), or a directory with one of the two. Errors: DATA
 * for what safetensors_open() refuses, an index whose files and tensors do not agree with it, and a directory with
 * neither; ARGUMENT where nothing is at `path`.
 */
weft_status tensor_files_open(const char *path, struct tensor_files **files, struct error *error);
void tensor_files_close(struct tensor_files *files);

/** The tensors of all files, sorted by name; valid until close. Their `data` may have any alignment. */
size_t tensor_files_count(const struct tensor_files *files);
const struct named_tensor *tensor_files_tensor(const struct tensor_files *files, size_t index);

/** The tensor called `name`, or NULL. */
const struct named_tensor *tensor_files_find(const struct tensor_files *files, const char *name);

/** The file that holds `tensor`, one of these, as error messages name it. */
const char *tensor_files_where(const struct tensor_files *files, const struct named_tensor *tensor);

/** The contents of an index. Names point into the tree. */
struct tensor_index {
    void *root; /**< owns the texts */
    struct {
        const char *tensor, *file;
    } * entries; /**< sorted by tensor */
    size_t count;
    const char **files; /**< each once, sorted */
    size_t file_count;
};

/**
 * Read the text of an index; `where` names it in messages. Errors: DATA for anything but such an object, a tensor named
 * twice, or a file whose name is not that of a .safetensors file in the same directory.
 */
weft_status tensor_index_parse(const char *text, size_t size, const char *where, struct tensor_index *index,
                               struct error *error);
void tensor_index_free(struct tensor_index *index);

#endif
