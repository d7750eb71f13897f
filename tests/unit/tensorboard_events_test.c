/* SPDX-License-Identifier: Apache-2.0 */
/* Event files of TensorBoard: every scalar once, while the file grows, and past what is damaged in it. */
#include "platform/metrics/read/internal/tensorboard_events.h"

#include "base/crc32c.h"
#include "temporary.h"
#include "training/train/report/internal/event_file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SCALARS_MOST 5000

static const char *directory;

static struct {
    char name[EVENTS_NAME_MOST + 1];
    struct events_scalar scalar;
} scalars[SCALARS_MOST];
static size_t count;
static size_t refuse_at; /* scalars that are taken; then memory runs out */

static weft_status take(void *state, const struct events_scalar *scalar, struct error *error)
{
    if (count == refuse_at)
        return error_set(error, WEFT_ERROR_MEMORY, "no more");
    assert_true(count < SCALARS_MOST);
    strcpy(scalars[count].name, scalar->name);
    scalars[count++].scalar = *scalar;
    return WEFT_OK;
}

static struct events_reader open_reader(const char *path)
{
    struct events_reader reader;
    struct error error = {0};
    if (events_open(&reader, path, 0, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    count = 0;
    refuse_at = SIZE_MAX;
    return reader;
}

static void read_on(struct events_reader *reader)
{
    struct error error = {0};
    if (events_read(reader, take, NULL, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

static void expect(size_t i, const char *name, int64_t step, double value)
{
    assert_true(i < count);
    assert_string_equal(scalars[i].name, name);
    assert_int_equal(scalars[i].scalar.step, step);
    assert_true(isnan(value) ? isnan(scalars[i].scalar.value) : scalars[i].scalar.value == value);
}

static void others_simple_values_are_read(void **state)
{
    struct events_reader reader = open_reader(GOLDEN "/events.out.tfevents.1700000000.simple");
    read_on(&reader);
    for (size_t i = 0; i < 5; i++) {
        expect(i, "Loss/train", (int64_t)i + 1, (double)(float)(1.0 / ((double)i + 1)));
        assert_true(scalars[i].scalar.time == 1700000000000000 + 250000 * ((int64_t)i + 1));
    }
    expect(5, "Loss/train", 6, NAN);
    expect(6, "Loss/test", 6, -INFINITY);
    expect(7, "zero", 6, 0);
    expect(8, "after", 7, 7);
    expect(9, "negative", -1, -1.5);
    assert_int_equal(count, 10);
    assert_int_equal(reader.left_out, 2);
    assert_int_equal(reader.damaged, 0);
    events_close(&reader);
}

static void others_tensors_are_read(void **state)
{
    struct events_reader reader = open_reader(GOLDEN "/events.out.tfevents.1700000000.tensors");
    read_on(&reader);
    expect(0, "loss", 1, 0.5);
    expect(1, "loss", 2, 0.25);
    expect(2, "double", 3, 0.1);
    expect(3, "double", 3, 0.2);
    expect(4, "int", 4, -7);
    expect(5, "long", 4, 1099511627776.0);
    expect(6, "half", 4, 1.5);
    expect(7, "bfloat", 4, 1.5);
    expect(8, "small", 4, -ldexp(1, -24));
    expect(9, "one", 5, 11);
    assert_int_equal(count, 10);
    assert_int_equal(reader.damaged, 0);
    events_close(&reader);
}

static const char *our_file(int steps)
{
    struct event_file file;
    static char path[FILE_PATH_BYTES];
    assert_int_equal(event_file_open(&file, directory, 1700000000, false, NULL), WEFT_OK);
    for (int step = 1; step <= steps; step++) {
        const struct event_value values[] = {{"train/loss", 1.0 / step}, {"train/rate", 0.5}};
        assert_int_equal(event_file_put(&file, 1700000000 + step, (uint64_t)step, values, 2, NULL), WEFT_OK);
    }
    event_file_close(&file);
    snprintf(path, sizeof path, "%s", file.path);
    return path;
}

static void our_own_files_are_read(void **state)
{
    const char *path = our_file(1000);
    assert_true(events_is_file(file_name(path)));
    assert_false(events_is_file("metrics.jsonl"));
    struct events_reader reader = open_reader(path);
    read_on(&reader);
    assert_int_equal(count, 2000);
    for (size_t i = 0; i < 1000; i++) {
        expect(2 * i, "train/loss", (int64_t)i + 1, (double)(float)(1.0 / ((double)i + 1)));
        expect(2 * i + 1, "train/rate", (int64_t)i + 1, 0.5);
    }
    read_on(&reader);
    assert_int_equal(count, 2000);
    /* Somebody else goes on from there. */
    const uint64_t offset = reader.offset;
    events_close(&reader);
    assert_int_equal(events_open(&reader, path, offset, NULL), WEFT_OK);
    read_on(&reader);
    assert_int_equal(count, 2000);
    events_close(&reader);
}

static char *content(const char *path, size_t *size)
{
    char *bytes;
    assert_int_equal(file_read(path, 1 << 24, &bytes, size, NULL), WEFT_OK);
    return bytes;
}

/* Byte by byte: each record is passed on when its last byte is there, and not before. */
static void a_growing_file_is_read_as_it_grows(void **state)
{
    size_t size, whole = 0;
    char *bytes = content(our_file(20), &size);
    const char *path = temporary_file(directory, "growing.tfevents", "", 0);
    struct events_reader reader = open_reader(path);
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    size_t end = 0; /* of the record that is being written */
    for (size_t i = 0; i < size; i++) {
        if (i == end)
            end += 16 + (uint8_t)bytes[i] + ((size_t)(uint8_t)bytes[i + 1] << 8);
        fputc(bytes[i], file);
        fflush(file);
        read_on(&reader);
        whole += i + 1 == end;
        assert_int_equal(count, whole > 1 ? 2 * (whole - 1) : 0);
    }
    assert_int_equal(count, 40);
    assert_int_equal(reader.damaged, 0);
    fclose(file);
    events_close(&reader);
    free(bytes);
}

/* Any byte of a record in the middle: only that record is lost, with a message. */
static void damage_is_told_and_passed_by(void **state)
{
    size_t size, begin = 0;
    char *bytes = content(our_file(20), &size);
    for (int i = 0; i < 10; i++)
        begin += 16 + (uint8_t)bytes[begin] + ((size_t)(uint8_t)bytes[begin + 1] << 8);
    const size_t length = 16 + (uint8_t)bytes[begin] + ((size_t)(uint8_t)bytes[begin + 1] << 8);
    for (size_t i = 0; i < length; i++) {
        bytes[begin + i] ^= 0x10;
        struct events_reader reader = open_reader(temporary_file(directory, "damaged.tfevents", bytes, size));
        read_on(&reader);
        assert_int_equal(count, 38);
        assert_int_equal(reader.damaged, 1);
        for (size_t j = 0; j < 19; j++)
            expect(2 * j + 1, "train/rate", (int64_t)(j < 9 ? j + 1 : j + 2), 0.5);
        events_close(&reader);
        bytes[begin + i] ^= 0x10;
    }
    /* A stretch of zeros, as a crash of the machine leaves at the end; then somebody goes on. */
    char *longer = calloc(1, 2 * size + 100000);
    assert_non_null(longer);
    memcpy(longer, bytes, size);
    memcpy(longer + size + 100000, bytes, size);
    struct events_reader reader = open_reader(temporary_file(directory, "zeros.tfevents", longer, 2 * size + 100000));
    read_on(&reader);
    assert_int_equal(count, 80);
    assert_int_equal(reader.damaged, 1);
    events_close(&reader);
    free(longer);
    free(bytes);
}

/* A record whose length says it is a picture; its bytes need not even be there yet. */
static void large_records_are_passed_by(void **state)
{
    size_t size;
    char *bytes = content(our_file(5), &size);
    const char *path = temporary_file(directory, "large.tfevents", bytes, size);
    const uint64_t length = EVENTS_RECORD_MOST + 1;
    uint8_t head[12];
    for (int i = 0; i < 8; i++)
        head[i] = (uint8_t)(length >> 8 * i);
    const uint32_t crc = crc32c_masked(head, 8);
    for (int i = 0; i < 4; i++)
        head[8 + i] = (uint8_t)(crc >> 8 * i);
    struct events_reader reader = open_reader(path);
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    fwrite(head, 1, sizeof head, file);
    fflush(file);
    read_on(&reader);
    read_on(&reader);
    assert_int_equal(count, 10);
    assert_int_equal(reader.skipped, 1);
    assert_int_equal(truncate(path, (off_t)(size + sizeof head + length + 4)), 0);
    fwrite(bytes, 1, size, file);
    fclose(file);
    read_on(&reader);
    assert_int_equal(count, 20);
    assert_int_equal(reader.damaged, 0);
    assert_true(reader.room < EVENTS_RECORD_MOST);
    events_close(&reader);
    free(bytes);
}

static void what_was_not_taken_is_passed_on_again(void **state)
{
    struct events_reader reader = open_reader(our_file(5));
    struct error error = {0};
    refuse_at = 4;
    assert_int_equal(events_read(&reader, take, NULL, &error), WEFT_ERROR_MEMORY);
    assert_int_equal(count, 4);
    refuse_at = SIZE_MAX;
    read_on(&reader);
    assert_int_equal(count, 10);
    expect(4, "train/loss", 3, (double)(float)(1.0 / 3));
    events_close(&reader);
}

static void files_that_cannot_be_read_are_told(void **state)
{
    struct events_reader reader;
    struct error error = {0};
    assert_int_equal(events_open(&reader, temporary_path(directory, "absent"), 0, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "absent"));
    assert_int_equal(mkfifo(temporary_path(directory, "pipe.tfevents"), 0600), 0);
    assert_int_equal(events_open(&reader, temporary_path(directory, "pipe.tfevents"), 0, NULL), WEFT_ERROR_DATA);
    const char *path = our_file(5);
    reader = open_reader(path);
    read_on(&reader);
    assert_int_equal(truncate(path, 100), 0);
    error_clear(&error);
    assert_int_equal(events_read(&reader, take, NULL, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "replaced or truncated"));
    events_close(&reader);
}

int main(void)
{
    directory = temporary_directory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_simple_values_are_read),
        cmocka_unit_test(others_tensors_are_read),
        cmocka_unit_test(our_own_files_are_read),
        cmocka_unit_test(a_growing_file_is_read_as_it_grows),
        cmocka_unit_test(damage_is_told_and_passed_by),
        cmocka_unit_test(large_records_are_passed_by),
        cmocka_unit_test(what_was_not_taken_is_passed_on_again),
        cmocka_unit_test(files_that_cannot_be_read_are_told),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
