/* SPDX-License-Identifier: Apache-2.0 */
/* Images are packed into shards that training reads with the same images, labels and names of classes. */
#include "image_support.h"
#include "training/data/image/image_pack.h"
#include "training/data/image/images.h"

#define SIZE   12u
#define FLOATS ((size_t)SIZE * SIZE * 3)

static const struct images_options reading = {.size = SIZE};

static struct sample_source *must_open(const char *path)
{
    struct error error = {0};
    struct sample_source *source = NULL;
    if (images_open(path, &reading, &source, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return source;
}

/* Two classes of 20 images, wider than high, every third a PNG. */
static void write_classes(const char *directory)
{
    for (uint32_t i = 0; i < 40; i++) {
        char name[64];
        snprintf(name, sizeof name, "in/%s/%02u.%s", i % 2 ? "cat" : "dog", i, i % 3 ? "jpg" : "png");
        write_smooth(directory, name, i, 30 + i, 60 + i, i % 3 ? 95 : 0);
    }
}

static struct image_packed must_pack(const char *directory, const struct image_pack_options *options)
{
    struct image_packed packed;
    struct error error = {0};
    if (image_pack(temporary_path(directory, "in"), options, &packed, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return packed;
}

/* Unchanged bytes make the same samples, though in another order. */
static void kept_images(void **state)
{
    static float one[40][FLOATS], other[40][FLOATS];
    int32_t labels[40][2], other_labels[40][2];
    write_classes(*state);
    const char *output = temporary_path(*state, "out");
    const struct image_pack_options options = {.output = output, .quality = 90, .shard_bytes = 40000};
    assert_true(image_pack_is_for(temporary_path(*state, "in")));
    assert_false(image_pack_is_for(temporary_path(*state, "in/cat")));
    const struct image_packed packed = must_pack(*state, &options);
    assert_true(packed.classes == 2 && packed.resized == 0 && packed.skipped == 0);
    assert_true(packed.splits[DATASET_TRAIN].images == 36 && packed.splits[DATASET_HELD_OUT].images == 4);
    assert_true(packed.splits[DATASET_TRAIN].files > 1 && packed.splits[DATASET_HELD_OUT].files == 1);
    struct sample_source *from = must_open(temporary_path(*state, "in")), *to = must_open(output);
    assert_string_equal(images_class_name(to, 0), "cat");
    for (int split = 0; split < 2; split++) {
        const uint64_t count = sample_source_samples(from, (enum dataset_split)split);
        assert_int_equal(sample_source_samples(to, (enum dataset_split)split), count);
        assert_int_equal(sample_source_read(from, (enum dataset_split)split, 0, count,
                                            &(struct model_arrays){.pixels = one[0], .targets = labels[0]}, NULL),
                         WEFT_OK);
        assert_int_equal(sample_source_read(to, (enum dataset_split)split, 0, count,
                                            &(struct model_arrays){.pixels = other[0], .targets = other_labels[0]},
                                            NULL),
                         WEFT_OK);
        for (uint64_t i = 0; i < count; i++) {
            int same = 0;
            for (uint64_t j = 0; j < count; j++)
                same += memcmp(one[i], other[j], sizeof one[i]) == 0 && labels[i][0] == other_labels[j][0];
            assert_int_equal(same, 1);
        }
    }
    sample_source_close(from);
    sample_source_close(to);
    /* It is not written over. */
    struct image_packed again;
    assert_int_equal(image_pack(temporary_path(*state, "in"), &options, &again, NULL), WEFT_ERROR_ARGUMENT);
}

static void smaller_images(void **state)
{
    write_classes(*state);
    const char *output = temporary_path(*state, "out");
    const struct image_pack_options options = {.output = output, .quality = 95, .shard_bytes = 1 << 20, .size = 40};
    /* Those of 31 + i rows with i above 9. */
    const struct image_packed packed = must_pack(*state, &options);
    assert_int_equal(packed.resized, 29);
    struct sample_source *source = must_open(output);
    static float pixels[36][FLOATS];
    assert_int_equal(
        sample_source_read(source, DATASET_TRAIN, 0, 36, &(struct model_arrays){.pixels = pixels[0]}, NULL), WEFT_OK);
    sample_source_close(source);
}

static void damaged_images(void **state)
{
    write_classes(*state);
    const char *output = temporary_path(*state, "out");
    struct image_pack_options options = {.output = output, .quality = 90, .shard_bytes = 1 << 20};
    temporary_file(*state, "in/cat/07.jpg", "\xff\xd8\xff", 3);
    struct image_packed packed;
    struct error error = {0};
    assert_int_equal(image_pack(temporary_path(*state, "in"), &options, &packed, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "in/cat/07.jpg"));
    assert_false(file_exists(output));
    options.skip = true;
    packed = must_pack(*state, &options);
    assert_int_equal(packed.skipped, 1);
    assert_int_equal(packed.splits[DATASET_TRAIN].images + packed.splits[DATASET_HELD_OUT].images, 39);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_temporary_directory(kept_images),
        in_temporary_directory(smaller_images),
        in_temporary_directory(damaged_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
