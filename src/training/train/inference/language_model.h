/* SPDX-License-Identifier: Apache-2.0 */
/** Weights on a device with their tokenizer, for `weft generate`. */
#ifndef WEFT_TRAINING_TRAIN_INFERENCE_LANGUAGE_MODEL_H
#define WEFT_TRAINING_TRAIN_INFERENCE_LANGUAGE_MODEL_H

#include "training/train/state/pretrained.h"
#include "training/train/text/text.h"

struct language_model_config {
    const struct pretrained *pretrained;
    struct model_shape shape; /**< of these weights */
    const char *from;         /**< the path that they were opened by: their tokenizer lies there */
    const char *tokenizer;    /**< a directory with another one, or a file in it; NULL: that of the weights */
    int threads;
    weft_type activations; /**< and products: WEFT_F32, WEFT_BF16 or WEFT_F16 */
};

struct language_model {
    struct device *device;
    struct model_description *description;
    void *parameters; /**< the flat array, on the device */
    struct text text;
};

/**
 * Read weights and tokenizer. Errors: ARGUMENT without a known tokenizer, and for a tokenizer of more tokens than
 * the model has; MEMORY, before anything is read, if the machine has too little memory; those of device_open(),
 * pretrained_read() and tokenizer_open(). Close with language_model_close(), after an error, too.
 */
weft_status language_model_open(const struct language_model_config *config, struct language_model *model,
                                struct error *error);
void language_model_close(struct language_model *model);

#endif
