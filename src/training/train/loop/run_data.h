/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The samples of a run, an evaluation or a prediction: which source reads the data depends on the kind of network, and
 * the data may decide how many classes it has.
 */
#ifndef WEFT_TRAINING_TRAIN_LOOP_RUN_DATA_H
#define WEFT_TRAINING_TRAIN_LOOP_RUN_DATA_H

#include "base/format/json.h"
#include "training/data/image/images.h"
#include "training/model/model.h"
#include "training/train/state/config.h"
#include "training/train/text/text.h"

struct run_data_options {
    const char *data;           /**< a path, or "random" */
    uint64_t sequence;          /**< tokens of a sample */
    uint64_t seed;              /**< of order and random numbers */
    const struct text *text;    /**< of tokens; its tokenizer is needed until run_data_open() returns */
    bool classify;              /**< texts have labels */
    bool whole_words;           /**< all pieces of a word are masked, or none */
    bool classes_chosen;        /**< the data must have the classes of the weights; otherwise the data decides */
    struct image_choice images; /**< of images */
    struct image_normalization normalization; /**< of images that weights were trained on; deviation[0] 0: the data's */
    const cJSON *class_names; /**< with classes_chosen, on rank 0: pretrained_class_names(); NULL: not known */
};

/** Whether the data decides how many classes a network has, so that it must be open before the network is described. */
bool run_data_decides_classes(const struct run_data_options *options, const struct model_shape *shape);

/**
 * Open the samples that a network of `shape` reads, whose classes are set to those of the data. *bytes_per_token is set
 * where the data is text of a language model. Errors: those of the source; ARGUMENT where the network cannot read such
 * data; DATA for other classes than those of the weights.
 */
weft_status run_data_open(const struct run_data_options *options, struct model_shape *shape,
                          struct sample_source **source, double *bytes_per_token, struct error *error);

/** How the run that wrote weights read its samples. */
struct run_data_habits {
    struct image_normalization normalization; /**< all 0: not known */
    enum image_changes changes;               /**< of images; they decide the crop of an evaluation */
    uint64_t sequence;                        /**< 0: not known */
};

/** From the settings of a run (pretrained_settings()), or NULL. */
struct run_data_habits run_data_habits_of(const cJSON *settings);

/** The first class of a source that is not called as in `names`; the number of its classes if there is none. `names` NULL:
 * names are not known. */
size_t run_data_other_class(const cJSON *names, const struct sample_source *source);

/** How often read() has replaced damaged images by others; 0 where there are no images. */
uint64_t run_data_skipped(const struct sample_source *source, const struct model_shape *shape);

/** How images of a network of `shape` are read. */
struct images_options run_data_images(const struct run_data_options *options, const struct model_shape *shape);

#endif
