/* SPDX-License-Identifier: Apache-2.0 */
/* Images are packed into shards that training reads with the same images, labels and names of classes. */
#include "image_support.h"
#include "training/data/image/idx.h"
#include "training/data/image/image_pack.h"
#include "training/data/image/images.h"
#include "training/data/image/tar.h"

#include <fcntl.h>
#include <unistd.h>

#include <zlib.h>

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

static void must_refuse_to_pack(const char *directory, const struct image_pack_options *options, const char *words)
{
    struct image_packed packed;
    struct error error = {0};
    assert_int_equal(image_pack(temporary_path(directory, "in"), options, &packed, &error), WEFT_ERROR_DATA);
    if (!strstr(error.text, words))
        fail_msg("'%s' is not in: %s", words, error.text);
    assert_false(file_exists(options->output));
}

/* What training would refuse is not written. */
static void refused_classes(void **state)
{
    char output[FILE_PATH_BYTES];
    snprintf(output, sizeof output, "%s", temporary_path(*state, "out"));
    const struct image_pack_options options = {.output = output, .quality = 90, .shard_bytes = 1 << 20, .skip = true};
    write_classes(*state);
    for (uint32_t i = 1; i < 40; i += 2) {
        char name[64];
        snprintf(name, sizeof name, "in/cat/%02u.%s", i, i % 3 ? "jpg" : "png");
        temporary_file(*state, name, "damaged", 7);
    }
    must_refuse_to_pack(*state, &options, "all training images of class 'cat' are damaged");
    write_classes(*state);
    assert_int_equal(rename(temporary_path(*state, "in/cat"), temporary_path(*state, "in/c\nat")), 0);
    must_refuse_to_pack(*state, &options, "the control character 10");
}

/* ---- shards of other programs ---- */

/* Eight samples of two classes, each also with a file that macOS adds. The last sample has the label `last`. */
static void write_foreign(const char *directory, const char *last)
{
    struct file_writer writer;
    struct encoded encoded = encode_smooth(1, 9, 9, 3, 0);
    assert_int_equal(file_make_directory(temporary_path(directory, "in"), NULL), WEFT_OK);
    assert_int_equal(file_writer_open(&writer, temporary_path(directory, "in/a.tar"), 0, NULL), WEFT_OK);
    for (int i = 0; i < 8; i++) {
        char name[32];
        const char *label = i == 7 ? last : i % 2 ? "1" : "0";
        snprintf(name, sizeof name, "./._%d.png", i);
        assert_int_equal(tar_append(&writer, name, "Mac OS X", 8, NULL), WEFT_OK);
        snprintf(name, sizeof name, "./%d.png", i);
        assert_int_equal(tar_append(&writer, name, encoded.bytes, encoded.size, NULL), WEFT_OK);
        snprintf(name, sizeof name, "./._%d.cls", i);
        assert_int_equal(tar_append(&writer, name, "Mac OS X", 8, NULL), WEFT_OK);
        snprintf(name, sizeof name, "./%d.cls", i);
        assert_int_equal(tar_append(&writer, name, label, strlen(label), NULL), WEFT_OK);
    }
    assert_int_equal(tar_finish(&writer, NULL), WEFT_OK);
    assert_int_equal(file_writer_close(&writer, NULL), WEFT_OK);
    free(encoded.bytes);
}

static void foreign_shards(void **state)
{
    struct error error = {0};
    struct sample_source *source = NULL;
    write_foreign(*state, "1");
    temporary_file(*state, "in/classes.txt", "cat\r\ndog\r\n\r\n", 12);
    source = must_open(temporary_path(*state, "in"));
    assert_int_equal(images_classes(source), 2);
    assert_string_equal(images_class_name(source, 1), "dog");
    assert_int_equal(sample_source_samples(source, DATASET_TRAIN) + sample_source_samples(source, DATASET_HELD_OUT), 8);
    sample_source_close(source);
    write_foreign(*state, "8");
    assert_int_equal(images_open(temporary_path(*state, "in"), &reading, &source, &error), WEFT_ERROR_DATA);
    if (!strstr(error.text, "the label of './7 of ") || !strstr(error.text, "is 8, but with 8 images"))
        fail_msg("%s", error.text);
}

static weft_status copy_member_name(void *context, const struct tar_member *member, struct error *error)
{
    snprintf(context, TAR_NAME_BYTES, "%s", member->name);
    return WEFT_OK;
}

/* Read an archive of one member after a pax header: a comment, and a path of so many bytes. */
static weft_status read_pax(const char *directory, size_t comment, size_t path_bytes, char *name, struct error *error)
{
    static char records[2 << 20], path[5000], text[sizeof records];
    memset(text, 'c', comment);
    text[comment] = '\0';
    memset(path, 'p', path_bytes);
    path[path_bytes] = '\0';
    /* "LENGTH key=value\n", with lengths of 7 and 4 digits */
    const int size = snprintf(records, sizeof records, "%07zu comment=%s\n%04zu path=%s\n", comment + 17, text,
                              path_bytes + 11, path);
    struct file_writer writer;
    const char *file = temporary_path(directory, "pax.tar");
    assert_int_equal(file_writer_open(&writer, file, 0, NULL), WEFT_OK);
    assert_int_equal(tar_append(&writer, "pax", records, (size_t)size, NULL), WEFT_OK);
    assert_int_equal(tar_append(&writer, "short", "1", 1, NULL), WEFT_OK);
    assert_int_equal(tar_finish(&writer, NULL), WEFT_OK);
    assert_int_equal(file_writer_close(&writer, NULL), WEFT_OK);
    /* The kind of the first member, at byte 156, from a file to a pax header; the checksum is at 148. */
    char checksum[7];
    const int archive = open(file, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(archive, checksum, 6, 148), 6);
    checksum[6] = '\0';
    snprintf(checksum, sizeof checksum, "%06o", ((unsigned)strtoul(checksum, NULL, 8) + 'x' - '0') & 0777777u);
    assert_int_equal(pwrite(archive, checksum, 6, 148), 6);
    assert_int_equal(pwrite(archive, "x", 1, 156), 1);
    const struct tar_visitor visitor = {copy_member_name, name};
    const weft_status status = tar_read(archive, file, (uint64_t)lseek(archive, 0, SEEK_END), &visitor, error);
    file_close(archive);
    return status;
}

static void long_pax_headers(void **state)
{
    char name[TAR_NAME_BYTES];
    struct error error = {0};
    assert_int_equal(read_pax(*state, 1000000, TAR_NAME_BYTES - 1, name, &error), WEFT_OK);
    assert_int_equal(strlen(name), TAR_NAME_BYTES - 1);
    assert_int_equal(read_pax(*state, 10, TAR_NAME_BYTES, name, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "a path of 1024 bytes"));
    error = (struct error){0};
    assert_int_equal(read_pax(*state, 1 << 20, 10, name, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "at most 1 MiB is read"));
}

/* ---- idx files ---- */

/* A compressed idx file in two parts is read whole, and what is not compressed after it is ignored. */
static void idx_in_parts(void **state)
{
    static const uint8_t bytes[] = {0, 0, 8, 1, 0, 0, 0, 6, 1, 2, 3, 4, 5, 6};
    const char *path = temporary_path(*state, "parts.gz");
    for (size_t i = 0; i < sizeof bytes; i += 7) {
        gzFile file = gzopen(path, i ? "ab" : "wb");
        assert_int_equal(gzwrite(file, bytes + i, 7), 7);
        assert_int_equal(gzclose(file), Z_OK);
    }
    for (int padded = 0; padded < 2; padded++) {
        struct idx idx;
        assert_int_equal(idx_read(path, &idx, NULL), WEFT_OK);
        assert_int_equal(idx.sizes[0], 6);
        assert_memory_equal(idx.values, bytes + 8, 6);
        idx_free(&idx);
        FILE *file = fopen(path, "ab");
        assert_true(file && fwrite("\0\0\0", 1, 3, file) == 3 && fclose(file) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_temporary_directory(kept_images),    in_temporary_directory(smaller_images),
        in_temporary_directory(damaged_images), in_temporary_directory(refused_classes),
        in_temporary_directory(foreign_shards), in_temporary_directory(long_pax_headers),
        in_temporary_directory(idx_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
