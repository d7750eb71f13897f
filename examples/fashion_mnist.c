/* SPDX-License-Identifier: Apache-2.0 */
/* Learns to tell ten kinds of clothes apart, in the seven steps of data-parallel training: docs/tutorials/seven-steps.md
 * walks through it. */
#define _GNU_SOURCE
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/train.h>
#include <zlib.h>

enum { PIXELS = 784, HIDDEN = 128, CLASSES = 10, BATCH = 32, WARMUP = 200, TRAINING = 60000, TEST = 10000 };
enum { HIDDEN_WEIGHT, HIDDEN_BIAS, OUT_WEIGHT, OUT_BIAS, PARAMETERS };

static const weft_parameter parameters[PARAMETERS] = {{.name = "hidden.weight", .shape = {PIXELS, HIDDEN}},
                                                      {.name = "hidden.bias", .shape = {HIDDEN}},
                                                      {.name = "out.weight", .shape = {HIDDEN, CLASSES}},
                                                      {.name = "out.bias", .shape = {CLASSES}}};

static int fail(const weft_context *context)
{
    fprintf(stderr, "%s\n", weft_message(context));
    return 1;
}

/* `count` bytes of a file of the data set, after its header. */
static unsigned char *read_data(const char *directory, const char *name, size_t header, size_t count)
{
    char path[4096];
    unsigned char *bytes = malloc(header + count);
    snprintf(path, sizeof path, "%s/%s.gz", directory, name);
    gzFile file = gzopen(path, "rb");
    if (!bytes || !file || gzread(file, bytes, (unsigned)(header + count)) != (int)(header + count)) {
        fprintf(stderr, "cannot read '%s' (Debian: apt install dataset-fashion-mnist)\n", path);
        exit(1);
    }
    gzclose(file);
    return memmove(bytes, bytes + header, count);
}

/* Probabilities of the classes of one image, and what the hidden layer makes of it. */
static void classify(float *const values[], const unsigned char *image, float hidden[HIDDEN], float out[CLASSES])
{
    float sum = 0;
    memcpy(hidden, values[HIDDEN_BIAS], HIDDEN * sizeof *hidden);
    memcpy(out, values[OUT_BIAS], CLASSES * sizeof *out);
    for (int p = 0; p < PIXELS; p++) {
        const float pixel = (float)image[p] / 255, *weights = values[HIDDEN_WEIGHT] + p * HIDDEN;
        for (int h = 0; h < HIDDEN; h++)
            hidden[h] += pixel * weights[h];
    }
    for (int h = 0; h < HIDDEN; h++)
        hidden[h] = hidden[h] > 0 ? hidden[h] : 0;
    for (int h = 0; h < HIDDEN; h++)
        for (int c = 0; c < CLASSES; c++)
            out[c] += hidden[h] * values[OUT_WEIGHT][h * CLASSES + c];
    for (int c = 0; c < CLASSES; c++)
        sum += out[c] = expf(out[c]);
    for (int c = 0; c < CLASSES; c++)
        out[c] /= sum;
}

/* The loss of one image of a micro-batch; its gradient is added to `gradients`. */
static double learn(float *const values[], float *const gradients[], const unsigned char *image, int label)
{
    float hidden[HIDDEN], out[CLASSES], to_hidden[HIDDEN];
    classify(values, image, hidden, out);
    const double loss = -log((double)out[label] + 1e-30);
    out[label] -= 1;
    for (int c = 0; c < CLASSES; c++)
        gradients[OUT_BIAS][c] += out[c] / BATCH;
    for (int h = 0; h < HIDDEN; h++) {
        to_hidden[h] = 0;
        for (int c = 0; c < CLASSES; c++) {
            gradients[OUT_WEIGHT][h * CLASSES + c] += hidden[h] * out[c] / BATCH;
            to_hidden[h] += hidden[h] > 0 ? out[c] * values[OUT_WEIGHT][h * CLASSES + c] / BATCH : 0;
        }
        gradients[HIDDEN_BIAS][h] += to_hidden[h];
    }
    for (int p = 0; p < PIXELS; p++) {
        const float pixel = (float)image[p] / 255;
        float *to_weights = gradients[HIDDEN_WEIGHT] + p * HIDDEN;
        for (int h = 0; h < HIDDEN; h++)
            to_weights[h] += pixel * to_hidden[h];
    }
    return loss;
}

/* The share of the test images that are recognized. Each rank tries some, and they add up their hits. */
static weft_status test(weft_comm *comm, float *const values[], const unsigned char *images,
                        const unsigned char *labels, double *accuracy)
{
    int32_t hits = 0;
    for (int i = weft_comm_rank(comm); i < TEST; i += weft_comm_size(comm)) {
        float hidden[HIDDEN], out[CLASSES];
        int best = 0;
        classify(values, images + (size_t)i * PIXELS, hidden, out);
        for (int c = 1; c < CLASSES; c++)
            best = out[c] > out[best] ? c : best;
        hits += best == labels[i];
    }
    const weft_status status = weft_allreduce(&hits, &hits, 1, WEFT_I32, WEFT_SUM, comm);
    *accuracy = (double)hits / TEST;
    return status;
}

int main(int count, char **arguments)
{
    const long epochs = count == 4 ? strtol(arguments[3], NULL, 10) : 3;
    if (count < 3 || count > 4 || epochs < 1)
        return fprintf(stderr, "usage: fashion_mnist DATA CHECKPOINTS [EPOCHS], with two directories\n"), 1;
    unsigned char *images = read_data(arguments[1], "train-images-idx3-ubyte", 16, (size_t)TRAINING * PIXELS),
                  *labels = read_data(arguments[1], "train-labels-idx1-ubyte", 8, TRAINING),
                  *test_images = read_data(arguments[1], "t10k-images-idx3-ubyte", 16, (size_t)TEST * PIXELS),
                  *test_labels = read_data(arguments[1], "t10k-labels-idx1-ubyte", 8, TEST);

    /* 1. Initialize. */
    weft_context *context;
    if (weft_init(NULL, &context) != WEFT_OK)
        return fail(NULL);
    weft_comm *world = weft_world(context);
    const int rank = weft_comm_rank(world), ranks = weft_comm_size(world);

    /* 2. Use this rank's share of the host: the processor, or the GPU, of its local rank. */
    cpu_set_t allowed, own;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        int place = weft_comm_local_rank(world) % CPU_COUNT(&allowed), processor = 0;
        for (; !CPU_ISSET(processor, &allowed) || place-- > 0; processor++)
            ;
        CPU_ZERO(&own);
        CPU_SET(processor, &own);
        sched_setaffinity(0, sizeof own, &own);
    }

    /* 3. More ranks compute a larger batch, so steps may be larger: the learning rate grows with the ranks. */
    weft_training_config config = WEFT_TRAINING_CONFIG_DEFAULT;
    config.rate_scaling = WEFT_RATE_LINEAR;

    /* 5. The optimizer averages the gradients over all ranks, bucket by bucket. */
    weft_training *training;
    config.optimizer = WEFT_OPTIMIZER_SGD;
    if (weft_training_open(context, world, &config, &training) != WEFT_OK)
        return fail(context);
    float *values[PARAMETERS], *gradients[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++)
        if (weft_training_parameter(training, &parameters[i]) < 0)
            return fail(context);
    if (weft_training_start(training) != WEFT_OK)
        return fail(context);
    for (int i = 0; i < PARAMETERS; i++) {
        values[i] = weft_training_values(training, i);
        gradients[i] = weft_training_gradient(training, i);
    }

    /* 6. Begin alike: with rank 0's values. */
    for (int i = 0; i < PIXELS * HIDDEN; i++)
        values[HIDDEN_WEIGHT][i] = 0.08F * ((float)rand() / RAND_MAX - 0.5F);
    for (int i = 0; i < HIDDEN * CLASSES; i++)
        values[OUT_WEIGHT][i] = 0.2F * ((float)rand() / RAND_MAX - 0.5F);
    weft_status status = weft_training_share(training);

    const uint64_t epoch = TRAINING / ((uint64_t)BATCH * (uint64_t)ranks), end = (uint64_t)epochs * epoch;
    struct timespec now, before;
    clock_gettime(CLOCK_MONOTONIC, &before);
    while (status == WEFT_OK && weft_training_steps(training) < end) {
        weft_training_result result;
        /* 4. Each rank has its share of the data: a micro-batch of its own in every step. */
        uint64_t image = weft_training_micro_batch(training) * BATCH;
        double loss = 0;
        for (int i = 0; i < PARAMETERS; i++)
            memset(gradients[i], 0,
                   (i == HIDDEN_WEIGHT ? PIXELS * HIDDEN
                    : i == HIDDEN_BIAS ? HIDDEN
                    : i == OUT_WEIGHT  ? HIDDEN * CLASSES
                                       : CLASSES) *
                       sizeof(float));
        for (int i = 0; i < BATCH; i++, image++) {
            const uint64_t which = image * 7919 % TRAINING; /* a permutation: they have no common divisor */
            loss += learn(values, gradients, images + which * PIXELS, labels[which]);
        }
        weft_training_note(training, 0, loss / BATCH);
        for (int i = PARAMETERS; i-- > 0;)
            weft_training_ready(training, i);
        /* 3. The warm-up begins with the rate of one rank. */
        const double warm = weft_training_steps(training) < WARMUP
                                ? ((double)weft_training_steps(training) / WARMUP * (ranks - 1) + 1) / ranks
                                : 1;
        status = weft_training_step(training, 0.02 * warm, &result);
        if (status != WEFT_OK || weft_training_steps(training) % epoch != 0)
            continue;
        double accuracy;
        clock_gettime(CLOCK_MONOTONIC, &now);
        const double seconds = (double)(now.tv_sec - before.tv_sec) + (double)(now.tv_nsec - before.tv_nsec) * 1e-9;
        status = test(world, values, test_images, test_labels, &accuracy);
        if (rank == 0)
            printf("epoch %d: loss %.4f, test accuracy %.4f, %.0f images/s\n", (int)(result.step / epoch),
                   result.notes[0], accuracy, (double)(epoch * BATCH) * ranks / seconds);
        /* 7. Rank 0 writes the checkpoint. */
        if (status == WEFT_OK)
            status = weft_training_save(training, arguments[2], 1);
        clock_gettime(CLOCK_MONOTONIC, &before);
    }
    if (status != WEFT_OK)
        return fail(context);
    weft_training_close(training);
    free(images);
    free(labels);
    free(test_images);
    free(test_labels);
    return weft_finalize(context) == WEFT_OK ? 0 : fail(NULL);
}
