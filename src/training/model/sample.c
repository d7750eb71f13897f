/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/sample.h"

#include "base/random.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static weft_status find_likeliest(const double *logits, size_t count, size_t *likeliest, struct error *error)
{
    size_t best = 0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return error_set(error, WEFT_ERROR_DATA,
                             "the model gives token %zu a logit of %s: its weights are damaged, or its training "
                             "diverged; take an earlier checkpoint",
                             i, isnan(logits[i]) ? "nan" : "inf");
        if (logits[i] > logits[best])
            best = i;
    }
    if (count < 1 || logits[best] == -INFINITY)
        return error_set(error, WEFT_ERROR_DATA, "the model leaves no token to draw: every logit is -inf");
    *likeliest = best;
    return WEFT_OK;
}

/* ---- the likeliest first ---- */

/* The value at `place` of a heap, largest first, goes down to where it belongs. */
static void heap_sink(double *heap, size_t count, size_t place)
{
    const double value = heap[place];
    for (size_t below; (below = 2 * place + 1) < count; place = below) {
        if (below + 1 < count && heap[below + 1] > heap[below])
            below++;
        if (heap[below] <= value)
            break;
        heap[place] = heap[below];
    }
    heap[place] = value;
}

/* Take the largest out of a heap of *count. */
static double sample_heap_pop(double *heap, size_t *count)
{
    const double largest = heap[0];
    heap[0] = heap[--*count];
    heap_sink(heap, *count, 0);
    return largest;
}

/* The tokens that may be drawn: logits above `least`, and as many that equal it, from the lowest token on. */
struct sample_choice {
    double least;
    size_t equal;
};

static double sample_weight_of(double logit, double largest, const struct sample_options *options)
{
    return exp((logit - largest) / options->temperature);
}

/* The share top_p refers to the tokens that top_k leaves. Heap and popped values share `scratch`, of 2 x count. */
static struct sample_choice sample_choose(const double *logits, size_t count, double largest,
                                          const struct sample_options *options, double *scratch)
{
    const bool by_share = options->top_p > 0 && options->top_p < 1;
    const size_t most = options->top_k > 0 && options->top_k < count ? options->top_k : count;
    struct sample_choice choice = {.least = -INFINITY, .equal = count};
    if (most == count && !by_share)
        return choice;
    double *heap = scratch, *popped = scratch + count, total = 0, sum = 0;
    size_t left = count, kept = 0;
    memcpy(heap, logits, count * sizeof *heap);
    for (size_t i = count / 2; i-- > 0;)
        heap_sink(heap, count, i);
    for (size_t i = 0; most == count && i < count; i++)
        total += sample_weight_of(logits[i], largest, options);
    while (kept < most && (most < count || sum < options->top_p * total)) {
        popped[kept] = sample_heap_pop(heap, &left);
        sum += sample_weight_of(popped[kept++], largest, options);
    }
    if (by_share && most < count) {
        total = sum;
        sum = 0;
        kept = 0;
        while (kept < most && sum < options->top_p * total)
            sum += sample_weight_of(popped[kept++], largest, options);
    }
    choice.least = popped[kept - 1];
    for (choice.equal = 0; choice.equal < kept && popped[kept - 1 - choice.equal] == choice.least;)
        choice.equal++;
    return choice;
}

weft_status sample_draw(const double *logits, size_t count, const struct sample_options *options, uint64_t index,
                        double *scratch, int32_t *token, struct error *error)
{
    size_t best = 0;
    weft_status status = find_likeliest(logits, count, &best, error);
    if (status != WEFT_OK)
        return status;
    *token = (int32_t)best;
    if (options->temperature <= 0)
        return WEFT_OK;
    struct sample_choice choice = sample_choose(logits, count, logits[best], options, scratch);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const bool may = logits[i] > choice.least || (logits[i] == choice.least && choice.equal > 0);
        choice.equal -= logits[i] == choice.least && choice.equal > 0;
        scratch[i] = may ? sample_weight_of(logits[i], logits[best], options) : 0;
        sum += scratch[i];
    }
    double drawn = random_uniform(options->seed, index) * sum;
    for (size_t i = 0; i < count; i++) {
        drawn -= scratch[i];
        if (drawn < 0) {
            *token = (int32_t)i;
            return WEFT_OK;
        }
    }
    return WEFT_OK; /* beyond the last token because of rounding: the likeliest token */
}
