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
 * Numbers with a default may be left out or be 0. A file that is accepted can be passed to model_describe().
 */
#ifndef WEFT_TRAINING_MODEL_FILE_MODEL_FILE_H
#define WEFT_TRAINING_MODEL_FILE_MODEL_FILE_H

#include "training/model/model.h"

/** Whether `name` is a path and not a named size: it has a slash, or ends in .yaml or .yml. */
bool model_file_is_named(const char *name);

/**
 * The shape called `name`: read from a file if model_file_is_named(), otherwise a named size (model_shape_find()).
 * Errors: ARGUMENT for an unknown size; SYSTEM for a file that cannot be read; DATA, with file and line, for an invalid
 * file.
 */
weft_status model_shape_load(const char *name, struct model_shape *shape, struct error *error);

/** The shape that `size` bytes of YAML describe; `where` names them in messages. Errors: DATA. */
weft_status model_file_parse(const char *text, size_t size, const char *where, struct model_shape *shape,
                             struct error *error);

#endif
