/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets of images that cannot be used are refused when they are opened, with a message that names the place. */
#include "image_support.h"
#include "training/data/image/images.h"
#include "training/data/image/tar.h"

#include <unistd.h>

static void must_fail(const char *path, const struct images_options *options, weft_status status, const char *words)
{
    struct error error = {0};
    struct sample_source *source = NULL;
    const weft_status found = images_open(path, options, &source, &error);
    assert_null(source);
    if (found != status || !strstr(error.text, words))
        fail_msg("status %d; '%s' is not in: %s", found, words, error.text);
}

static const struct images_options small = {.size = 8};

static void bad_options(void **state)
{
    must_fail(*state, &(struct images_options){0}, WEFT_ERROR_ARGUMENT, "the size of images is 0");
    must_fail(*state, &(struct images_options){.size = 100000}, WEFT_ERROR_ARGUMENT, "100000");
    must_fail(*state, &(struct images_options){.size = 8, .channels = 2}, WEFT_ERROR_ARGUMENT, "2 channels");
    must_fail(*state, &(struct images_options){.size = 8, .augment.pad = 8}, WEFT_ERROR_ARGUMENT, "padding");
    must_fail(*state, &(struct images_options){.size = 8, .augment.mixup = 9}, WEFT_ERROR_ARGUMENT, "mixup");
}

static void bad_directories(void **state)
{
    const char *directory = *state;
    must_fail(temporary_path(directory, "nowhere"), &small, WEFT_ERROR_DATA, "nowhere");
    must_fail(directory, &small, WEFT_ERROR_DATA, "no data set of images");
    write_smooth(directory, "one/train/cat/1.png", 1, 9, 9, 0);
    write_smooth(directory, "one/train/cat/2.png", 2, 9, 9, 0);
    must_fail(temporary_path(directory, "one/train"), &small, WEFT_ERROR_DATA, "1 class;");
    write_smooth(directory, "one/train/dog/1.png", 3, 9, 9, 0);
    /* One image of a class cannot be in both splits. */
    must_fail(temporary_path(directory, "one/train"), &small, WEFT_ERROR_DATA, "none of class 'dog'");
    write_smooth(directory, "one/val/cat/1.png", 3, 9, 9, 0);
    must_fail(temporary_path(directory, "one"), &small, WEFT_ERROR_DATA, "held-out images");
    write_smooth(directory, "one/val/cow/1.png", 3, 9, 9, 0);
    must_fail(temporary_path(directory, "one"), &small, WEFT_ERROR_DATA, "a class 'cow' that the training images lack");
    assert_int_equal(mkdir(temporary_path(directory, "one/train/ant"), 0755), 0);
    must_fail(temporary_path(directory, "one"), &small, WEFT_ERROR_DATA, "train/ant' has no .jpg");
}

static void bad_images(void **state)
{
    const char *directory = *state;
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s/%d.png", i % 2 ? "cat" : "dog", i / 2);
        write_smooth(directory, name, (uint32_t)i, 9, 9, 0);
        temporary_file(directory, name, "text", 4);
    }
    must_fail(directory, &small, WEFT_ERROR_DATA, "neither a JPEG nor a PNG image");
    struct images_options skipping = small;
    skipping.skip = true;
    must_fail(directory, &skipping, WEFT_ERROR_DATA, "2 images in a row cannot be decoded");
}

/* ---- idx ---- */

/* Write an idx file of `count` values whose header has the given sizes. */
static void write_idx(const char *directory, const char *name, unsigned dimensions, const uint32_t *sizes,
                      uint32_t count, unsigned most)
{
    uint8_t bytes[20 + 2000] = {0, 0, 8, (uint8_t)dimensions};
    for (unsigned i = 0; i < 4 * dimensions; i++)
        bytes[4 + i] = (uint8_t)(sizes[i / 4] >> (24 - 8 * (i % 4)));
    for (uint32_t i = 0; i < count; i++)
        bytes[4 + 4 * dimensions + i] = (uint8_t)(i % most);
    temporary_file(directory, name, bytes, 4 + 4 * dimensions + count);
}

static void write_idx_files(const char *directory)
{
    write_idx(directory, "train-images-idx3-ubyte", 3, (uint32_t[]){20, 4, 4}, 320, 256);
    write_idx(directory, "train-labels-idx1-ubyte", 1, (uint32_t[]){20}, 20, 5);
    write_idx(directory, "t10k-images-idx3-ubyte", 3, (uint32_t[]){10, 4, 4}, 160, 256);
    write_idx(directory, "t10k-labels-idx1-ubyte", 1, (uint32_t[]){10}, 10, 5);
}

static void bad_idx_files(void **state)
{
    const char *directory = *state;
    struct sample_source *source;
    write_idx_files(directory);
    assert_int_equal(images_open(directory, &small, &source, NULL), WEFT_OK);
    sample_source_close(source);
    write_idx(directory, "train-labels-idx1-ubyte", 1, (uint32_t[]){19}, 19, 5);
    must_fail(directory, &small, WEFT_ERROR_DATA, "20 images, but");
    write_idx(directory, "train-labels-idx1-ubyte", 1, (uint32_t[]){20}, 20, 4);
    must_fail(directory, &small, WEFT_ERROR_DATA, "go up to 4, but those of training up to 3");
    write_idx(directory, "train-labels-idx1-ubyte", 1, (uint32_t[]){20}, 20, 1);
    write_idx(directory, "t10k-labels-idx1-ubyte", 1, (uint32_t[]){10}, 10, 1);
    must_fail(directory, &small, WEFT_ERROR_DATA, "1 class;");
    write_idx_files(directory);
    write_idx(directory, "t10k-labels-idx1-ubyte", 1, (uint32_t[]){10}, 10, 4);
    must_fail(directory, &small, WEFT_ERROR_DATA, "held-out images");
    write_idx_files(directory);
    write_idx(directory, "t10k-images-idx3-ubyte", 3, (uint32_t[]){10, 4, 4}, 159, 256);
    must_fail(directory, &small, WEFT_ERROR_DATA, "is truncated");
    write_idx(directory, "t10k-images-idx3-ubyte", 3, (uint32_t[]){10, 4, 40000}, 160, 256);
    must_fail(directory, &small, WEFT_ERROR_DATA, "more values than its");
    write_idx(directory, "t10k-images-idx3-ubyte", 3, (uint32_t[]){10, 4, 4}, 161, 256);
    must_fail(directory, &small, WEFT_ERROR_DATA, "has more than the 160 values");
    write_idx(directory, "t10k-images-idx3-ubyte", 3, (uint32_t[]){10, 2, 8}, 160, 256);
    must_fail(directory, &small, WEFT_ERROR_DATA, "another size");
    write_idx(directory, "t10k-images-idx3-ubyte", 3, (uint32_t[]){10, 0, 8}, 160, 256);
    must_fail(directory, &small, WEFT_ERROR_DATA, "dimension 2");
    write_idx(directory, "t10k-images-idx3-ubyte", 1, (uint32_t[]){160}, 160, 256);
    must_fail(directory, &small, WEFT_ERROR_DATA, "not those of images");
    temporary_file(directory, "t10k-images-idx3-ubyte", "nonsense", 8);
    must_fail(directory, &small, WEFT_ERROR_DATA, "not an idx file");
    temporary_file(directory, "t10k-images-idx3-ubyte", "\x1f\x8b\x08\0\0\0\0\0\0\3\x63", 11);
    must_fail(directory, &small, WEFT_ERROR_DATA, "truncated");
    temporary_file(directory, "t10k-images-idx3-ubyte", "\x1f\x8b nonsense", 11);
    must_fail(directory, &small, WEFT_ERROR_DATA, "cannot decompress");
    assert_int_equal(file_remove_tree(temporary_path(directory, "t10k-images-idx3-ubyte"), NULL), WEFT_OK);
    must_fail(directory, &small, WEFT_ERROR_DATA, "has no t10k-images-idx3-ubyte");
}

/* ---- shards ---- */

/* A shard of four samples of two classes; `label` is that of the last, NULL to leave it out. Returns its size. */
static size_t write_shard(const char *directory, const char *label)
{
    struct file_writer writer;
    struct encoded encoded = encode_smooth(1, 9, 9, 3, 0);
    assert_int_equal(file_writer_open(&writer, temporary_path(directory, "a.tar"), 0, NULL), WEFT_OK);
    for (int i = 0; i < 4; i++) {
        char name[32];
        const char *text = i == 3 ? label : i % 2 ? "1\n" : "0";
        snprintf(name, sizeof name, "%d.png", i);
        assert_int_equal(tar_append(&writer, name, encoded.bytes, encoded.size, NULL), WEFT_OK);
        snprintf(name, sizeof name, "%d.cls", i);
        if (text)
            assert_int_equal(tar_append(&writer, name, text, strlen(text), NULL), WEFT_OK);
    }
    assert_int_equal(tar_finish(&writer, NULL), WEFT_OK);
    const size_t size = writer.written;
    assert_int_equal(file_writer_close(&writer, NULL), WEFT_OK);
    free(encoded.bytes);
    return size;
}

static void bad_shards(void **state)
{
    struct sample_source *source;
    const char *path = temporary_path(*state, "a.tar");
    char copy[FILE_PATH_BYTES];
    snprintf(copy, sizeof copy, "%s", path);
    size_t size = write_shard(*state, "1");
    assert_int_equal(images_open(*state, &small, &source, NULL), WEFT_OK);
    sample_source_close(source);
    assert_int_equal(images_open(copy, &small, &source, NULL), WEFT_OK);
    sample_source_close(source);
    for (size_t cut = 1024; cut < size; cut += 300) {
        write_shard(*state, "1");
        assert_int_equal(truncate(copy, (off_t)(size - cut)), 0);
        must_fail(*state, &small, WEFT_ERROR_DATA, "is cut");
    }
    write_shard(*state, NULL);
    must_fail(*state, &small, WEFT_ERROR_DATA, "the sample '3' of the shard");
    write_shard(*state, "x");
    must_fail(*state, &small, WEFT_ERROR_DATA, "the label of '3.cls'");
    write_shard(*state, "-1");
    must_fail(*state, &small, WEFT_ERROR_DATA, "the label of '3.cls'");
    write_shard(*state, "3");
    must_fail(*state, &small, WEFT_ERROR_DATA, "class");
    temporary_file(*state, "classes.txt", "a\nb\n", 4);
    must_fail(*state, &small, WEFT_ERROR_DATA, "names 2 classes, but there are labels up to 3");
    write_shard(*state, "1");
    char *bytes;
    assert_int_equal(file_read(copy, 1 << 20, &bytes, &size, NULL), WEFT_OK);
    bytes[0] ^= 1;
    temporary_file(*state, "a.tar", bytes, size);
    must_fail(*state, &small, WEFT_ERROR_DATA, "checksum");
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_temporary_directory(bad_options), in_temporary_directory(bad_directories),
        in_temporary_directory(bad_images),  in_temporary_directory(bad_idx_files),
        in_temporary_directory(bad_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
