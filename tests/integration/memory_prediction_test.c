/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a run is known before it: within 5 % of what the process has at its peak, for several shapes and
 * options, so large that the process itself hardly counts. And a run that will not find it does not begin.
 *
 * Ranks are threads of one process, forked for each case: what they share is counted once, as on a machine.
 */
#include "training/train/loop/memory.h"
#include "training/train/loop/trainer.h"

#include "../world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* A sanitizer's own memory is counted, too. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED false
#endif

static const struct train_config common = {
    .model = "a model",
    .data = "random",
    .steps = 2,
    .batch = 4,
    .micro_batch = 4,
    .sequence = 128,
    .seed = 1,
    .rate = 1e-4,
    .floor_share = 1,
    .optimizer = {.kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .trust = 1e-3},
    .clip = 1,
    .gradients = WEFT_F32,
    .bucket_bytes = 1 << 20,
    .threads = 1,
    .prompt = "x",
};

/* One line of /proc/self/status, in bytes. */
static uint64_t status_of(const char *name)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), ": %llu kB", &kib);
    if (file)
        fclose(file);
    return kib * 1024;
}

static int train(weft_context *context, int rank, void *argument)
{
    struct error error = {0};
    struct trainer *trainer = NULL;
    bool speaks;
    FILE *out = fopen("/dev/null", "w"); /* a sample is made where somebody reads it */
    CHECK(out);
    weft_status status =
        trainer_open(argument, context, weft_world(context), rank == 0 ? out : NULL, NULL, &trainer, &speaks, &error);
    if (status == WEFT_OK)
        status = trainer_run(trainer, &speaks, &error);
    trainer_close(trainer);
    fclose(out);
    if (status != WEFT_OK)
        fprintf(stderr, "%s\n", error.text);
    CHECK(status == WEFT_OK);
    return 0;
}

/* What all ranks together are expected to have; threads share a process. */
static uint64_t predict(const struct train_config *config, const struct world *world)
{
    struct model_description *description;
    const uint32_t ranks = (uint32_t)world->ranks, on_each = (uint32_t)world->ranks_per_node;
    uint64_t sum = 0;
    if (model_describe(&config->shape, &description, NULL) != WEFT_OK ||
        parameter_rules_apply(&config->rules, description, NULL) != WEFT_OK)
        return 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct memory_estimate estimate =
            memory_estimate_of(config, description, rank, ranks, on_each ? ranks / on_each : 1);
        sum += memory_estimate_total(&estimate) - (rank ? MEMORY_OF_PROCESS : 0);
    }
    model_description_free(description);
    return sum;
}

/* In a process of its own: 0 if the prediction holds. */
static int compare(const char *what, struct train_config *config, const struct world *world)
{
    const double predicted = (double)predict(config, world), before = (double)status_of("VmRSS");
    if (world_run(world, train, config) != 0)
        return 1;
    const double grown = (double)status_of("VmHWM") - before, off = (grown - predicted) / grown;
    printf("%s: %.1f MiB predicted, %.1f taken (%+.1f%%)\n", what, predicted / 1048576, grown / 1048576, 100 * off);
    return grown < 2e8 || fabs(off) > 0.05;
}

static void expect_prediction(const char *what, const char *size, struct train_config config, int ranks, int on_each)
{
    assert_int_equal(model_shape_find(size, &config.shape, NULL), WEFT_OK);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const int failed = compare(what, &config, &(struct world){.ranks = ranks, .ranks_per_node = on_each});
        fflush(NULL);
        _exit(failed);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        fail_msg("%s: not as predicted, or it failed", what);
}

static void what_is_taken_was_predicted(void **state)
{
    if (SANITIZED)
        skip();
    struct train_config config = common;
    expect_prediction("one rank", "gpt-small", config, 1, 0);
    config.mixed = true;
    config.recompute = MODEL_RECOMPUTE_ALL;
    expect_prediction("bf16, all recomputed", "gpt-small", config, 1, 0);
    config = common;
    config.micro_batch = 1;
    config.optimizer.kind = OPTIMIZER_SGD;
    config.optimizer.momentum = 0.9;
    expect_prediction("sgd, partial sums", "gpt-small", config, 1, 0);
    config = common;
    config.rules.freeze = "wte,wpe,h.0-3";
    config.micro_batch = 16;
    config.batch = 16;
    expect_prediction("frozen layers", "gpt-small", config, 1, 0);
    config.rules.freeze = NULL;
    config.mixed = true;
    expect_prediction("bf16, many tokens", "llama-small", config, 1, 0);
    config = common;
    config.sample = 20;
    expect_prediction("a sample at the end", "llama-small", config, 1, 0);
    config = common;
    config.micro_batch = 1;
    expect_prediction("two ranks", "gpt-small", config, 2, 0);
    config.gradients = WEFT_BF16;
    expect_prediction("two ranks, gradients in bf16", "gpt-small", config, 2, 0);
    config.gradients = WEFT_F32;
    config.zero = 1;
    expect_prediction("four ranks, shards", "gpt-small", config, 4, 0);
    expect_prediction("two ranks on two nodes, shards", "gpt-small", config, 2, 1);
}

/* ---- too little ---- */

static int check(weft_context *context, int rank, void *argument)
{
    struct train_config config = common;
    struct model_description *description;
    struct error error = {0};
    config.sequence = 512;
    CHECK(model_shape_find("gpt-base", &config.shape, &error) == WEFT_OK);
    CHECK(model_describe(&config.shape, &description, &error) == WEFT_OK);
    const struct memory_estimate first = memory_estimate_of(&config, description, 0, 2, 1),
                                 second = memory_estimate_of(&config, description, 1, 2, 1);
    const uint64_t need = memory_estimate_total(&first) + memory_estimate_total(&second);
    const weft_comm *world = weft_world(context);
    CHECK(memory_check(&config, description, world, need, &error) == WEFT_OK);
    CHECK(memory_check(&config, description, world, need - 1, &error) == WEFT_ERROR_MEMORY);
    static const char *const expected[] = {"training needs ",
                                           " MiB of memory for the 2 ranks of this machine (",
                                           " a rank: weights 97.8 MiB",
                                           ", optimizer 195.5 MiB",
                                           "--micro-batch 1 (",
                                           "--recompute all (",
                                           "--zero 1 (",
                                           "--precision bf16 (",
                                           "more machines or a smaller model"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (!strstr(error.text, expected[i])) {
            fprintf(stderr, "said: %s\nand not: %s\n", error.text, expected[i]);
            CHECK(!"the message is complete");
        }
    /* What cannot help is not offered. */
    config.micro_batch = 1;
    config.zero = 1;
    error_clear(&error);
    CHECK(memory_check(&config, description, world, 1000, &error) == WEFT_ERROR_MEMORY);
    CHECK(!strstr(error.text, "--micro-batch") && !strstr(error.text, "--zero"));
    model_description_free(description);
    return 0;
}

static void too_little_memory_is_told_before_any_is_taken(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 2}, check, NULL), 0);
}

static int refuse(weft_context *context, int rank, void *argument)
{
    struct train_config config = common;
    struct error error = {0};
    struct trainer *trainer = NULL;
    bool speaks;
    config.shape = (struct model_shape){
        .kind = "gpt", .layers = 1000, .heads = 64, .width = 65536, .context = 128, .vocabulary = 256};
    CHECK(trainer_open(&config, context, weft_world(context), NULL, NULL, &trainer, &speaks, &error) ==
          WEFT_ERROR_MEMORY);
    CHECK(strstr(error.text, "training needs ") && strstr(error.text, " are available; try "));
    CHECK(!trainer);
    return 0;
}

static void a_run_without_memory_does_not_begin(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 1}, refuse, NULL), 0);
    assert_true(SANITIZED || status_of("VmHWM") < 200u << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_without_memory_does_not_begin),
        cmocka_unit_test(too_little_memory_is_told_before_any_is_taken),
        cmocka_unit_test(what_is_taken_was_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
