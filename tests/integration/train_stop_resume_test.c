/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run that is stopped again and again, between a step and the evaluation after it, before the last evaluation among
 * others, ends as one that nobody stopped: the same evaluations, each once, the same early stop, the same best and last
 * checkpoint, bit for bit. One rank alone gets the request to stop.
 */
#include "training/checkpoint/checkpoint.h"
#include "training/train/loop/trainer.h"

#include "../unit/temporary.h"
#include "../world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#define SEQUENCE   16
#define VOCABULARY 32
#define ATTEMPTS   100

static const struct train_config common = {
    .shape = {.kind = "llama",
              .layers = 1,
              .heads = 2,
              .width = 16,
              .context = SEQUENCE,
              .vocabulary = VOCABULARY,
              .untied = true},
    .model = "a small llama",
    .data = "random",
    .batch = 6,
    .micro_batch = 1,
    .sequence = SEQUENCE,
    .seed = 3,
    .floor_share = 1,
    .optimizer = {.kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .trust = 1e-3},
    .clip = 1,
    .evaluate_every = 3,
    .evaluate_sequences = 7, /* no multiple of the ranks: some evaluate one less */
    .checkpoint_keep = 1,
    .gradients = WEFT_F32,
    .bucket_bytes = 4096,
    .threads = 1,
    .prompt = "x",
};

struct test {
    int64_t steps, patience;
    int ranks;
    bool stops;
    int64_t checkpoint_every;
    double rate, decay;
    const char *directory;
    FILE *said; /* rank 0's lines for people */
};

/* What a run has come to. */
struct outcome {
    uint64_t step;
    char hash[SHA256_TEXT_BYTES], best[256], settings[1024];
    char evaluations[4096]; /* a line each */
};

/* A rank's ear. */
struct ear {
    atomic_int stop;
    bool is_told;
};

static void tell(void *observer, const struct report_step *step)
{
    struct ear *ear = observer;
    if (ear->is_told)
        ear->stop = SIGTERM;
}

static int body(weft_context *context, int rank, void *argument)
{
    const struct test *test = argument;
    struct train_config config = common;
    int stopped_by = SIGTERM, attempts = 0;
    config.steps = test->steps;
    config.patience = test->patience;
    config.checkpoint_dir = test->directory;
    config.checkpoint_every = test->checkpoint_every;
    config.rate = test->rate;
    config.optimizer.weight_decay = test->decay;
    config.observe = tell;
    for (; stopped_by && attempts < ATTEMPTS; attempts++) {
        struct ear ear = {.is_told = test->stops && rank == test->ranks - 1};
        struct error error = {0};
        struct trainer *trainer = NULL;
        bool speaks;
        config.observer = &ear;
        config.resume = attempts ? test->directory : NULL;
        weft_status status =
            trainer_open(&config, context, weft_world(context), test->said, &ear.stop, &trainer, &speaks, &error);
        if (status == WEFT_OK)
            status = trainer_run(trainer, &speaks, &error);
        if (status != WEFT_OK)
            fprintf(stderr, "rank %d: %s\n", rank, error.text);
        CHECK(status == WEFT_OK);
        stopped_by = trainer_stopped_by(trainer);
        trainer_close(trainer);
    }
    CHECK(!stopped_by);
    CHECK(test->stops ? attempts > 3 : attempts == 1);
    return 0;
}

/* The lines of evaluations. */
static void find_evaluations(char *said, char *text, size_t size)
{
    char *rest = NULL;
    size_t used = 0;
    for (char *line = strtok_r(said, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strstr(line, "held-out text after step"))
            used += (size_t)snprintf(text + used, size - used, "%s\n", line);
    assert_true(used < size);
}

static void train(struct test *test, struct outcome *outcome)
{
    struct checkpoint *checkpoint;
    uint8_t digest[SHA256_BYTES];
    char *said;
    size_t length;
    memset(outcome, 0, sizeof *outcome);
    test->directory = temporary_directory();
    assert_non_null(test->said = open_memstream(&said, &length));
    assert_int_equal(world_run(&(struct world){.ranks = test->ranks}, body, test), 0);
    assert_int_equal(fclose(test->said), 0);
    find_evaluations(said, outcome->evaluations, sizeof outcome->evaluations);
    free(said);
    assert_int_equal(checkpoint_open(test->directory, &checkpoint, NULL), WEFT_OK);
    outcome->step = checkpoint_get_state(checkpoint)->step;
    assert_int_equal(checkpoint_hash(checkpoint, digest, NULL), WEFT_OK);
    sha256_text(digest, outcome->hash);
    char *settings = cJSON_PrintUnformatted(checkpoint_get_state(checkpoint)->training);
    snprintf(outcome->settings, sizeof outcome->settings, "%s", settings);
    cJSON_free(settings);
    checkpoint_close(checkpoint);
    if (readlink(temporary_path(test->directory, CHECKPOINT_BEST), outcome->best, sizeof outcome->best - 1) < 0)
        *outcome->best = 0;
    assert_int_equal(file_remove_tree(test->directory, NULL), WEFT_OK);
}

static void expect_no_trace_of_stops(int64_t steps, int64_t patience, double rate, double decay, struct outcome *whole)
{
    struct outcome stopped;
    train(&(struct test){.steps = steps, .patience = patience, .ranks = 1, .rate = rate, .decay = decay}, whole);
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int64_t every = 0; every <= 2; every += 2) {
            train(&(struct test){.steps = steps,
                                 .patience = patience,
                                 .ranks = ranks,
                                 .stops = true,
                                 .checkpoint_every = every,
                                 .rate = rate,
                                 .decay = decay},
                  &stopped);
            assert_int_equal(stopped.step, whole->step);
            assert_string_equal(stopped.hash, whole->hash);
            assert_string_equal(stopped.best, whole->best);
            assert_string_equal(stopped.evaluations, whole->evaluations);
            assert_string_equal(stopped.settings, whole->settings);
        }
}

static void evaluations_come_once_and_in_their_place(void **state)
{
    struct outcome whole;
    expect_no_trace_of_stops(9, 0, 1e-3, 0, &whole);
    assert_int_equal(whole.step, 9);
    assert_string_equal(whole.best, "");
    assert_non_null(strstr(whole.evaluations, "after step 3: "));
    assert_non_null(strstr(whole.evaluations, "after step 9: "));
}

static void early_stop_comes_at_the_same_step(void **state)
{
    struct outcome whole;
    expect_no_trace_of_stops(300, 2, 3e-3, 0, &whole);
    assert_true(whole.step > 6 && whole.step < 300);
    char best[64];
    snprintf(best, sizeof best, "step-%08d", (int)whole.step - 6);
    assert_string_equal(whole.best, best);
}

static void the_last_evaluation_can_be_the_best(void **state)
{
    struct outcome whole;
    expect_no_trace_of_stops(5, 100, 1e-3, 100, &whole); /* toward weights of 0, and a loss of log(VOCABULARY) */
    assert_int_equal(whole.step, 5);
    assert_non_null(strstr(whole.settings, "\"evaluations\":2"));
    assert_string_equal(whole.best, "step-00000005");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluations_come_once_and_in_their_place),
        cmocka_unit_test(early_stop_comes_at_the_same_step),
        cmocka_unit_test(the_last_evaluation_can_be_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
