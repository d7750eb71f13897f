/* SPDX-License-Identifier: Apache-2.0 */
/* Learns to guess the next byte of a text from the four before it: docs/tutorials/own-training.md walks through it. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <weft/train.h>

enum { BYTES = 256, WINDOW = 4, SAMPLES = 64, STEPS = 1000 };

/* How much each byte at each place before speaks for each next byte. */
typedef float table[BYTES][BYTES];

/* The loss of guessing text[WINDOW] from the bytes before it; its gradient is added to `gradients`. */
static double learn(const unsigned char *text, table *values[], table *gradients[])
{
    float logits[BYTES] = {0}, sum = 0;
    for (int w = 0; w < WINDOW; w++)
        for (int b = 0; b < BYTES; b++)
            logits[b] += (*values[w])[text[w]][b];
    for (int b = 0; b < BYTES; b++)
        sum += expf(logits[b]);
    for (int w = 0; w < WINDOW; w++)
        for (int b = 0; b < BYTES; b++)
            (*gradients[w])[text[w]][b] += (expf(logits[b]) / sum - (b == text[WINDOW])) / SAMPLES;
    return log((double)sum) - (double)logits[text[WINDOW]];
}

static int fail(const weft_context *context)
{
    fprintf(stderr, "%s\n", weft_message(context));
    return 1;
}

int main(int count, char **arguments)
{
    static unsigned char text[1 << 23];
    FILE *file = count == 3 ? fopen(arguments[1], "rb") : NULL;
    size_t length = file ? fread(text, 1, sizeof text, file) : 0;
    if (length <= WINDOW)
        return fprintf(stderr, "usage: next_byte TEXT DIRECTORY, with a text to read\n"), 1;

    weft_context *context;
    weft_training *training;
    weft_training_config config = WEFT_TRAINING_CONFIG_DEFAULT;
    config.optimizer = WEFT_OPTIMIZER_ADAMW;
    config.micro_batches = 8; /* on 1 to 8 ranks: the same weights, bit for bit */
    if (weft_init(NULL, &context) != WEFT_OK)
        return fail(NULL);
    if (weft_training_open(context, weft_world(context), &config, &training) != WEFT_OK)
        return fail(context);
    for (int w = 0; w < WINDOW; w++) {
        char name[16];
        snprintf(name, sizeof name, "table.%d", w);
        if (weft_training_parameter(training, &(weft_parameter){.name = name, .shape = {BYTES, BYTES}}) < 0)
            return fail(context);
    }
    bool found;
    if (weft_training_start(training) != WEFT_OK || weft_training_load(training, arguments[2], &found) != WEFT_OK)
        return fail(context);

    /* All values begin as 0, on every rank; others would now be set, and given to all by weft_training_share(). */
    table *values[WINDOW], *gradients[WINDOW];
    for (int w = 0; w < WINDOW; w++) {
        values[w] = (table *)weft_training_values(training, w);
        gradients[w] = (table *)weft_training_gradient(training, w);
    }
    const int share = weft_training_micro_batches(training);
    while (weft_training_steps(training) < STEPS) {
        weft_training_result result;
        weft_status status = WEFT_OK;
        for (int i = 0; i < share && status == WEFT_OK; i++) {
            uint64_t sample = weft_training_micro_batch(training) * SAMPLES, last = sample + SAMPLES;
            double loss = 0;
            for (int w = 0; w < WINDOW; w++)
                memset(gradients[w], 0, sizeof *gradients[w]);
            for (; sample < last; sample++)
                loss += learn(text + sample * 7919 % (length - WINDOW), values, gradients);
            weft_training_note(training, 0, loss / SAMPLES);
            for (int w = 0; w < WINDOW; w++)
                weft_training_ready(training, w);
            status = i + 1 < share ? weft_training_accumulate(training) : weft_training_step(training, 1e-2, &result);
        }
        if (status == WEFT_OK && weft_training_steps(training) % 250 == 0) {
            if (weft_comm_rank(weft_world(context)) == 0)
                printf("step %4d  %.3f bit/byte\n", (int)result.step, result.notes[0] / log(2));
            status = weft_training_save(training, arguments[2], 2);
        }
        if (status != WEFT_OK)
            return fail(context);
    }
    weft_training_close(training);
    return weft_finalize(context) == WEFT_OK ? 0 : fail(NULL);
}
