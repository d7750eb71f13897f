/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sample.h"

#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int32_t likeliest(const double *logits, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

static int compare_falling(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

int32_t sample_draw(const double *logits, size_t count, const struct sample_options *options, uint64_t index,
                    double *scratch)
{
    int32_t best = likeliest(logits, count);
    if (options->temperature <= 0)
        return best;
    double least = -INFINITY, sum = 0;
    if (options->top > 0 && options->top < count) {
        double *sorted = scratch + count;
        memcpy(sorted, logits, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, compare_falling);
        least = sorted[options->top - 1];
    }
    for (size_t i = 0; i < count; i++) {
        scratch[i] = logits[i] >= least ? exp((logits[i] - logits[best]) / options->temperature) : 0;
        sum += scratch[i];
    }
    double drawn = random_uniform(options->seed, index) * sum;
    for (size_t i = 0; i < count; i++) {
        drawn -= scratch[i];
        if (drawn < 0)
            return (int32_t)i;
    }
    return best; /* rounding left a rest behind the last token */
}

weft_status sample_generate(struct model *model, const void *parameters, const int32_t *prompt, size_t prompt_count,
                            const struct sample_options *options, size_t count, int32_t *output,
                            void (*emit)(void *context, int32_t token), void *context, struct error *error)
{
    if (prompt_count < 1)
        return error_set(error, WEFT_ERROR_ARGUMENT, "sampling needs a prompt of at least one token");
    size_t vocabulary = model_get_description(model)->shape.vocabulary, window = model_get_sequence(model);
    double *logits = malloc(3 * vocabulary * sizeof *logits);
    int32_t *seen = malloc((prompt_count + count) * sizeof *seen);
    if (!logits || !seen) {
        free(seen);
        free(logits);
        return error_memory(error, 3 * vocabulary * sizeof *logits + (prompt_count + count) * sizeof *seen, "sampling");
    }
    memcpy(seen, prompt, prompt_count * sizeof *seen);

    /* Tokens [start, read) of `seen` are in the model at positions 0 to read - start - 1. */
    weft_status status = WEFT_OK;
    size_t length = prompt_count, start = length > window ? length - window : 0, read = start;
    for (size_t i = 0; status == WEFT_OK && i < count; i++) {
        if (length - start > window) {
            start = length - (window + 1) / 2;
            read = start;
        }
        status = model_extend(model, parameters, read - start, seen + read, length - read, logits, error);
        if (status != WEFT_OK)
            break;
        read = length;
        output[i] = sample_draw(logits, vocabulary, options, i, logits + vocabulary);
        seen[length++] = output[i];
        if (emit)
            emit(context, output[i]);
    }
    free(seen);
    free(logits);
    return status;
}
