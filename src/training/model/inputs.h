/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The arrays of a micro-batch that networks read: tokens and targets of a language model, segments and padding of a
 * BERT, pixels of an image model. Each kind of network reads some of them. What loads data fills those, and only on ranks
 * whose layers read them.
 */
#ifndef WEFT_TRAINING_MODEL_INPUTS_H
#define WEFT_TRAINING_MODEL_INPUTS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model_description;
struct model_shape;

/** The order is that of the named members of struct model_batch. */
enum model_input {
    INPUT_TOKENS,
    INPUT_TARGETS,
    INPUT_SEGMENTS,
    INPUT_LENGTHS,
    INPUT_POSITIONS,
    INPUT_LABELS,
    INPUT_PIXELS,
    INPUT_SHARES,
    MODEL_INPUTS
};

/** The layers that read an input. */
enum model_input_readers {
    READ_BY_FIRST,
    READ_BY_LAST,
    READ_BY_ALL,
};

/** The arrays of a micro-batch, row by row. Those that are not read are NULL. */
struct model_arrays {
    union {
        void *of[MODEL_INPUTS];
        struct {
            int32_t *tokens;    /**< batch x sequence */
            int32_t *targets;   /**< what is predicted: of a language model batch x sequence tokens; of a masked one
                                   batch x predictions, -1 where a sample has fewer; of an image model batch x 2
                                   classes, for mixed samples */
            int32_t *segments;  /**< batch x sequence: 0 or 1 */
            int32_t *lengths;   /**< batch: tokens of a sample before its padding */
            int32_t *positions; /**< batch x predictions: the rows within the sample that targets belong to */
            int32_t *labels;    /**< batch: the class of a whole text */
            float *pixels;      /**< batch x height x width x channels, normalized */
            float *shares;      /**< batch x 2: the weights of the targets of mixed samples; they add up to 1 */
        };
    };
};

struct model_input_kind {
    const char *name; /**< for messages: "target" */
    weft_type type;   /**< WEFT_I32 or WEFT_F32 */
    enum model_input_readers readers;
};

extern const struct model_input_kind model_input_kinds[MODEL_INPUTS];

/** What a network reads of a micro-batch of samples of `sequence` tokens. */
struct model_inputs {
    size_t elements[MODEL_INPUTS]; /**< for each sample; 0: it does not read it */
    int64_t least[MODEL_INPUTS];   /**< bounds of integers */
    int64_t most[MODEL_INPUTS];
};

/** A language model reads tokens and the targets one further, both batch x sequence; networks say what else there is. */
struct model_inputs model_inputs_of(const struct model_description *description, size_t sequence);

/** The same before there is a description, of a shape that may lack numbers that have defaults; one without
 * a kind is that of a language model. */
struct model_inputs model_shape_inputs(const struct model_shape *shape, size_t sequence);

/** What the samples of a network are. */
enum model_samples {
    SAMPLES_OF_TOKENS, /**< neighboring tokens, for the next ones to be predicted */
    SAMPLES_OF_TEXTS,  /**< one or two texts with padding */
    SAMPLES_OF_IMAGES,
};

enum model_samples model_samples_of(const struct model_shape *shape);

/** Whether a rank with these layers reads an input (`layers` NULL: it has all). */
bool model_reads_input(const struct model_description *description, const bool *layers,
                       const struct model_inputs *inputs, enum model_input input);

/** Bytes of a micro-batch of `batch` samples. */
size_t model_input_bytes(const struct model_inputs *inputs, enum model_input input, size_t batch);

/** The predictions of a masked language model for each sample: at most 15 % of its tokens (Devlin et al. 2018, "BERT"). */
static inline size_t model_masked_predictions(size_t sequence)
{
    return (sequence * 15 + 99) / 100;
}

/** Allocate the arrays that these layers read of a micro-batch, in host memory, with a sample that is possible: the least
 * numbers that are not negative, without padding. Free with model_arrays_free(), also after a failure. Errors: MEMORY. */
weft_status model_arrays_allocate(const struct model_description *description, const bool *layers, size_t sequence,
                                  size_t batch, struct model_arrays *arrays, struct error *error);
void model_arrays_free(struct model_arrays *arrays);

#endif
