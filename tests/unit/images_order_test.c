/* SPDX-License-Identifier: Apache-2.0 */
/* The samples of a data set of images are the same however they are divided over calls, threads and ranks, in every layout. */
#include "image_support.h"
#include "training/data/image/images.h"
#include "training/data/image/internal/read_pattern.h"
#include "training/data/image/tar.h"

#include <math.h>

#define SIZE    16u
#define FLOATS  ((size_t)SIZE * SIZE * 3)
#define CLASSES 3u
#define SAMPLES 80u

struct samples {
    float pixels[SAMPLES][FLOATS];
    int32_t targets[SAMPLES][2];
    float shares[SAMPLES][2];
};

static struct sample_source *must_open(const char *path, const struct images_options *options)
{
    struct error error = {0};
    struct sample_source *source = NULL;
    if (images_open(path, options, &source, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return source;
}

static void must_read(struct sample_source *source, enum dataset_split split, uint64_t first, uint64_t count,
                      struct samples *samples, size_t at)
{
    struct error error = {0};
    const struct model_arrays arrays = {
        .pixels = samples->pixels[at], .targets = samples->targets[at], .shares = samples->shares[at]};
    if (sample_source_read(source, split, first, count, &arrays, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

/* train/ and val/ with three classes: 7, 8 and 9 images to train on, and 2 of each. */
static void write_directories(const char *directory)
{
    for (uint32_t label = 0; label < CLASSES; label++)
        for (uint32_t i = 0; i < 9 + label; i++) {
            char name[64];
            const bool held_out = i < 2;
            snprintf(name, sizeof name, "%s/class_%c/%02u.%s", held_out ? "val" : "train", 'a' + label, i,
                     i % 3 ? "JPEG" : "png");
            write_smooth(directory, name, label * 16 + i, 20 + 9 * i, 70 - 4 * i, i % 3 ? 90 : 0);
        }
}

static const struct images_options everything = {
    .size = SIZE,
    .seed = 5,
    .augment = {.scale_least = 0.1,
                .scale_most = 1,
                .mirror = 0.5,
                .brightness = 0.4,
                .contrast = 0.4,
                .saturation = 0.4,
                .pad = 2,
                .erase = 0.3,
                .mixup = 0.4},
};

static void same_samples_however_divided(void **state)
{
    static const uint32_t threads[] = {0, 1, 3};
    static struct samples expected, found;
    write_directories(*state);
    for (int split = 0; split < 2; split++) {
        struct sample_source *source = must_open(*state, &everything);
        must_read(source, (enum dataset_split)split, 0, SAMPLES, &expected, 0);
        sample_source_close(source);
        for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
            for (uint64_t batch = 1; batch <= 20; batch = batch * 2 + 1) {
                struct images_options options = everything;
                options.threads = threads[i];
                source = must_open(*state, &options);
                memset(&found, 0, sizeof found);
                /* Two ranks that share the samples, and one that comes back to the first half. */
                for (uint64_t rank = 0; rank < 3; rank++)
                    for (uint64_t first = rank % 2 * batch; first < SAMPLES; first += 2 * batch)
                        must_read(source, (enum dataset_split)split, first,
                                  first + batch < SAMPLES ? batch : SAMPLES - first, &found, first);
                assert_memory_equal(&found, &expected, sizeof found);
                sample_source_close(source);
            }
    }
}

/* With little memory fewer samples are made ahead. */
static void little_memory(void **state)
{
    static struct samples expected, found;
    write_directories(*state);
    struct images_options options = everything;
    struct sample_source *source = must_open(*state, &options);
    must_read(source, DATASET_TRAIN, 0, SAMPLES, &expected, 0);
    sample_source_close(source);
    options.threads = 2;
    for (options.memory = 1; options.memory < 1u << 20; options.memory *= 32) {
        source = must_open(*state, &options);
        for (uint64_t first = 0; first < SAMPLES; first += 8) {
            must_read(source, DATASET_TRAIN, first, 8, &found, first);
        }
        assert_memory_equal(&found, &expected, sizeof found);
        sample_source_close(source);
    }
}

static void epochs_have_every_image_once(void **state)
{
    static struct samples samples;
    write_directories(*state);
    const struct images_options options = {.size = SIZE, .seed = 3};
    struct sample_source *source = must_open(*state, &options);
    assert_int_equal(images_classes(source), CLASSES);
    assert_int_equal(images_channels(source), 3);
    assert_string_equal(images_class_name(source, 2), "class_c");
    assert_int_equal(sample_source_samples(source, DATASET_TRAIN), 7 + 8 + 9);
    assert_int_equal(sample_source_samples(source, DATASET_HELD_OUT), 6);
    assert_non_null(strstr(sample_source_describe(source), "24 images of 3 classes"));
    must_read(source, DATASET_TRAIN, 0, 72, &samples, 0);
    for (int epoch = 0; epoch < 3; epoch++) {
        int counts[CLASSES] = {0};
        for (int i = 0; i < 24; i++) {
            const int32_t *targets = samples.targets[epoch * 24 + i];
            counts[targets[0]]++;
            assert_int_equal(targets[0], targets[1]);
            assert_true(samples.shares[epoch * 24 + i][0] == 1 && samples.shares[epoch * 24 + i][1] == 0);
            for (int j = 0; j < i; j++)
                assert_memory_not_equal(samples.pixels[epoch * 24 + i], samples.pixels[epoch * 24 + j],
                                        sizeof samples.pixels[0]);
        }
        assert_true(counts[0] == 7 && counts[1] == 8 && counts[2] == 9);
    }
    assert_memory_not_equal(samples.pixels[0], samples.pixels[24], 24 * sizeof samples.pixels[0]);
    /* Held-out images come in the same order for every seed, and again after the last. */
    must_read(source, DATASET_HELD_OUT, 0, 12, &samples, 0);
    assert_memory_equal(samples.pixels[0], samples.pixels[6], 6 * sizeof samples.pixels[0]);
    sample_source_close(source);
    struct sample_source *other = must_open(*state, &(struct images_options){.size = SIZE, .seed = 4});
    must_read(other, DATASET_HELD_OUT, 0, 6, &samples, 20);
    assert_memory_equal(samples.pixels[0], samples.pixels[20], 6 * sizeof samples.pixels[0]);
    sample_source_close(other);
}

/* What one reads for a prediction is what evaluation reads. */
static void single_images(void **state)
{
    static struct samples samples;
    static float pixels[FLOATS];
    write_directories(*state);
    const struct images_options options = {.size = SIZE, .augment = {.scale_least = 0.1, .scale_most = 1}};
    struct sample_source *source = must_open(*state, &options);
    must_read(source, DATASET_HELD_OUT, 0, 6, &samples, 0);
    sample_source_close(source);
    assert_int_equal(images_read_file(temporary_path(*state, "val/class_b/01.JPEG"), &options, pixels, NULL), WEFT_OK);
    int same = 0;
    for (int i = 0; i < 6; i++)
        same += samples.targets[i][0] == 1 && memcmp(samples.pixels[i], pixels, sizeof pixels) == 0;
    assert_int_equal(same, 1);
}

/* Ranks that need targets only get them without decoding. */
static void targets_alone(void **state)
{
    static struct samples expected;
    static int32_t targets[SAMPLES][2];
    write_directories(*state);
    struct sample_source *source = must_open(*state, &everything);
    must_read(source, DATASET_TRAIN, 0, SAMPLES, &expected, 0);
    const struct model_arrays arrays = {.targets = targets[0]};
    assert_int_equal(sample_source_read(source, DATASET_TRAIN, 0, 33, &arrays, NULL), WEFT_OK);
    assert_int_equal(sample_source_read(source, DATASET_TRAIN, 33, SAMPLES - 33,
                                        &(struct model_arrays){.targets = targets[33]}, NULL),
                     WEFT_OK);
    assert_memory_equal(targets, expected.targets, sizeof targets);
    sample_source_close(source);
}

static void pairs_are_mixed(void **state)
{
    static int32_t targets[3000][2];
    static float shares[3000][2];
    write_directories(*state);
    const struct model_arrays arrays = {.targets = targets[0], .shares = shares[0]};
    const struct images_options options = {.size = SIZE, .augment = {.mixup = 1}};
    struct sample_source *source = must_open(*state, &options);
    assert_int_equal(sample_source_read(source, DATASET_TRAIN, 0, 3000, &arrays, NULL), WEFT_OK);
    for (int i = 0; i < 3000; i += 2) {
        assert_true(targets[i][0] == targets[i + 1][1] && targets[i][1] == targets[i + 1][0]);
        assert_true(shares[i][0] == shares[i + 1][0] && shares[i][0] >= 0.5f);
    }
    sample_source_close(source);
}

/* Calls that cut a pair decode it once: its other sample is there even when the files are gone. */
static void a_cut_pair_is_kept(void **state)
{
    static struct samples expected, found;
    char train[FILE_PATH_BYTES];
    struct images_options options = {.size = SIZE, .augment = {.mixup = 1}};
    write_directories(*state);
    struct sample_source *source = must_open(*state, &options);
    must_read(source, DATASET_TRAIN, 0, 4, &expected, 0);
    sample_source_close(source);
    source = must_open(*state, &options);
    must_read(source, DATASET_TRAIN, 0, 3, &found, 0);
    snprintf(train, sizeof train, "%s", temporary_path(*state, "train"));
    assert_int_equal(file_remove_tree(train, NULL), WEFT_OK);
    must_read(source, DATASET_TRAIN, 3, 1, &found, 3);
    assert_memory_equal(&found, &expected, sizeof found);
    sample_source_close(source);
}

/* An image that cannot be decoded is replaced, the same way whatever the division, and counted. */
static void damaged_images_are_skipped(void **state)
{
    static struct samples one, other;
    write_directories(*state);
    temporary_file(*state, "train/class_b/05.JPEG", "\xff\xd8\xff no more", 11);
    struct images_options options = {.size = SIZE, .skip = true};
    struct sample_source *source = must_open(*state, &options);
    must_read(source, DATASET_TRAIN, 0, 24, &one, 0);
    assert_int_equal(images_skipped(source), 1);
    sample_source_close(source);
    options.threads = 2;
    source = must_open(*state, &options);
    for (uint64_t i = 0; i < 24; i += 3)
        must_read(source, DATASET_TRAIN, i, 3, &other, i);
    assert_int_equal(images_skipped(source), 1);
    assert_memory_equal(&one, &other, sizeof one);
    sample_source_close(source);
    /* Or it is an error that names it. */
    options.skip = false;
    struct error error = {0};
    source = NULL;
    weft_status status = images_open(*state, &options, &source, &error);
    if (status == WEFT_OK)
        status =
            sample_source_read(source, DATASET_TRAIN, 0, 24, &(struct model_arrays){.pixels = one.pixels[0]}, &error);
    assert_int_equal(status, WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "train/class_b/05.JPEG"));
    sample_source_close(source);
}

/* ---- other layouts ---- */

/* A tenth of each class is held out where nothing is named so. */
static void directories_without_a_split(void **state)
{
    for (uint32_t i = 0; i < 40; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s/%02u.png", i % 2 ? "cat" : "dog", i);
        write_smooth(*state, name, i, 16, 16, 0);
    }
    struct sample_source *source = must_open(*state, &(struct images_options){.size = SIZE});
    assert_int_equal(sample_source_samples(source, DATASET_TRAIN), 36);
    assert_int_equal(sample_source_samples(source, DATASET_HELD_OUT), 4);
    assert_string_equal(images_class_name(source, 0), "cat");
    sample_source_close(source);
}

/* Images of shards are those of their files. */
static void shards(void **state)
{
    static struct samples samples;
    static float pixels[FLOATS];
    const struct images_options options = {.size = SIZE, .threads = 1};
    for (int held_out = 0; held_out < 2; held_out++) {
        struct file_writer writer;
        const char *path = temporary_path(*state, held_out ? "val_000000.tar" : "train_000000.tar");
        assert_int_equal(file_writer_open(&writer, path, 0, NULL), WEFT_OK);
        for (uint32_t i = 0; i < 6; i++) {
            char name[64], label[8];
            struct encoded encoded = encode_smooth(i + 10 * (uint32_t)held_out, 30, 20, 3, i % 2 ? 95 : 0);
            snprintf(name, sizeof name, "some/%06u.%s", i, i % 2 ? "jpg" : "png");
            assert_int_equal(tar_append(&writer, name, encoded.bytes, encoded.size, NULL), WEFT_OK);
            if (held_out && i == 3)
                temporary_file(*state, "one.jpg", encoded.bytes, encoded.size);
            free(encoded.bytes);
            snprintf(name, sizeof name, "some/%06u.cls", i);
            snprintf(label, sizeof label, "%u", i % 3);
            assert_int_equal(tar_append(&writer, name, label, 1, NULL), WEFT_OK);
        }
        assert_int_equal(tar_finish(&writer, NULL), WEFT_OK);
        assert_int_equal(file_writer_close(&writer, NULL), WEFT_OK);
    }
    temporary_file(*state, "classes.txt", "ape\nbee\ncow\n", 12);
    struct sample_source *source = must_open(*state, &options);
    assert_int_equal(images_classes(source), 3);
    assert_string_equal(images_class_name(source, 1), "bee");
    assert_int_equal(sample_source_samples(source, DATASET_HELD_OUT), 6);
    must_read(source, DATASET_HELD_OUT, 0, 6, &samples, 0);
    sample_source_close(source);
    assert_int_equal(images_read_file(temporary_path(*state, "one.jpg"), &options, pixels, NULL), WEFT_OK);
    int same = 0;
    for (int i = 0; i < 6; i++)
        same += samples.targets[i][0] == 0 && memcmp(samples.pixels[i], pixels, sizeof pixels) == 0;
    assert_int_equal(same, 1);
    source = must_open(temporary_path(*state, "val_000000.tar"), &options); /* it is held-out data only */
    assert_int_equal(sample_source_samples(source, DATASET_TRAIN), 0);
    assert_int_equal(sample_source_samples(source, DATASET_HELD_OUT), 6);
    sample_source_close(source);
}

static void fashion_mnist(void **state)
{
    static const char path[] = "/usr/share/datasets/fashion-mnist";
    static float pixels[100][28 * 28];
    int32_t targets[100][2];
    if (!file_is_directory(path))
        skip();
    struct sample_source *source = must_open(path, &(struct images_options){.size = 28});
    assert_int_equal(images_classes(source), 10);
    assert_int_equal(images_channels(source), 1);
    assert_int_equal(sample_source_samples(source, DATASET_TRAIN), 60000);
    assert_int_equal(sample_source_samples(source, DATASET_HELD_OUT), 10000);
    const struct image_normalization normalization = images_normalization(source);
    assert_true(fabs(normalization.mean[0] - 0.2860) < 1e-4 && fabs(normalization.deviation[0] - 0.3530) < 1e-4);
    const struct model_arrays arrays = {.pixels = pixels[0], .targets = targets[0]};
    assert_int_equal(sample_source_read(source, DATASET_TRAIN, 59950, 100, &arrays, NULL), WEFT_OK);
    double sum = 0;
    for (size_t i = 0; i < 100 * 28 * 28; i++)
        sum += (double)pixels[i / 784][i % 784] / (100 * 28 * 28);
    assert_true(fabs(sum) < 0.2);
    struct dataset_identity identity;
    assert_int_equal(sample_source_identify(source, &identity, NULL), WEFT_OK);
    assert_int_equal(identity.tokens, 70000);
    sample_source_close(source);
}

static void identities(void **state)
{
    struct dataset_identity one, same, changed;
    write_directories(*state);
    struct sample_source *source = must_open(*state, &everything);
    assert_int_equal(sample_source_identify(source, &one, NULL), WEFT_OK);
    sample_source_close(source);
    source = must_open(*state, &(struct images_options){.size = 5, .seed = 77});
    assert_int_equal(sample_source_identify(source, &same, NULL), WEFT_OK);
    sample_source_close(source);
    assert_true(one.tokens == 30 && same.tokens == 30 && one.hash == same.hash);
    write_smooth(*state, "train/class_a/04.JPEG", 99, 20, 20, 90);
    source = must_open(*state, &everything);
    assert_int_equal(sample_source_identify(source, &changed, NULL), WEFT_OK);
    sample_source_close(source);
    assert_true(changed.hash != one.hash);
}

static void patterns_of_reads(void **state)
{
    struct read_pattern pattern = {0};
    /* Rank 1 of 4 reads two neighbors of 8 samples in each step. */
    for (uint64_t step = 0; step < 40; step++)
        for (uint64_t i = 0; i < 2; i++) {
            const uint64_t first = step * 64 + 16 + i * 8;
            if (step >= 3) {
                assert_int_equal(read_pattern_predict(&pattern, 1, 8), first);
                assert_int_equal(read_pattern_predict(&pattern, 2, 8), i ? first + 56 : first + 8);
            }
            read_pattern_add(&pattern, first);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_temporary_directory(same_samples_however_divided),
        in_temporary_directory(little_memory),
        in_temporary_directory(epochs_have_every_image_once),
        in_temporary_directory(single_images),
        in_temporary_directory(targets_alone),
        in_temporary_directory(pairs_are_mixed),
        in_temporary_directory(a_cut_pair_is_kept),
        in_temporary_directory(damaged_images_are_skipped),
        in_temporary_directory(directories_without_a_split),
        in_temporary_directory(shards),
        cmocka_unit_test(fashion_mnist),
        in_temporary_directory(identities),
        cmocka_unit_test(patterns_of_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
