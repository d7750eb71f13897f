/* SPDX-License-Identifier: Apache-2.0 */
/** Classes of images and texts by trained weights, for `weft predict`. Belongs to one thread at a time. */
#ifndef WEFT_TRAINING_TRAIN_INFERENCE_PREDICTOR_H
#define WEFT_TRAINING_TRAIN_INFERENCE_PREDICTOR_H

#include "training/train/state/pretrained.h"

struct predictor_config {
    const struct pretrained *pretrained; /**< borrowed until the predictor is closed */
    struct model_shape shape;            /**< of these weights */
    const char *from;                    /**< the path that they were opened by: a tokenizer lies there */
    const char *tokenizer;               /**< a directory with another one; NULL: that of the weights */
    int threads;
    weft_type activations; /**< and products: WEFT_F32, WEFT_BF16 or WEFT_F16 */
};

struct predictor;

/**
 * Read the weights. Errors: ARGUMENT for a network that does not classify, and for texts without a WordPiece tokenizer;
 * MEMORY; those of device_open(), pretrained_read() and tokenizer_open().
 */
weft_status predictor_open(const struct predictor_config *config, struct predictor **predictor, struct error *error);
void predictor_close(struct predictor *predictor);

/** Whether it classifies images; otherwise texts. */
bool predictor_reads_images(const struct predictor *predictor);

/** How many classes there are, and the name of one: its number where the weights do not bring names. The name lives as
 * long as the predictor. */
size_t predictor_classes(const struct predictor *predictor);
const char *predictor_class_name(const struct predictor *predictor, size_t number);

/** The probabilities of all classes. Errors: those of images_read_file() and of the device. */
weft_status predictor_image(struct predictor *predictor, const char *path, double *probabilities, struct error *error);

/** The same of a text, or of two where `other` is not NULL. Errors: those of labeled_encode() and of the device. */
weft_status predictor_text(struct predictor *predictor, const char *text, const char *other, double *probabilities,
                           struct error *error);

#endif
