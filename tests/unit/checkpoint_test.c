/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints come back as they were written, however they were cut, and another model's is refused by name. */
#include "base/format/json.h"
#include "checkpoint_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *directory;

static struct checkpoint *must_open(const char *path)
{
    struct error error = {0};
    struct checkpoint *checkpoint = NULL;
    if (checkpoint_open(path, &checkpoint, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return checkpoint;
}

static void must_save(const struct small_model *small, const char *run, unsigned keep)
{
    struct error error = {0};
    if (small_model_save(small, run, keep, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

/* A run directory of that name inside the test's directory. */
static const char *run_directory(const char *name)
{
    static char path[FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s", temporary_path(directory, name));
    return path;
}

static void everything_comes_back(void **state)
{
    struct small_model small, other;
    const char *run = run_directory("back/with/directories");
    small_model_make(&small, UINT64_MAX - 5, 200, 4);
    small_model_make(&other, 0, 0, 4);
    must_save(&small, run, 0);
    struct checkpoint *checkpoint = must_open(run);
    assert_string_equal(file_name(checkpoint_directory(checkpoint)), "step-00000200");
    assert_string_equal(checkpoint_library(checkpoint), weft_version());
    const struct checkpoint_state *got = checkpoint_get_state(checkpoint);
    assert_int_equal(got->step, 200);
    assert_int_equal(got->position, 6400);
    assert_true(got->seed == UINT64_MAX - 5);
    assert_true(cJSON_Compare(got->training, small.training, true));
    assert_int_equal(checkpoint_match_model(checkpoint, small.model, NULL), WEFT_OK);
    assert_int_equal(checkpoint_read(checkpoint, other.weights, SUPPORT_WEIGHTS, NULL), WEFT_OK);
    assert_int_equal(checkpoint_read(checkpoint, other.optimizer, 2 * SUPPORT_WEIGHTS, NULL), WEFT_OK);
    char hash[2][SHA256_TEXT_BYTES], stored[SHA256_TEXT_BYTES];
    uint8_t digest[SHA256_BYTES];
    assert_string_equal(small_model_hash(&small, hash[0]), small_model_hash(&other, hash[1]));
    assert_int_equal(checkpoint_hash(checkpoint, digest, NULL), WEFT_OK);
    assert_string_equal(sha256_text(digest, stored), hash[0]);
    size_t files, tensors;
    checkpoint_files(checkpoint, &files);
    assert_int_equal(files, 2);
    const struct named_tensor *list = checkpoint_tensors(checkpoint, &tensors);
    assert_int_equal(tensors, 3 * SUPPORT_WEIGHTS);
    for (size_t i = 1; i < tensors; i++)
        assert_true(strcmp(list[i - 1].name, list[i].name) < 0);
    checkpoint_close(checkpoint);
    small_model_free(&small);
    small_model_free(&other);
}

/* The hash of a checkpoint of these tensors. */
static void hash_saved(const struct named_tensor *tensors, size_t count, uint8_t digest[SHA256_BYTES])
{
    struct small_model small;
    const char *run = run_directory("hash");
    small_model_make(&small, 1, 1, 1);
    assert_int_equal(checkpoint_save(run, &small.state, tensors, count, NULL, 0, 0, NULL), WEFT_OK);
    struct checkpoint *checkpoint = must_open(run);
    assert_int_equal(checkpoint_hash(checkpoint, digest, NULL), WEFT_OK);
    checkpoint_close(checkpoint);
    small_model_free(&small);
}

static void the_hash_stays_what_it_is(void **state)
{
    /* Computed by hand from the layout in checkpoint.h; hashes are compared over years and versions. */
    float one[] = {1, 2};
    uint8_t two[] = {7};
    struct named_tensor tensors[] = {{"b", WEFT_U8, 0, {0}, 0, 0, two}, {"a", WEFT_F32, 2, {1, 2}, 0, 0, one}};
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT_BYTES];
    hash_saved(tensors, 2, digest);
    assert_string_equal(sha256_text(digest, text), "4b4300513510abf6f4f5e0e6d9ddd1cbcb8a73729efb9c17c747cdfdd7831e27");
}

static void the_hash_sees_everything(void **state)
{
    float data[] = {1, 2, 3, 4};
    struct named_tensor base = {"a", WEFT_F32, 2, {2, 2}, 0, 0, data};
    struct named_tensor variants[] = {
        base,
        {"b", WEFT_F32, 2, {2, 2}, 0, 0, data},
        {"a", WEFT_I32, 2, {2, 2}, 0, 0, data},
        {"a", WEFT_F32, 2, {4, 1}, 0, 0, data},
        {"a", WEFT_F32, 1, {4}, 0, 0, data},
        {"a", WEFT_F32, 2, {2, 2}, 0, 0, (float[]){1, 2, 3, 5}},
        {"a", WEFT_F32, 2, {2, 2}, 0, 0, (float[]){1, 2, 4, 3}},
    };
    uint8_t digests[7][SHA256_BYTES];
    for (int i = 0; i < 7; i++) {
        hash_saved(&variants[i], 1, digests[i]);
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(digests[i], digests[j], SHA256_BYTES);
    }
}

/* Write `small` as `parts` files, every tensor cut into ranges whose ends are drawn from `seed`. */
static void save_in_parts(const struct small_model *small, const char *run, unsigned parts, uint64_t seed)
{
    struct checkpoint_record records[32];
    assert_int_equal(checkpoint_begin(run, small->state.step, NULL), WEFT_OK);
    for (unsigned part = 0; part < parts; part++) {
        struct named_tensor pieces[3 * SUPPORT_WEIGHTS];
        size_t count = 0;
        for (int i = 0; i < 3 * SUPPORT_WEIGHTS; i++) {
            struct named_tensor piece = i < SUPPORT_WEIGHTS ? small->weights[i] : small->optimizer[i - SUPPORT_WEIGHTS];
            uint64_t elements = named_tensor_elements(&piece);
            /* Cut number p of a tensor is p/parts of it, moved by up to that distance. */
            uint64_t begin =
                part == 0 ? 0 : elements * part / parts + random_below(seed, 32 * i + part, elements / parts + 1);
            uint64_t end = part + 1 == parts ? elements
                                             : elements * (part + 1) / parts +
                                                   random_below(seed, 32 * i + part + 1, elements / parts + 1);
            begin = begin < elements ? begin : elements;
            end = end < elements ? end : elements;
            if (begin >= end)
                continue;
            piece.first = begin;
            piece.count = end - begin;
            piece.data = (float *)piece.data + begin;
            pieces[count++] = piece;
        }
        struct error error = {0};
        if (checkpoint_write_part(run, small->state.step, "all", part, parts, pieces, count, NULL, &records[part],
                                  &error) != WEFT_OK)
            fail_msg("%s", error.text);
    }
    struct error error = {0};
    if (checkpoint_commit(run, &small->state, records, parts, 0, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

static void any_cut_is_the_same_checkpoint(void **state)
{
    struct small_model small;
    char expected[SHA256_TEXT_BYTES], text[SHA256_TEXT_BYTES];
    const char *run = run_directory("cut");
    small_model_make(&small, 11, 5, 9);
    small_model_hash(&small, expected);
    for (unsigned parts = 1; parts <= 9; parts++) {
        save_in_parts(&small, run, parts, parts);
        struct checkpoint *checkpoint = must_open(run);
        uint8_t digest[SHA256_BYTES];
        assert_int_equal(checkpoint_hash(checkpoint, digest, NULL), WEFT_OK);
        assert_string_equal(sha256_text(digest, text), expected);
        /* Any range of the largest tensor, as another number of ranks would read it. */
        for (uint64_t first = 0; first < 54; first += 5) {
            for (uint64_t count = 1; first + count <= 54; count += 7) {
                float got[56] = {-1};
                got[count] = -2;
                struct named_tensor wanted = {"wte.weight", WEFT_F32, 2, {9, 6}, first, count, got};
                assert_int_equal(checkpoint_read(checkpoint, &wanted, 1, NULL), WEFT_OK);
                assert_memory_equal(got, (float *)small.weights[0].data + first, count * sizeof(float));
                assert_true(got[count] == -2);
            }
        }
        checkpoint_close(checkpoint);
    }
    small_model_free(&small);
}

static void missing_and_double_pieces(void **state)
{
    struct small_model small;
    struct checkpoint *checkpoint = NULL;
    const char *run = run_directory("pieces");
    small_model_make(&small, 1, 1, 2);
    static const struct {
        uint64_t first[2], count[2];
        const char *word;
    } bad[] = {
        {{0, 6}, {5, 6}, "from 5 to 6 missing"},
        {{0, 6}, {7, 6}, "from 6 to 7 twice"},
        {{0, 6}, {6, 5}, "after 11 of its 12"},
        {{1, 6}, {5, 6}, "from 0 to 1 missing"},
    };
    for (int i = 0; i < 4; i++) {
        struct checkpoint_record records[2];
        assert_int_equal(checkpoint_begin(run, 1, NULL), WEFT_OK);
        for (unsigned part = 0; part < 2; part++) {
            struct named_tensor piece = small.weights[0];
            piece.first = bad[i].first[part];
            piece.count = bad[i].count[part];
            assert_int_equal(checkpoint_write_part(run, 1, "model", part, 2, &piece, 1, NULL, &records[part], NULL),
                             WEFT_OK);
        }
        assert_int_equal(checkpoint_commit(run, &small.state, records, 2, 0, NULL), WEFT_OK);
        struct error error = {0};
        assert_int_equal(checkpoint_open(run, &checkpoint, &error), WEFT_ERROR_DATA);
        if (!strstr(error.text, bad[i].word))
            fail_msg("'%s' is not in: %s", bad[i].word, error.text);
    }
    /* Two pieces of one name that are not of one tensor. */
    struct checkpoint_record records[2];
    struct error error = {0};
    struct named_tensor pieces[2] = {small.weights[0], small.weights[0]};
    pieces[0].count = pieces[1].first = 6;
    pieces[1].shape[0] = 6;
    pieces[1].shape[1] = 2;
    assert_int_equal(checkpoint_begin(run, 1, NULL), WEFT_OK);
    for (unsigned part = 0; part < 2; part++)
        assert_int_equal(checkpoint_write_part(run, 1, "model", part, 2, &pieces[part], 1, NULL, &records[part], NULL),
                         WEFT_OK);
    assert_int_equal(checkpoint_commit(run, &small.state, records, 2, 0, NULL), WEFT_OK);
    assert_int_equal(checkpoint_open(run, &checkpoint, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "disagree about its type or shape"));
    small_model_free(&small);
}

static void another_model_is_named(void **state)
{
    struct small_model small;
    const char *run = run_directory("another");
    small_model_make(&small, 1, 1, 4);
    must_save(&small, run, 0);
    struct checkpoint *checkpoint = must_open(run);
    float data[64];
    const struct {
        struct named_tensor wanted;
        const char *word;
    } bad[] = {
        {{"h.7.ln_1.bias", WEFT_F32, 1, {6}, 0, 0, data}, "no tensor 'h.7.ln_1.bias'"},
        {{"wte.weight", WEFT_F32, 2, {5, 6}, 0, 0, data}, "is f32 [4, 6], but here it is f32 [5, 6]"},
        {{"wte.weight", WEFT_F32, 1, {24}, 0, 0, data}, "but here it is f32 [24]"},
        {{"wte.weight", WEFT_BF16, 2, {4, 6}, 0, 0, data}, "but here it is bf16 [4, 6]"},
        {{"wte.weight", WEFT_F32, 2, {4, 6}, 20, 5, data}, "elements 20 to 25"},
    };
    for (int i = 0; i < 5; i++) {
        struct named_tensor both[2] = {small.weights[1], bad[i].wanted};
        float untouched[6] = {9, 9, 9, 9, 9, 9};
        both[0].data = untouched;
        struct error error = {0};
        assert_int_not_equal(checkpoint_read(checkpoint, both, 2, &error), WEFT_OK);
        if (!strstr(error.text, bad[i].word))
            fail_msg("'%s' is not in: %s", bad[i].word, error.text);
        assert_true(untouched[0] == 9);
    }
    struct error error = {0};
    cJSON_SetNumberValue(cJSON_GetObjectItem(small.model, "layers"), 12);
    assert_int_equal(checkpoint_match_model(checkpoint, small.model, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "its layers is 1, but here it is 12"));
    cJSON_SetNumberValue(cJSON_GetObjectItem(small.model, "layers"), 1);
    cJSON_AddNumberToObject(small.model, "heads", 2);
    error_clear(&error);
    assert_int_equal(checkpoint_match_model(checkpoint, small.model, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "its heads is not set, but here it is 2"));
    cJSON_DeleteItemFromObject(small.model, "heads");
    cJSON_DeleteItemFromObject(small.model, "kind");
    error_clear(&error);
    assert_int_equal(checkpoint_match_model(checkpoint, small.model, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "its kind is \"gpt\", but here it is not set"));
    checkpoint_close(checkpoint);
    small_model_free(&small);
}

static void the_newest_whole_one_is_found(void **state)
{
    const char *run = run_directory("newest");
    struct small_model small;
    for (uint64_t step = 90; step <= 120; step += 10) {
        small_model_make(&small, step, step, 4);
        must_save(&small, run, 0);
        small_model_free(&small);
    }
    /* None of these is a whole checkpoint. */
    static const char *const others[] = {"step-00000999.partial", "step-999", "step-00000130",
                                         "step-0000000131",       "step-",    "step-0000013x"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(file_make_directory(temporary_path(run, others[i]), NULL), WEFT_OK);
    struct checkpoint *checkpoint = must_open(run);
    assert_int_equal(checkpoint_get_state(checkpoint)->step, 120);
    checkpoint_close(checkpoint);
    checkpoint = must_open(temporary_path(run, "step-00000100"));
    assert_int_equal(checkpoint_get_state(checkpoint)->step, 100);
    checkpoint_close(checkpoint);
    uint64_t steps[2];
    size_t count;
    assert_int_equal(checkpoint_list(run, steps, 2, &count, NULL), WEFT_OK);
    assert_int_equal(count, 4);
    assert_int_equal(steps[0], 110);
    assert_int_equal(steps[1], 120);
}

static void old_ones_go(void **state)
{
    const char *run = run_directory("keep");
    struct small_model small;
    uint64_t steps[8];
    size_t count;
    for (uint64_t step = 10; step <= 60; step += 10) {
        small_model_make(&small, step, step, 4);
        must_save(&small, run, 3);
        small_model_free(&small);
    }
    assert_int_equal(checkpoint_list(run, steps, 8, &count, NULL), WEFT_OK);
    assert_int_equal(count, 3);
    assert_int_equal(steps[0], 40);
    /* Going on from an older one: what is newer belongs to another attempt and stays; what was just written stays too.
     */
    small_model_make(&small, 45, 45, 4);
    must_save(&small, run, 1);
    small_model_free(&small);
    assert_int_equal(checkpoint_list(run, steps, 8, &count, NULL), WEFT_OK);
    assert_int_equal(count, 3);
    assert_int_equal(steps[0], 45);
    assert_int_equal(steps[1], 50);
}

static void save_step(const char *run, uint64_t step, unsigned keep, bool best)
{
    struct small_model small;
    small_model_make(&small, step, step, 4);
    small.state.best = best;
    must_save(&small, run, keep);
    small_model_free(&small);
}

static void the_best_is_marked_and_stays(void **state)
{
    const char *run = run_directory("best");
    const char *link = temporary_path(run, CHECKPOINT_BEST);
    struct checkpoint *checkpoint;
    uint64_t steps[8];
    size_t count;
    for (uint64_t step = 10; step <= 80; step += 10)
        save_step(run, step, 2, step == 20 || step == 40); /* 40 takes the mark from 20 */
    assert_int_equal(checkpoint_list(run, steps, 8, &count, NULL), WEFT_OK);
    assert_int_equal(count, 3);
    assert_int_equal(steps[0], 40);
    assert_int_equal(steps[1], 70);
    assert_int_equal(checkpoint_open(link, &checkpoint, NULL), WEFT_OK);
    assert_int_equal(checkpoint_get_state(checkpoint)->step, 40);
    checkpoint_close(checkpoint);
    save_step(run, 40, 0, true); /* replaced, and marked again */
    assert_int_equal(checkpoint_open(link, &checkpoint, NULL), WEFT_OK);
    checkpoint_close(checkpoint);
    /* What the name leads to elsewhere is no mark, and what a crash left is not in the way. */
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("../step-00000070", link), 0);
    assert_int_equal(symlink("nowhere", temporary_path(run, CHECKPOINT_BEST ".partial")), 0);
    save_step(run, 90, 1, true);
    assert_int_equal(checkpoint_list(run, steps, 8, &count, NULL), WEFT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(checkpoint_open(link, &checkpoint, NULL), WEFT_OK);
    assert_int_equal(checkpoint_get_state(checkpoint)->step, 90);
    checkpoint_close(checkpoint);
    /* A directory of that name is not replaced. */
    assert_int_equal(unlink(link), 0);
    assert_int_equal(mkdir(link, 0777), 0);
    struct small_model small;
    struct error error = {0};
    small_model_make(&small, 100, 100, 4);
    small.state.best = true;
    assert_int_equal(small_model_save(&small, run, 1, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "best"));
    small_model_free(&small);
}

static void the_same_step_is_replaced(void **state)
{
    const char *run = run_directory("replace");
    struct small_model first, second;
    char expected[SHA256_TEXT_BYTES], text[SHA256_TEXT_BYTES];
    small_model_make(&first, 1, 7, 4);
    small_model_make(&second, 2, 7, 5);
    must_save(&first, run, 0);
    /* An opened checkpoint goes on to be readable while its directory is replaced. */
    struct checkpoint *before = must_open(run);
    must_save(&second, run, 0);
    struct checkpoint *after = must_open(run);
    uint8_t digest[SHA256_BYTES];
    assert_int_equal(checkpoint_hash(after, digest, NULL), WEFT_OK);
    assert_string_equal(sha256_text(digest, text), small_model_hash(&second, expected));
    assert_int_equal(checkpoint_hash(before, digest, NULL), WEFT_OK);
    assert_string_equal(sha256_text(digest, text), small_model_hash(&first, expected));
    checkpoint_close(before);
    checkpoint_close(after);
    assert_false(file_exists(temporary_path(run, "step-00000007.partial")));
    small_model_free(&first);
    small_model_free(&second);
}

static void no_checkpoint_there(void **state)
{
    struct checkpoint *checkpoint = NULL;
    struct error error = {0};
    assert_int_equal(checkpoint_open(temporary_path(directory, "nowhere"), &checkpoint, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "nowhere"));
    error_clear(&error);
    assert_int_equal(file_make_directory(temporary_path(directory, "bare"), NULL), WEFT_OK);
    assert_int_equal(checkpoint_open(temporary_path(directory, "bare"), &checkpoint, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "no checkpoint in"));
}

static void one_writer_a_directory(void **state)
{
    const char *run = run_directory("claimed/run");
    struct checkpoint_claim *first = NULL, *second = NULL;
    struct error error = {0};
    char owner[64];
    snprintf(owner, sizeof owner, "process %ld on", (long)getpid());
    assert_int_equal(checkpoint_claim(run, &first, NULL), WEFT_OK);
    assert_int_equal(checkpoint_claim(run, &second, &error), WEFT_ERROR_STATE);
    assert_null(second);
    if (!strstr(error.text, owner) || !strstr(error.text, "claimed/run"))
        fail_msg("an odd message: %s", error.text);
    checkpoint_release(first);
    assert_int_equal(checkpoint_claim(run, &second, NULL), WEFT_OK);
    checkpoint_release(second);
    error_clear(&error);
    assert_int_equal(checkpoint_claim("/proc/nowhere", &first, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "/proc/nowhere"));
    checkpoint_release(NULL);
}

static void bad_calls_leave_nothing(void **state)
{
    const char *run = run_directory("bad");
    struct small_model small;
    struct error error = {0};
    uint64_t steps[1];
    size_t count;
    small_model_make(&small, 1, 1, 4);
    small.weights[1].name = "wte.weight";
    assert_int_equal(small_model_save(&small, run, 0, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "two tensors"));
    assert_int_equal(checkpoint_list(run, steps, 1, &count, NULL), WEFT_OK);
    assert_int_equal(count, 0);
    assert_false(file_exists(temporary_path(run, "step-00000001.partial")));
    struct checkpoint_record record;
    assert_int_equal(checkpoint_write_part(run, 1, "../model", 0, 1, small.weights, 1, NULL, &record, NULL),
                     WEFT_ERROR_ARGUMENT);
    assert_int_equal(checkpoint_write_part(run, 1, "model", 2, 2, small.weights, 1, NULL, &record, NULL),
                     WEFT_ERROR_ARGUMENT);
    temporary_file(directory, "a-file", "x", 1);
    error_clear(&error);
    assert_int_equal(small_model_save(&small, temporary_path(directory, "a-file"), 0, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "a file of that name"));
    small_model_free(&small);
}

/* What other tools read: which file has which tensor, whole. */
static void parts_have_an_index(void **state)
{
    const char *run = temporary_path(directory, "index");
    struct small_model small;
    struct checkpoint *checkpoint = NULL;
    struct error error = {0};
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT_BYTES], hash[SHA256_TEXT_BYTES], path[FILE_PATH_BYTES];
    small_model_make(&small, 4, 7, 5);
    if (small_model_save_in_parts(&small, run, 0, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(checkpoint_open(run, &checkpoint, NULL), WEFT_OK);
    assert_int_equal(checkpoint_hash(checkpoint, digest, NULL), WEFT_OK);
    assert_string_equal(sha256_text(digest, text), small_model_hash(&small, hash));
    checkpoint_close(checkpoint);

    char *content = NULL;
    size_t size;
    cJSON *index = NULL;
    snprintf(path, sizeof path, "%s", temporary_path(run, "step-00000007/" CHECKPOINT_INDEX));
    assert_int_equal(file_read(path, 1 << 20, &content, &size, NULL), WEFT_OK);
    assert_int_equal(json_parse(content, size, "the index", &index, NULL), WEFT_OK);
    const cJSON *map = cJSON_GetObjectItem(index, "weight_map");
    assert_int_equal(cJSON_GetArraySize(map), SUPPORT_WEIGHTS);
    assert_int_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(index, "metadata"), "total_size")),
                     4 * (5 * 6 + 6 + 1));
    for (int i = 0; i < SUPPORT_WEIGHTS; i++) {
        struct safetensors *file = NULL;
        char part[FILE_PATH_BYTES];
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(map, small.weights[i].name));
        assert_non_null(name);
        assert_int_equal(file_join(part, temporary_path(run, "step-00000007"), name, NULL), WEFT_OK);
        assert_int_equal(safetensors_open(part, &file, NULL), WEFT_OK);
        size_t found = 0;
        for (size_t t = 0; t < safetensors_count(file); t++)
            found += strcmp(safetensors_tensor(file, t)->name, small.weights[i].name) == 0 &&
                     named_tensor_is_whole(safetensors_tensor(file, t));
        assert_int_equal(found, 1);
        safetensors_close(file);
    }
    cJSON_Delete(index);

    /* It is under the manifest's protection as the other files are. */
    content[size / 2] ^= 1;
    assert_int_equal(file_write(path, content, size, NULL), WEFT_OK);
    assert_int_equal(checkpoint_open(run, &checkpoint, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, CHECKPOINT_INDEX "' is damaged"));
    free(content);
    small_model_free(&small);
}

/* A rank's file that the committing one does not see, or sees otherwise, makes no checkpoint. */
static void files_must_be_there_to_commit(void **state)
{
    const char *run = temporary_path(directory, "unseen");
    struct small_model small;
    struct checkpoint_record records[2];
    struct error error = {0};
    size_t count;
    small_model_make(&small, 1, 1, 4);
    assert_int_equal(checkpoint_begin(run, 1, NULL), WEFT_OK);
    assert_int_equal(checkpoint_write_part(run, 1, "model", 0, 2, &small.weights[0], 1, NULL, &records[0], NULL),
                     WEFT_OK);
    records[1] = records[0];
    records[1].name[strlen("model-0000")] = '2';
    assert_int_equal(checkpoint_commit(run, &small.state, records, 2, 0, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "model-00002-of-00002.safetensors"));
    records[0].digest.bytes++;
    error_clear(&error);
    assert_int_equal(checkpoint_commit(run, &small.state, records, 1, 0, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "but the rank that wrote it says"));
    assert_int_equal(checkpoint_list(run, NULL, 0, &count, NULL), WEFT_OK);
    assert_int_equal(count, 0);
    small_model_free(&small);
}

/* A source that gives up leaves no file. */
static const void *take_nothing(void *owner, const void *bytes, uint64_t size)
{
    return (*(int *)owner)-- > 0 ? bytes : NULL;
}

static void a_file_that_is_given_up(void **state)
{
    const char *run = temporary_path(directory, "given-up");
    struct small_model small;
    struct checkpoint_record record;
    struct error error = {0};
    small_model_make(&small, 1, 1, 4);
    assert_int_equal(checkpoint_begin(run, 1, NULL), WEFT_OK);
    for (int pieces = 0; pieces < SUPPORT_WEIGHTS; pieces++) {
        int left = pieces;
        const struct byte_source source = {&left, take_nothing, support_give_back};
        error_clear(&error);
        assert_int_equal(
            checkpoint_write_part(run, 1, "model", 0, 1, small.weights, SUPPORT_WEIGHTS, &source, &record, &error),
            WEFT_ERROR_ABORTED);
        assert_non_null(strstr(error.text, "was canceled"));
        assert_false(file_exists(temporary_path(run, "step-00000001.partial/model.safetensors")));
    }
    small_model_free(&small);
}

/* Who reads the same text sees the same directory. */
static void a_claim_has_a_text_of_its_own(void **state)
{
    const char *run = temporary_path(directory, "text");
    char first[CHECKPOINT_CLAIM_BYTES], again[CHECKPOINT_CLAIM_BYTES], second[CHECKPOINT_CLAIM_BYTES];
    struct checkpoint_claim *claim = NULL;
    checkpoint_claim_text(run, first);
    assert_string_equal(first, "");
    assert_int_equal(checkpoint_claim(run, &claim, NULL), WEFT_OK);
    checkpoint_claim_text(run, first);
    checkpoint_claim_text(run, again);
    assert_true(strlen(first) > 40);
    assert_memory_equal(first, again, sizeof first);
    checkpoint_release(claim);
    assert_int_equal(checkpoint_claim(run, &claim, NULL), WEFT_OK);
    checkpoint_claim_text(run, second);
    assert_string_not_equal(first, second);
    checkpoint_release(claim);
}

int main(void)
{
    directory = temporary_directory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_comes_back),         cmocka_unit_test(the_hash_stays_what_it_is),
        cmocka_unit_test(the_hash_sees_everything),      cmocka_unit_test(any_cut_is_the_same_checkpoint),
        cmocka_unit_test(missing_and_double_pieces),     cmocka_unit_test(another_model_is_named),
        cmocka_unit_test(the_newest_whole_one_is_found), cmocka_unit_test(old_ones_go),
        cmocka_unit_test(the_best_is_marked_and_stays),  cmocka_unit_test(the_same_step_is_replaced),
        cmocka_unit_test(no_checkpoint_there),           cmocka_unit_test(one_writer_a_directory),
        cmocka_unit_test(bad_calls_leave_nothing),       cmocka_unit_test(parts_have_an_index),
        cmocka_unit_test(files_must_be_there_to_commit), cmocka_unit_test(a_file_that_is_given_up),
        cmocka_unit_test(a_claim_has_a_text_of_its_own),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
