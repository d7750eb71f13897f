/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Text generation: a model continues a prompt, and the text is printed as it is produced.
 *
 * Several samples may follow one prompt; sample n draws its token i with number n x 2^32 + i of the seed's stream, so
 * its text does not depend on other samples. Belongs to one thread at a time, as the device does.
 */
#ifndef WEFT_TRAINING_TRAIN_STATE_GENERATION_H
#define WEFT_TRAINING_TRAIN_STATE_GENERATION_H

#include "training/model/model.h"
#include "training/model/sample.h"
#include "training/train/text/text.h"

#include <signal.h>
#include <stdio.h>

struct generation_options {
    const char *prompt; /**< it and `stops` must outlive the generation */
    size_t prompt_size; /**< bytes; 0: begin with the vocabulary's end-of-text token */
    size_t tokens;      /**< of a sample, at most; below 2^32 */
    size_t window; /**< tokens that the model looks back to; 0: all, up to its context (training/model/decoder.h) */
    struct sample_options sampling;
    const char *const *stops; /**< a sample ends before the first of these strings; none is empty */
    size_t stop_count;
    bool echo;                                /**< print the prompt before each sample */
    const volatile sig_atomic_t *interrupted; /**< ends a sample once it is not 0; may be NULL */
};

/** Why a sample ended. */
enum generation_end {
    GENERATION_TOKENS,      /**< the requested number was generated */
    GENERATION_STOP,        /**< a stop string was generated */
    GENERATION_END_OF_TEXT, /**< the end-of-text token was generated */
    GENERATION_INTERRUPTED,
};
#define GENERATION_ENDS 4

/** "tokens", "stop", "end-of-text", "interrupted", by enum generation_end. */
extern const char *const generation_end_names[GENERATION_ENDS];

struct generation_result {
    enum generation_end end;
    size_t tokens;        /**< that were drawn, an end-of-text token not included */
    size_t forgotten;     /**< tokens of prompt and sample that the model no longer looked back to at the end */
    double read_seconds;  /**< from the prompt to the first token */
    double write_seconds; /**< from there to the end: a pass of one row for each token but the first */
};

struct generation;

/**
 * Encode the prompt and open a model of `description` on `device` that reads it. All arguments must outlive the
 * generation, and text_is_known() must be true for `text`. Errors: ARGUMENT for an empty prompt where the vocabulary
 * has no end-of-text token; MEMORY.
 */
weft_status generation_open(const struct model_description *description, struct device *device, const void *parameters,
                            const struct text *text, const struct generation_options *options,
                            struct generation **generation, struct error *error);
void generation_close(struct generation *generation);

/** Tokens of the prompt. */
size_t generation_prompt_tokens(const struct generation *generation);

/**
 * Write sample number `sample`, from 0, to `output`, each part as soon as it is certain (text_stream.h); on a terminal
 * without control characters. Errors: DATA for logits that are not finite; SYSTEM if `output` cannot be written.
 */
weft_status generation_write(struct generation *generation, uint64_t sample, FILE *output, bool is_terminal,
                             struct generation_result *result, struct error *error);

#endif
