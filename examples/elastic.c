/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learns to guess the next byte of a text from the one before it, on ranks that come and go; whatever happens to
 * them, the checksum of the weights at the end is the same. docs/tutorials/own-training.md describes it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/train.h>

enum { BYTES = 256, SAMPLES = 64 };

static unsigned char text[1 << 20];
static size_t length;

static int fail(const weft_context *context)
{
    fprintf(stderr, "%s\n", weft_message(context));
    return 1;
}

/* The loss of guessing text[1] from text[0]; its gradient is added to `gradients`. */
static double learn(const unsigned char *sample, const float *values, float *gradients)
{
    const float *logits = values + sample[0] * BYTES;
    float *to_logits = gradients + sample[0] * BYTES, sum = 0;
    for (int b = 0; b < BYTES; b++)
        sum += expf(logits[b]);
    for (int b = 0; b < BYTES; b++)
        to_logits[b] += (expf(logits[b]) / sum - (float)(b == sample[1])) / SAMPLES;
    return log((double)sum) - (double)logits[sample[1]];
}

/* Set the initial values, on rank 0 for all. */
static weft_status begin(weft_training *training)
{
    float *values = weft_training_values(training, 0);
    for (int i = 0; i < BYTES * BYTES; i++)
        values[i] = 1e-3F * (float)(i % 7);
    return weft_training_share(training);
}

/* A step, with the arrays and the micro-batches that this rank has now. */
static weft_status take_step(weft_context *context, weft_training *training)
{
    weft_training_result result = {0};
    const float *values = weft_training_values(training, 0);
    float *gradients = weft_training_gradient(training, 0);
    for (int left = weft_training_micro_batches(training); left > 0; left--) {
        const uint64_t first = weft_training_micro_batch(training) * SAMPLES;
        double loss = 0;
        memset(gradients, 0, BYTES * BYTES * sizeof *gradients);
        for (uint64_t sample = first; sample < first + SAMPLES; sample++)
            loss += learn(text + sample * 7919 % (length - 1), values, gradients);
        weft_training_note(training, 0, loss / SAMPLES);
        weft_training_ready(training, 0);
        const weft_status status =
            left > 1 ? weft_training_accumulate(training) : weft_training_step(training, 1e-2, &result);
        if (status != WEFT_OK)
            return status;
    }
    if (result.step % 500 == 0 && weft_comm_rank(weft_world(context)) == 0)
        printf("step %5d  %.3f bit/byte on %d ranks\n", (int)result.step, result.notes[0] / log(2),
               weft_comm_size(weft_world(context)));
    fflush(stdout);
    return WEFT_OK;
}

int main(int count, char **words)
{
    FILE *file = count == 3 ? fopen(words[1], "rb") : NULL;
    length = file ? fread(text, 1, sizeof text, file) : 0;
    if (length < 2)
        return fprintf(stderr, "usage: elastic TEXT STEPS, with a text to read\n"), 1;
    const uint64_t steps = strtoull(words[2], NULL, 10);

    weft_context *context = NULL;
    weft_training *training;
    weft_training_config config = WEFT_TRAINING_CONFIG_DEFAULT;
    config.optimizer = WEFT_OPTIMIZER_ADAMW;
    config.micro_batches = 8; /* on 1 to 8 ranks */
    if (weft_init(NULL, &context) != WEFT_OK ||
        weft_training_open(context, weft_world(context), &config, &training) != WEFT_OK ||
        weft_training_parameter(training, &(weft_parameter){.name = "table", .shape = {BYTES, BYTES}}) < 0)
        return fail(context);

    weft_status status = weft_training_start(training);
    while (weft_world(context)) { /* NULL: this rank has left */
        if (status != WEFT_OK || weft_training_waiting(training)) {
            if ((status = weft_training_recover(training)) != WEFT_OK)
                return fail(context);
        } else if (weft_training_is_new(training)) {
            status = begin(training);
        } else if (weft_training_steps(training) < steps) {
            status = take_step(context, training);
        } else if ((status = weft_barrier(weft_world(context))) == WEFT_OK) { /* all have done the last step */
            break;
        }
    }
    if (weft_world(context)) {
        uint64_t sum = 0;
        const unsigned char *bytes = (const unsigned char *)weft_training_values(training, 0);
        for (size_t i = 0; i < BYTES * BYTES * sizeof(float); i++)
            sum = sum * 31 + bytes[i];
        printf("rank %d: weights %016llx\n", weft_comm_rank(weft_world(context)), (unsigned long long)sum);
    }
    weft_training_close(training);
    weft_finalize(context); /* a rank that is lost from now on changes nothing */
    return 0;
}
