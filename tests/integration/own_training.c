/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What own_training_recovery_test starts: own_training STEPS ZERO OPTIMIZER DIRECTORY WAITS CHANGES [MISTAKE] trains
 * three parameters on ranks that come and go, and prints a checksum of the weights on every rank at the end. The
 * gradient of a micro-batch depends on the weights and on its number. ZERO "2+1": ZeRO-2, with copies of the state after
 * every step. DIRECTORY gets a checkpoint every 100 steps; "-": none. WAITS "150:4,380:+2": steps 150 to 169 wait until there are 4 ranks, steps 380 to 399 until the file
 * CHANGES has 2 bytes, one for each change that the test has made.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/train.h>

enum { PARAMETERS = 3, MICRO_BATCHES = 12, SAVE_EVERY = 100, WAIT_STEPS = 20 }; /* divided equally on 1 to 4 ranks */

static const struct {
    const char *name;
    size_t rows, columns;
} shapes[PARAMETERS] = {{"first", 300, 50}, {"gain", 700, 0}, {"second", 40, 500}};

static size_t size_of(int parameter)
{
    return shapes[parameter].rows * (shapes[parameter].columns ? shapes[parameter].columns : 1);
}

static int fail(const weft_context *context)
{
    fprintf(stderr, "own_training: %s\n", weft_message(context));
    return 1;
}

static weft_status gather_all(weft_training *training)
{
    weft_status status = WEFT_OK;
    for (int p = 0; status == WEFT_OK && p < PARAMETERS; p++)
        status = weft_training_gather(training, p);
    return status;
}

static void release_all(weft_training *training)
{
    for (int p = 0; p < PARAMETERS; p++)
        weft_training_release(training, p);
}

static weft_status begin(weft_context *context, weft_training *training)
{
    weft_status status = gather_all(training);
    for (int p = 0; status == WEFT_OK && weft_comm_rank(weft_world(context)) == 0 && p < PARAMETERS; p++)
        for (size_t i = 0; i < size_of(p); i++)
            weft_training_values(training, p)[i] = (float)(i % 13) * 0.1F - 0.5F;
    if (status == WEFT_OK)
        status = weft_training_share(training);
    release_all(training);
    return status;
}

/* Towards numbers that depend on the micro-batch. */
static void write_gradient(uint64_t micro_batch, int parameter, const float *values, float *gradient)
{
    uint32_t state = (uint32_t)(micro_batch * 2654435761U + (uint32_t)parameter * 40503U + 1);
    for (size_t i = 0; i < size_of(parameter); i++) {
        state = state * 1664525U + 1013904223U;
        gradient[i] = values[i] - (float)(state >> 8) * 0x1p-24F;
    }
}

static weft_status take_step(weft_training *training)
{
    weft_status status = WEFT_OK;
    for (int left = weft_training_micro_batches(training); status == WEFT_OK && left > 0; left--) {
        const uint64_t micro_batch = weft_training_micro_batch(training);
        status = gather_all(training);
        for (int p = PARAMETERS; status == WEFT_OK && p-- > 0;) {
            write_gradient(micro_batch, p, weft_training_values(training, p), weft_training_gradient(training, p));
            status = weft_training_ready(training, p);
        }
        release_all(training);
        if (status == WEFT_OK)
            status = left > 1 ? weft_training_accumulate(training) : weft_training_step(training, 1e-2, NULL);
    }
    return status;
}

static weft_status print_checksum(weft_context *context, weft_training *training)
{
    uint64_t sum = 0;
    const weft_status status = gather_all(training);
    for (int p = 0; status == WEFT_OK && p < PARAMETERS; p++) {
        const unsigned char *bytes = (const unsigned char *)weft_training_values(training, p);
        for (size_t i = 0; i < size_of(p) * sizeof(float); i++)
            sum = sum * 31 + bytes[i];
    }
    release_all(training);
    if (status == WEFT_OK)
        printf("rank %d of %d: weights %016" PRIx64 "\n", weft_comm_rank(weft_world(context)),
               weft_comm_size(weft_world(context)), sum);
    return status;
}

static bool is_broken(weft_context *context)
{
    weft_status status = weft_group_start(context);
    return weft_group_end(context) != WEFT_OK || status != WEFT_OK;
}

static bool is_there(weft_context *context, const char *what, const char *changes)
{
    struct stat file;
    if (*what == '+')
        return stat(changes, &file) == 0 && file.st_size >= atoi(what);
    return weft_comm_size(weft_world(context)) == atoi(what);
}

/* On rank 0, in the steps of `waits`: until the ranks are to change, or what it waits for is there. */
static void wait_for(weft_context *context, uint64_t step, const char *waits, const char *changes)
{
    for (const char *wait = waits; wait && weft_comm_rank(weft_world(context)) == 0; wait = strchr(wait + 1, ',')) {
        unsigned from = 0;
        char what[16];
        if (sscanf(wait + (*wait == ','), "%u:%15[^,]", &from, what) != 2 || step < from || step >= from + WAIT_STEPS)
            continue;
        while (!is_there(context, what, changes) && !weft_waiting(context) && !is_broken(context))
            usleep(1000);
    }
}

static void say_where(weft_context *context, weft_training *training, uint64_t before)
{
    const uint64_t now = weft_training_steps(training);
    if (!weft_world(context))
        printf("this rank has left after step %" PRIu64 "\n", now);
    else
        printf("%d ranks go on after step %" PRIu64 ", %s by %" PRIu64 "\n", weft_comm_size(weft_world(context)), now,
               now > before   ? "which was brought"
               : now < before ? "which it had passed"
                              : "where it was",
               now > before ? now - before : before - now);
}

int main(int count, char **words)
{
    weft_context *context;
    weft_training *training;
    weft_training_config config = WEFT_TRAINING_CONFIG_DEFAULT;
    if (count < 7)
        return fprintf(stderr, "usage: own_training STEPS ZERO OPTIMIZER DIRECTORY WAITS CHANGES [MISTAKE]\n"), 2;
    const uint64_t steps = strtoull(words[1], NULL, 10);
    const char *directory = strcmp(words[4], "-") == 0 ? NULL : words[4], *mistake = count > 7 ? words[7] : "";
    config.zero = atoi(words[2]);
    config.copy_every = strchr(words[2], '+') ? atoi(strchr(words[2], '+')) : 0;
    config.optimizer = strcmp(words[3], "sgd") == 0    ? WEFT_OPTIMIZER_SGD
                       : strcmp(words[3], "lamb") == 0 ? WEFT_OPTIMIZER_LAMB
                       : strcmp(words[3], "own") == 0  ? WEFT_OPTIMIZER_OWN
                                                       : WEFT_OPTIMIZER_ADAMW;
    config.micro_batches = MICRO_BATCHES;
    config.weight_decay = 0.01;
    config.clip = 1;
    config.bucket_bytes = 1 << 14;
    config.rate_scaling = WEFT_RATE_ROOT;
    if (weft_init(NULL, &context) != WEFT_OK)
        return fail(NULL);
    if (weft_training_open(context, weft_world(context), &config, &training) != WEFT_OK)
        return fail(context);
    for (int i = 0; i < PARAMETERS; i++)
        if (weft_training_parameter(
                training, &(weft_parameter){.name = shapes[i].name, .shape = {shapes[i].rows, shapes[i].columns}}) < 0)
            return fail(context);
    weft_status status = weft_training_start(training);
    if (strcmp(mistake, "recover") == 0 && weft_training_recover(training) != WEFT_OK)
        return fail(context);
    while (weft_world(context)) {
        const uint64_t before = weft_training_steps(training);
        if (status != WEFT_OK || weft_training_waiting(training)) {
            if (weft_training_recover(training) != WEFT_OK)
                return fail(context);
            say_where(context, training, before);
            status = WEFT_OK;
        } else if (weft_training_is_new(training)) {
            status = begin(context, training);
        } else if (before < steps) {
            if (strcmp(mistake, "twice") == 0 && before == 5)
                weft_training_ready(training, 0);
            wait_for(context, before, words[5], words[6]);
            status = take_step(training);
            if (status == WEFT_OK && directory && (before + 1) % SAVE_EVERY == 0)
                status = weft_training_save(training, directory, 2);
            if (status == WEFT_OK && (before + 1) % 10 == 0 && weft_comm_rank(weft_world(context)) == 0)
                printf("step %" PRIu64 ": %d ranks\n", before + 1, weft_comm_size(weft_world(context)));
        } else if ((status = print_checksum(context, training)) == WEFT_OK &&
                   (status = weft_barrier(weft_world(context))) == WEFT_OK) {
            break;
        }
        fflush(stdout);
    }
    weft_training_close(training);
    weft_finalize(context);
    return 0;
}
