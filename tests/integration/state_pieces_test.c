/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint written with any division of the state over ranks is read with any other: the same bits, the same hash.
 * Values depend on tensor and element alone, so every rank knows what its pieces must hold.
 */
#include "base/file/file.h"
#include "base/random.h"
#include "training/train/state/checkpoint_writer.h"

#include "../unit/temporary.h"
#include "../world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MOST_RANKS 5
#define MOST_CUTS  4
#define STEP       7

/* A division of the state over ranks. */
struct division {
    uint64_t seed;
    int ranks;
    bool cuts_values, cuts_moments;
    bool separate; /* each rank has a directory of its own */
};

struct test {
    struct model_description *description;
    const char *directory;
    struct division division;
    uint64_t part;
    unsigned arrays;
    uint8_t hash[SHA256_BYTES];
    bool hashed; /* by a checkpoint before */
};

static float element(enum state_array array, size_t parameter, size_t i)
{
    return (float)random_below(1 + (uint64_t)array * 1000 + parameter, i, 1 << 20) - 1000;
}

static uint64_t draw(const struct division *division, uint64_t what, uint64_t below)
{
    return random_below(division->seed, what, below);
}

/* ---- pieces ---- */

/* The tensor's part `cut` of `cuts`. */
static size_t cut_at(const struct division *division, size_t parameter, size_t count, size_t cut, size_t cuts)
{
    size_t at = count * cut / cuts;
    return cut == 0 || cut == cuts ? at : at + draw(division, 50 + parameter, count / cuts + 1) / 2;
}

/* Cut `cut` of the parameter is on this rank, and on others by chance. `what` tells the kind of array. */
static bool is_mine(const struct division *division, uint64_t what, size_t parameter, size_t cut, int rank)
{
    const uint64_t number = 1000 * what + (parameter * MOST_CUTS + cut) * (MOST_RANKS + 1);
    return draw(division, 10000 + number, (uint64_t)division->ranks) == (uint64_t)rank ||
           draw(division, 20000 + number + (uint64_t)rank, 3) == 0;
}

/* Append this rank's pieces of values (0) or moments (1). */
static void add_pieces(const struct test *test, uint64_t what, int rank, struct state_pieces *pieces)
{
    const struct division *division = &test->division;
    for (size_t parameter = 0; parameter < test->description->parameter_count; parameter++) {
        const size_t count = test->description->parameters[parameter].count;
        const bool cuts = what ? division->cuts_moments : division->cuts_values;
        const size_t most = cuts ? 1 + draw(division, 30 + what, MOST_CUTS) : 1;
        for (size_t cut = 0; cut < most; cut++) {
            const size_t first = cut_at(division, parameter, count, cut, most),
                         end = cut_at(division, parameter, count, cut + 1, most);
            if (!is_mine(division, what, parameter, cut, rank))
                continue;
            struct state_piece *piece = &pieces->pieces[pieces->count++];
            *piece = (struct state_piece){.parameter = (uint32_t)parameter, .first = first, .count = end - first};
            if (what == 0)
                piece->values = calloc(end - first + 1, sizeof(float));
            if (what == 1)
                piece->first_moments = calloc(end - first + 1, sizeof(float));
            if (what == 1 && test->arrays > STATE_SECOND_MOMENTS)
                piece->second_moments = calloc(end - first + 1, sizeof(float));
        }
    }
}

static struct state_pieces make_pieces(const struct test *test, int rank)
{
    struct state_pieces pieces = {
        .description = test->description,
        .pieces = calloc(2 * MOST_CUTS * test->description->parameter_count, sizeof *pieces.pieces)};
    add_pieces(test, 0, rank, &pieces);
    if (test->arrays > 1)
        add_pieces(test, 1, rank, &pieces);
    return pieces;
}

static void free_pieces(struct state_pieces *pieces)
{
    for (size_t i = 0; i < pieces->count; i++) {
        free(pieces->pieces[i].values);
        free(pieces->pieces[i].first_moments);
        free(pieces->pieces[i].second_moments);
    }
    free(pieces->pieces);
}

/* Set all elements, plus `change`; or, to check them, count those that differ. */
static size_t go_through(struct state_pieces *pieces, bool set, float change)
{
    size_t different = 0;
    for (size_t p = 0; p < pieces->count; p++) {
        const struct state_piece *piece = &pieces->pieces[p];
        float *const arrays[STATE_ARRAYS] = {piece->values, piece->first_moments, piece->second_moments};
        for (int array = 0; array < STATE_ARRAYS; array++)
            for (size_t i = 0; arrays[array] && i < piece->count; i++) {
                const float value = element((enum state_array)array, piece->parameter, piece->first + i) + change;
                different += arrays[array][i] != value;
                if (set)
                    arrays[array][i] = value;
            }
    }
    return different;
}

/* ---- writing ---- */

static weft_status write_in_background(const struct test *test, weft_context *context, struct state_layout *layout,
                                       struct state_pieces *pieces, const char *directory, struct error *error)
{
    const struct train_config config = {
        .batch = 1, .data = "random", .checkpoint_dir = directory, .checkpoint_part = test->part};
    const struct training_state state = {.description = test->description, .layout = layout, .step = STEP};
    struct report report = {0};
    struct checkpoint_writer *writer = NULL;
    struct checkpoint_claim *claim = NULL;
    bool speaks;
    weft_status status = layout->rank == 0 || test->division.separate ? checkpoint_claim(directory, &claim, error) : 0;
    if (status == WEFT_OK && weft_barrier(weft_world(context)) != WEFT_OK)
        status = WEFT_ERROR_STATE;
    const struct checkpoint_writer_setup setup = {
        .context = context, .comm = weft_world(context), .config = &config, .state = &state, .report = &report};
    if (status == WEFT_OK)
        status = checkpoint_writer_open(&setup, &writer, &speaks, error);
    if (status == WEFT_OK)
        status = checkpoint_writer_begin(writer, false, &speaks, error);
    if (status == WEFT_OK) {
        checkpoint_writer_release(writer);
        go_through(pieces, true, 1); /* the next step */
        status = checkpoint_writer_finish(writer, true, &speaks, error);
    }
    checkpoint_writer_close(writer);
    checkpoint_release(claim);
    return status;
}

static void rank_directory(const struct test *test, int rank, char directory[FILE_PATH_BYTES])
{
    snprintf(directory, FILE_PATH_BYTES, "%s/rank-%d", test->directory, test->division.separate ? rank : 0);
}

static int write_body(weft_context *context, int rank, void *argument)
{
    const struct test *test = argument;
    struct state_pieces pieces = make_pieces(test, rank);
    struct state_layout *layout = NULL;
    struct error error = {0};
    char directory[FILE_PATH_BYTES];
    bool speaks;
    rank_directory(test, rank, directory);
    go_through(&pieces, true, 0);
    CHECK(state_layout_open(context, weft_world(context), &pieces, &layout, &speaks, &error) == WEFT_OK);
    const weft_status status = write_in_background(test, context, layout, &pieces, directory, &error);
    if (status != WEFT_OK)
        fprintf(stderr, "%s\n", error.text);
    CHECK(status == WEFT_OK);
    CHECK(go_through(&pieces, false, 1) == 0);
    state_layout_close(layout);
    free_pieces(&pieces);
    return 0;
}

/* ---- reading ---- */

static int read_body(weft_context *context, int rank, void *argument)
{
    const struct test *test = argument;
    struct state_pieces pieces = make_pieces(test, rank);
    struct state_layout *layout = NULL;
    struct checkpoint *checkpoint = NULL;
    struct error error = {0};
    char directory[FILE_PATH_BYTES];
    bool speaks;
    rank_directory(test, rank, directory);
    CHECK(state_layout_open(context, weft_world(context), &pieces, &layout, &speaks, &error) == WEFT_OK);
    if (rank == 0)
        CHECK(checkpoint_open(directory, &checkpoint, &error) == WEFT_OK);
    CHECK(state_layout_read(layout, checkpoint, rank % 2 ? directory : NULL, &speaks, &error) == WEFT_OK);
    CHECK(go_through(&pieces, false, 0) == 0);
    checkpoint_close(checkpoint);
    state_layout_close(layout);
    free_pieces(&pieces);
    return 0;
}

/* ---- values alone ---- */

static int values_body(weft_context *context, int rank, void *argument)
{
    struct test test = *(const struct test *)argument;
    const struct model_description *description = test.description;
    test.arrays = 1;
    struct state_pieces pieces = make_pieces(&test, rank);
    struct state_layout *layout = NULL;
    struct error error = {0};
    bool speaks;
    float *whole = rank == 0 ? calloc(2 * description->elements, sizeof *whole) : NULL;
    float *gathered = whole ? whole + description->elements : NULL;
    for (size_t p = 0; whole && p < description->parameter_count; p++)
        for (size_t i = 0; i < description->parameters[p].count; i++)
            whole[description->parameters[p].offset + i] = element(STATE_VALUES, p, i);
    CHECK(state_layout_open(context, weft_world(context), &pieces, &layout, &speaks, &error) == WEFT_OK);
    CHECK(state_layout_scatter_values(layout, description, whole, &error) == WEFT_OK);
    CHECK(go_through(&pieces, false, 0) == 0);
    CHECK(state_layout_gather_values(layout, description, gathered, &error) == WEFT_OK);
    CHECK(!whole || memcmp(whole, gathered, description->elements * sizeof *whole) == 0);
    free(whole);
    state_layout_close(layout);
    free_pieces(&pieces);
    return 0;
}

/* ---- tests ---- */

static void open_test(struct test *test)
{
    static const struct model_shape shape = {
        .kind = "gpt", .layers = 2, .heads = 2, .width = 8, .context = 8, .vocabulary = 11};
    *test = (struct test){.directory = temporary_directory(), .arrays = STATE_ARRAYS};
    assert_int_equal(model_describe(&shape, &test->description, NULL), WEFT_OK);
}

static void close_test(struct test *test)
{
    file_remove_tree(test->directory, NULL);
    model_description_free(test->description);
}

static struct division random_division(uint64_t seed, bool separate)
{
    return (struct division){.seed = seed,
                             .ranks = 1 + (int)random_below(seed, 1, MOST_RANKS),
                             .cuts_values = random_below(seed, 2, 2) == 1,
                             .cuts_moments = random_below(seed, 3, 2) == 1,
                             .separate = separate};
}

/* Other tools read the weights. */
static void check_weights_are_whole(const struct checkpoint *checkpoint)
{
    size_t count;
    const struct checkpoint_record *records = checkpoint_files(checkpoint, &count);
    for (size_t i = 0; i < count; i++) {
        struct safetensors *file;
        char path[FILE_PATH_BYTES];
        if (strncmp(records[i].name, "model", 5) != 0 || strcmp(records[i].name, CHECKPOINT_INDEX) == 0)
            continue;
        assert_int_equal(file_join(path, checkpoint_directory(checkpoint), records[i].name, NULL), WEFT_OK);
        assert_int_equal(safetensors_open(path, &file, NULL), WEFT_OK);
        for (size_t t = 0; t < safetensors_count(file); t++)
            assert_true(named_tensor_is_whole(safetensors_tensor(file, t)));
        safetensors_close(file);
    }
}

/* The checkpoint is whole, and has the hash that all others have. */
static void check_hash(struct test *test)
{
    struct checkpoint *checkpoint;
    struct error error = {0};
    char directory[FILE_PATH_BYTES];
    uint8_t hash[SHA256_BYTES];
    rank_directory(test, 0, directory);
    if (checkpoint_open(directory, &checkpoint, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(checkpoint_get_state(checkpoint)->step, STEP);
    check_weights_are_whole(checkpoint);
    assert_int_equal(checkpoint_hash(checkpoint, hash, &error), WEFT_OK);
    if (test->hashed)
        assert_memory_equal(hash, test->hash, sizeof hash);
    memcpy(test->hash, hash, sizeof hash);
    test->hashed = true;
    checkpoint_close(checkpoint);
}

/* Rank 1's own disk has a copy with a damaged byte, which nobody verifies: it must not be read. */
static void copy_damaged(const struct test *test)
{
    char command[2 * FILE_PATH_BYTES];
    snprintf(command, sizeof command,
             "cd '%s' && rm -rf rank-1 && cp -a rank-0 rank-1 && for f in rank-1/step-*/model*.safetensors; do "
             "printf X | dd of=$f bs=1 seek=$(($(stat -c %%s $f) - 2)) conv=notrunc status=none; done",
             test->directory);
    assert_int_equal(system(command), 0);
}

static void write_and_read(struct test *test, uint64_t seed)
{
    const bool separate = seed % 4 == 3;
    test->division = random_division(seed, separate);
    test->part = seed % 3 == 0 ? 1 << 20 : 1 << (seed % 13);
    assert_int_equal(world_run(&(struct world){.ranks = test->division.ranks}, write_body, test), 0);
    check_hash(test);
    if (separate)
        copy_damaged(test);
    test->division = random_division(1000 + seed, separate);
    assert_int_equal(world_run(&(struct world){.ranks = test->division.ranks}, read_body, test), 0);
    assert_int_equal(world_run(&(struct world){.ranks = test->division.ranks}, values_body, test), 0);
}

static void any_division_reads_what_another_has_written(void **state)
{
    struct test test;
    open_test(&test);
    for (uint64_t seed = 0; seed < 24; seed++)
        write_and_read(&test, seed);
    close_test(&test);
}

static void an_optimizer_may_have_fewer_moments(void **state)
{
    for (unsigned arrays = 1; arrays < STATE_ARRAYS; arrays++) {
        struct test test;
        open_test(&test);
        test.arrays = arrays;
        for (uint64_t seed = 0; seed < 4; seed++)
            write_and_read(&test, seed);
        close_test(&test);
    }
}

/* Messages of layouts that are not whole. */
static int refused_body(weft_context *context, int rank, void *argument)
{
    const struct test *test = argument;
    const struct model_description *description = test->description;
    const size_t count = description->parameters[1].count;
    const struct {
        struct state_piece pieces[2]; /* of parameter 1, on rank 1 */
        const char *message;
    } cases[] = {
        {{{.first = 1, .count = count - 1}}, "no rank holds the value of element 0 of"},
        {{{.first = 0, .count = count - 1}}, "no rank holds the value of element "},
        {{{.first = 0, .count = 2}, {.first = 3, .count = count - 3}}, "no rank holds the value of element 2 of"},
        {{{.first = 0, .count = count + 1}}, "rank 1 holds elements of"},
        {{{.first = 0, .count = count}, {.first = 1, .count = 1}}, "rank 1 holds element 1 of"},
    };
    float *values = calloc(description->elements, sizeof *values);
    struct state_piece *pieces = calloc(description->parameter_count + 2, sizeof *pieces);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct state_pieces own = {.description = description, .pieces = pieces};
        struct state_layout *layout;
        struct error error = {0};
        bool speaks;
        for (uint32_t i = 0; i < description->parameter_count; i++)
            if (i != 1)
                pieces[own.count++] =
                    (struct state_piece){.parameter = i, .count = description->parameters[i].count, .values = values};
        for (int i = 0; rank == 1 && i < 2; i++) {
            pieces[own.count] = cases[c].pieces[i];
            pieces[own.count].parameter = 1;
            pieces[own.count++].values = values;
        }
        CHECK(state_layout_open(context, weft_world(context), &own, &layout, &speaks, &error) == WEFT_ERROR_ARGUMENT);
        CHECK(strstr(error.text, cases[c].message) && strstr(error.text, description->parameters[1].name));
        CHECK(speaks == (rank == 0));
    }
    free(pieces);
    free(values);
    return 0;
}

static void every_element_is_somewhere(void **state)
{
    struct test test;
    open_test(&test);
    assert_int_equal(world_run(&(struct world){.ranks = 2}, refused_body, &test), 0);
    close_test(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_division_reads_what_another_has_written),
        cmocka_unit_test(an_optimizer_may_have_fewer_moments),
        cmocka_unit_test(every_element_is_somewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
