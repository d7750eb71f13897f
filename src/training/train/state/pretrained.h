/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Weights that a run or an evaluation begins with: a checkpoint of Weft, or downloaded public weights
 * (training/checkpoint/tensor_files.h) with the shape in their config.json (training/model/file/public_config.h).
 *
 * Public names may have the prefix "transformer.", and "gamma" and "beta" in norms of a BERT; f16 and bf16 are converted
 * to f32. Besides the model's tensors a file may contain masks, frequencies and positions that are not weights
 * ("h.0.attn.bias", "h.0.attn.masked_bias", "rotary_emb.inv_freq", "bert.embeddings.position_ids"), which are ignored, and
 * the "lm_head.weight" or "cls.predictions.decoder.weight" of a model whose head is the embedding table, which must then
 * have that table's bits. Anything else belongs to another network, and is refused.
 *
 * Files are mapped and converted tensor by tensor, so reading takes no memory besides the flat array.
 */
#ifndef WEFT_TRAINING_TRAIN_STATE_PRETRAINED_H
#define WEFT_TRAINING_TRAIN_STATE_PRETRAINED_H

#include "base/format/json.h"
#include "training/model/model.h"

struct pretrained;

/** Open `path`: a checkpoint, a directory of checkpoints (the newest one), a safetensors file, a directory with such files.
 */
weft_status pretrained_open(const char *path, struct pretrained **pretrained, struct error *error);
void pretrained_close(struct pretrained *pretrained);

/** The shape of the weights; NULL if it is not known. */
const struct model_shape *pretrained_shape(const struct pretrained *pretrained);

/** One line of text: the source and the element types. Lives as long as `pretrained`. */
const char *pretrained_describe(const struct pretrained *pretrained);

/** The settings of the run that wrote the weights; NULL for public ones. Lives as long as `pretrained`. */
const cJSON *pretrained_settings(const struct pretrained *pretrained);

/** The names of the classes that the weights have learned, an array; NULL if they are not known. Lives as long as
 * `pretrained`. */
const cJSON *pretrained_class_names(const struct pretrained *pretrained);

/** Steps taken by the run that wrote the weights; 0 for public ones. */
uint64_t pretrained_step(const struct pretrained *pretrained);

/**
 * Fill the flat array of f32 `parameters`, gaps included. Errors: DATA, with the first tensor that is missing, of
 * another shape (expected and found), of a type other than f32, f16 or bf16, or not the model's; all this is checked
 * before anything is written. DATA, too, with tensor and file, for an element that is infinite or NaN; `parameters` are
 * then undefined.
 */
weft_status pretrained_read(const struct pretrained *pretrained, const struct model_description *description,
                            float *parameters, struct error *error);

/** Whether the weights have another head than a network that classifies, or one of another number of classes: its
 * classifier is new. */
bool pretrained_lacks_head(const struct pretrained *pretrained, const struct model_description *description);

/** As pretrained_read(), but the network's classifier is new: it keeps the values in `parameters`, and the weights' own
 * head is not used. */
weft_status pretrained_read_body(const struct pretrained *pretrained, const struct model_description *description,
                                 float *parameters, struct error *error);

/** "new: classifier.weight, classifier.bias; not used: cls.predictions.bias, ...", cut to `size`; returns `text`. */
char *pretrained_head_changes(const struct pretrained *pretrained, const struct model_description *description,
                              char *text, size_t size);

/**
 * Rank 0 opens `path` and broadcasts the shape. Collective; *pretrained is NULL on the other ranks, and *known is
 * whether the shape is known. Fails on all ranks or on none; *speaks as in training/parallel/agreement.h.
 */
weft_status pretrained_open_together(const char *path, weft_context *context, weft_comm *comm,
                                     struct pretrained **pretrained, struct model_shape *shape, bool *known,
                                     bool *speaks, struct error *error);

#endif
