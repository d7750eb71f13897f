/* SPDX-License-Identifier: Apache-2.0 */
/** An opened checkpoint, for the files of this module only. */
#ifndef WEFT_TRAINING_CHECKPOINT_INTERNAL_OPENED_H
#define WEFT_TRAINING_CHECKPOINT_INTERNAL_OPENED_H

#include "base/file/file.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/manifest.h"

struct checkpoint_file {
    struct file_map map;
    struct safetensors *tensors; /* its data lies in `map`; NULL: the index */
};

struct checkpoint {
    char directory[FILE_PATH_BYTES];
    struct manifest manifest;
    struct checkpoint_file *files; /* one for each of the manifest's records */

    const struct named_tensor **pieces; /* of all files, sorted by name and place */
    size_t piece_count;
    struct named_tensor *tensors; /* one for each name, sorted */
    size_t *first_pieces;         /* tensor i has pieces first_pieces[i] up to first_pieces[i + 1] */
    size_t tensor_count;
};

#endif
