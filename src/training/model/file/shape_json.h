/* SPDX-License-Identifier: Apache-2.0 */
/** A model's shape as a flat JSON object, as checkpoints keep it. */
#ifndef WEFT_TRAINING_MODEL_FILE_SHAPE_JSON_H
#define WEFT_TRAINING_MODEL_FILE_SHAPE_JSON_H

#include "base/format/json.h"
#include "training/model/model.h"

/** The kind of a model that belongs to a program that trains through weft/train.h. */
#define SHAPE_KIND_PROGRAM "program"

/** The object of `shape`, which must be complete (of a description); cJSON_Delete() frees it. NULL if memory is out. */
cJSON *shape_to_json(const struct model_shape *shape);

/** The shape in such an object; `where` names it in messages. Errors: DATA for a key that is missing or of the wrong
 * kind, and for a model of SHAPE_KIND_PROGRAM, which has no shape. */
weft_status shape_from_json(const cJSON *object, const char *where, struct model_shape *shape, struct error *error);

#endif
