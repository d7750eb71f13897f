/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A file that describes a network: the numbers of struct model_shape by name (training/model/shape.h), in YAML (base/format/yaml.h).
 *
 *     kind: llama        # or "like: smollm-135m", whose numbers are then those that the file leaves out
 *     layers: 6
 *     heads: 8
 *     kv_heads: 2        # "kv-heads", as the option is written, is the same
 *     width: 512
 *     context: 256
 *     vocabulary: 256
 *
 * What has a usual value may be left out or be 0. A description is complete in itself: what is read can be described
 * (model_describe()).
 */
#ifndef WEFT_TRAINING_MODEL_FILE_MODEL_FILE_H
#define WEFT_TRAINING_MODEL_FILE_MODEL_FILE_H

#include "training/model/model.h"

/** Whether `name` is a file's and not that of a size: it has a slash, or ends in .yaml or .yml. */
bool model_file_is_named(const char *name);

/**
 * The shape that `name` stands for: a file's, if model_file_is_named(), or that of a size (model_shape_find()).
 * Errors: ARGUMENT for an unknown size; SYSTEM for a file that cannot be read; DATA, with file and line, for one that
 * is wrong.
 */
weft_status model_shape_load(const char *name, struct model_shape *shape, struct error *error);

/** The shape that `size` bytes of YAML describe; `where` names them in messages. Errors: DATA. */
weft_status model_file_parse(const char *text, size_t size, const char *where, struct model_shape *shape,
                             struct error *error);

#endif
