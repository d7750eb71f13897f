/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/internal/run_data.h"

#include "training/data/dataset.h"
#include "training/data/random_source.h"

#include <string.h>

static weft_status open_tokens(const struct run_data_options *options, const struct model_description *description,
                               struct sample_source **source, double *bytes_per_token, struct error *error)
{
    const struct dataset_options tokens = {.sequence = options->sequence,
                                           .seed = options->seed,
                                           .vocabulary = description->shape.vocabulary,
                                           .tokenizer = options->text->tokenizer};
    struct dataset *dataset;
    const weft_status status = strcmp(options->data, "random") == 0
                                   ? dataset_open_random(&tokens, &dataset, error)
                                   : dataset_open(&options->data, 1, &tokens, &dataset, error);
    if (status != WEFT_OK)
        return status;
    if (dataset_bytes_per_token(dataset) > 0)
        *bytes_per_token = dataset_bytes_per_token(dataset);
    *source = dataset_source(dataset);
    return WEFT_OK;
}

weft_status run_data_open(const struct run_data_options *options, const struct model_description *description,
                          struct sample_source **source, double *bytes_per_token, struct error *error)
{
    const struct model_inputs inputs = model_inputs_of(description, options->sequence);
    if (inputs.elements[INPUT_TOKENS] && !inputs.elements[INPUT_LENGTHS])
        return open_tokens(options, description, source, bytes_per_token, error);
    if (strcmp(options->data, "random") == 0)
        return random_source_open(&inputs, options->seed, source, error);
    return error_set(error, WEFT_ERROR_ARGUMENT, "a model of kind %s cannot read '%s'", description->shape.kind,
                     options->data);
}
