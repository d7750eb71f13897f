/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a run is known before it: within 3 % of what the process has at its peak, for several shapes, meshes
 * and options, so large that the process itself hardly counts. And a run that will not find it does not begin.
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

/* A run, and what all its ranks together are expected to have. Threads share a process. */
struct predicted_run {
    const struct train_config *config;
    _Atomic uint64_t predicted;
};

static int train(weft_context *context, int rank, void *argument)
{
    struct predicted_run *run = argument;
    struct error error = {0};
    struct trainer *trainer = NULL;
    bool speaks;
    FILE *out = fopen("/dev/null", "w"); /* a sample is made where somebody reads it */
    CHECK(out);
    weft_status status = trainer_open(run->config, context, weft_world(context), rank == 0 ? out : NULL, NULL, &trainer,
                                      &speaks, &error);
    if (status == WEFT_OK) {
        run->predicted += trainer_predicted_memory(trainer) - (rank ? MEMORY_OF_PROCESS : 0);
        status = trainer_run(trainer, &speaks, &error);
    }
    trainer_close(trainer);
    fclose(out);
    if (status != WEFT_OK)
        fprintf(stderr, "%s\n", error.text);
    CHECK(status == WEFT_OK);
    return 0;
}

/* In a process of its own: 0 if the prediction holds. */
static int compare(const char *what, struct train_config *config, const struct world *world)
{
    const double before = (double)status_of("VmRSS");
    struct predicted_run run = {.config = config};
    if (world_run(world, train, &run) != 0)
        return 1;
    const double predicted = (double)run.predicted, grown = (double)status_of("VmHWM") - before,
                 off = (grown - predicted) / grown;
    printf("%s: %.1f MiB predicted, %.1f taken (%+.1f%%)\n", what, predicted / 1048576, grown / 1048576, 100 * off);
    return grown < 2e8 || fabs(off) > 0.03;
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
    config.activations = WEFT_BF16;
    config.recompute = MODEL_RECOMPUTE_ALL;
    expect_prediction("bf16, all recomputed", "gpt-small", config, 1, 0);
    config.recompute_layers = 5;
    expect_prediction("bf16, five layers recomputed", "gpt-small", config, 1, 0);
    config.recompute_layers = 0;
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
    config.activations = WEFT_BF16;
    expect_prediction("bf16, many tokens", "llama-small", config, 1, 0);
    config = common;
    config.sample = 20;
    expect_prediction("a sample at the end", "llama-small", config, 1, 0);
}

static void what_ranks_take_was_predicted(void **state)
{
    if (SANITIZED)
        skip();
    struct train_config config = common;
    config.steps = 1;
    config.micro_batch = 1;
    expect_prediction("two ranks", "gpt-small", config, 2, 0);
    config.gradients = WEFT_BF16;
    expect_prediction("two ranks, gradients in bf16", "gpt-small", config, 2, 0);
    config.batch = 8;
    expect_prediction("three ranks, unequal runs in bf16", "gpt-small", config, 3, 0);
    config.gradients = WEFT_F32;
    config.shares = (const uint32_t[]){1, 1, 6};
    config.share_ranks = 3;
    expect_prediction("three ranks, shares of 1, 1 and 6", "gpt-small", config, 3, 0);
    config.shares = NULL;
    config.parameter_server = true;
    expect_prediction("three ranks, a parameter server", "gpt-small", config, 3, 0);
    config.parameter_server = false;
    config.zero = 1;
    expect_prediction("three ranks, unequal runs, ZeRO-1", "gpt-small", config, 3, 0);
    expect_prediction("two ranks on two nodes, ZeRO-1", "gpt-small", config, 2, 1);
    config.zero = 2;
    expect_prediction("four ranks, ZeRO-2", "gpt-small", config, 4, 0);
    config.zero = 3;
    expect_prediction("four ranks, ZeRO-3", "gpt-small", config, 4, 0);
    config.activations = WEFT_BF16;
    config.gradients = WEFT_BF16;
    expect_prediction("three ranks, unequal runs, ZeRO-3 in bf16", "gpt-small", config, 3, 0);
}

static void what_pipelines_take_was_predicted(void **state)
{
    if (SANITIZED)
        skip();
    struct train_config config = common;
    config.steps = 1;
    config.micro_batch = 4;
    config.batch = 16;
    config.mesh = "pipeline=2";
    for (config.schedule = STEP_GPIPE; config.schedule <= STEP_ZERO_BUBBLE_H1; config.schedule++)
        expect_prediction(step_pipeline_name(config.schedule), "gpt-small", config, 2, 0);
    config.schedule = STEP_ZERO_BUBBLE_H1;
    config.activations = WEFT_BF16;
    config.recompute = MODEL_RECOMPUTE_ALL;
    expect_prediction("zb-h1 in bf16, recomputed", "llama-small", config, 2, 0);
    config.activations = WEFT_F32;
    config.recompute = MODEL_RECOMPUTE_NOTHING;
    config.schedule = STEP_1F1B;
    config.mesh = "data=2,pipeline=2";
    config.zero = 1;
    expect_prediction("data and a pipeline, ZeRO-1", "gpt-small", config, 4, 0);
    config.zero = 3;
    expect_prediction("data and a pipeline on two nodes, ZeRO-3", "gpt-small", config, 4, 2);
}

static void what_a_tensor_axis_takes_was_predicted(void **state)
{
    if (SANITIZED)
        skip();
    struct train_config config = common;
    config.steps = 1;
    config.micro_batch = 4;
    config.batch = 16;
    config.mesh = "tensor=2";
    expect_prediction("a tensor axis", "gpt-base", config, 2, 0);
    config.sequence_parallel = true;
    expect_prediction("a tensor axis, rows divided", "llama-small", config, 2, 0);
    config.activations = WEFT_BF16;
    expect_prediction("a tensor axis in bf16, rows divided", "gpt-base", config, 2, 0);
    config.mesh = "data=2,tensor=2";
    config.zero = 3;
    expect_prediction("data and a tensor axis, ZeRO-3 in bf16", "gpt-base", config, 4, 0);
    config.mesh = "pipeline=2,tensor=2";
    config.zero = 0;
    config.activations = WEFT_F32;
    expect_prediction("a pipeline and a tensor axis on two nodes", "gpt-base", config, 4, 2);
}

/* ---- many estimates ---- */

/* Estimates that share what they can, in any order, are those that are made alone. */
static void estimates_that_share_are_equal(void **state)
{
    static const uint32_t nodes[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    static const char *const meshes[] = {"data=2,pipeline=2,tensor=2", "pipeline=4,tensor=2", "data=4,tensor=2",
                                         "data=8", "pipeline=2,tensor=4"};
    struct memory_kept kept = {0};
    struct train_config config = common;
    struct model_description *description;
    assert_int_equal(model_shape_find("gpt-base", &config.shape, NULL), WEFT_OK);
    assert_int_equal(model_describe(&config.shape, &description, NULL), WEFT_OK);
    config.sequence = 128;
    config.micro_batch = 1;
    config.batch = 16;
    for (size_t i = 0; i < 3 * ARRAY_SIZE(meshes); i++) {
        struct parallel_choice choice;
        struct memory_ranks ranks = {.count = 8, .nodes = nodes};
        config.mesh = meshes[i % ARRAY_SIZE(meshes)];
        config.zero = strstr(config.mesh, "data") ? (int)(i % 4) : 0;
        assert_int_equal(parallel_choice_of(&config, description, 8, &choice, NULL), WEFT_OK);
        assert_int_equal(parallel_choice_place(&config, description, nodes, &choice, NULL), WEFT_OK);
        uint32_t points[8 * MESH_AXES];
        uint64_t alone_needs[2], needs[2];
        assert_int_equal(mesh_place(&choice.mesh, &choice.placement, nodes, points, NULL), WEFT_OK);
        assert_int_equal(memory_needs_of_nodes(&config, description, &choice, &ranks, alone_needs, NULL), WEFT_OK);
        ranks.kept = &kept;
        assert_int_equal(memory_needs_of_nodes(&config, description, &choice, &ranks, needs, NULL), WEFT_OK);
        assert_memory_equal(needs, alone_needs, sizeof needs);
        for (uint32_t rank = 0; rank < 8; rank++) {
            struct memory_estimate alone, shared;
            ranks.kept = NULL;
            assert_int_equal(memory_estimate_of(&config, description, &choice, &ranks, rank, points + rank * MESH_AXES,
                                                &alone, NULL),
                             WEFT_OK);
            ranks.kept = &kept;
            assert_int_equal(memory_estimate_of(&config, description, &choice, &ranks, rank, points + rank * MESH_AXES,
                                                &shared, NULL),
                             WEFT_OK);
            assert_memory_equal(&shared, &alone, sizeof alone);
        }
    }
    assert_int_equal(kept.networks.count, 1 + 2 + 4);
    memory_kept_free(&kept);
    model_description_free(description);
}

/* ---- too little ---- */

/* A run of two ranks on one machine. */
struct refused_run {
    struct train_config config;
    struct model_description *description;
    struct parallel_choice choice;
};
static const uint32_t one_node[2];
static const struct memory_ranks two_ranks = {.count = 2, .nodes = one_node};

static void describe_run(struct refused_run *run)
{
    assert_int_equal(model_shape_find("gpt-base", &run->config.shape, NULL), WEFT_OK);
    assert_int_equal(model_describe(&run->config.shape, &run->description, NULL), WEFT_OK);
    assert_int_equal(parallel_choice_of(&run->config, run->description, 2, &run->choice, NULL), WEFT_OK);
    assert_int_equal(parallel_choice_place(&run->config, run->description, one_node, &run->choice, NULL), WEFT_OK);
}

static void expect_refusal(const struct refused_run *run, uint64_t available, struct error *error)
{
    struct memory_estimate estimate;
    error_clear(error);
    assert_int_equal(
        memory_check(&run->config, run->description, &run->choice, &two_ranks, 0, available, &estimate, error),
        WEFT_ERROR_MEMORY);
}

static uint64_t need_of(const struct refused_run *run)
{
    uint64_t need;
    assert_int_equal(memory_needs_of_nodes(&run->config, run->description, &run->choice, &two_ranks, &need, NULL),
                     WEFT_OK);
    return need;
}

static void expect_text(const struct error *error, const char *text)
{
    if (!strstr(error->text, text))
        fail_msg("said: %s\nand not: %s", error->text, text);
}

static void too_little_memory_is_told_before_any_is_taken(void **state)
{
    struct refused_run run = {.config = common};
    struct memory_estimate estimate;
    struct error error = {0};
    run.config.sequence = 512;
    run.config.micro_batch = 2;
    describe_run(&run);
    const uint64_t need = need_of(&run);
    assert_int_equal(memory_check(&run.config, run.description, &run.choice, &two_ranks, 1, need, &estimate, &error),
                     WEFT_OK);
    expect_refusal(&run, need - 1, &error);
    static const char *const expected[] = {"training needs ",
                                           " MiB of memory for the 2 ranks of this machine (",
                                           " a rank: weights 97.8 MiB",
                                           ", optimizer 195.5 MiB",
                                           "try --zero 1 (",
                                           ", which fits), --micro-batch 1 (",
                                           "--recompute all (",
                                           "--precision bf16 (",
                                           "more machines or a smaller model"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        expect_text(&error, expected[i]);
    /* What cannot help is not offered. */
    run.config.micro_batch = 1;
    run.config.zero = 1;
    expect_refusal(&run, 1000, &error);
    assert_null(strstr(error.text, "--micro-batch"));
    assert_null(strstr(error.text, "--zero"));
    assert_null(strstr(error.text, "--mesh"));
    model_description_free(run.description);
}

static void a_mesh_that_fits_is_named(void **state)
{
    struct refused_run run = {.config = common}, other;
    struct error error = {0};
    run.config.micro_batch = 1;
    run.config.batch = 8;
    run.config.schedule = STEP_1F1B;
    describe_run(&run);
    /* With what ZeRO-3 needs, and what a pipeline needs, both are named where they are the first to fit. */
    other = run;
    other.config.zero = 3;
    other.choice.zero = 3;
    const uint64_t sharded = need_of(&other);
    expect_refusal(&run, sharded, &error);
    expect_text(&error, "try --zero 3 (");
    other = run;
    other.config.mesh = "pipeline=2";
    assert_int_equal(parallel_choice_of(&other.config, run.description, 2, &other.choice, NULL), WEFT_OK);
    other.choice.placement = run.choice.placement;
    const uint64_t piped = need_of(&other);
    if (piped < sharded) {
        expect_refusal(&run, piped, &error);
        expect_text(&error, "try --mesh pipeline=2 (");
    }
    /* Less than on any mesh of two ranks: more machines. */
    expect_refusal(&run, (piped < sharded ? piped : sharded) * 3 / 4, &error);
    expect_text(&error, " machines (");
    model_description_free(run.description);
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
        cmocka_unit_test(estimates_that_share_are_equal),
        cmocka_unit_test(a_run_without_memory_does_not_begin),
        cmocka_unit_test(too_little_memory_is_told_before_any_is_taken),
        cmocka_unit_test(a_mesh_that_fits_is_named),
        cmocka_unit_test(what_a_tensor_axis_takes_was_predicted),
        cmocka_unit_test(what_is_taken_was_predicted),
        cmocka_unit_test(what_ranks_take_was_predicted),
        cmocka_unit_test(what_pipelines_take_was_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
