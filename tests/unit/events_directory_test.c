/* SPDX-License-Identifier: Apache-2.0 */
/* Event files are found below a program's directory, read as they grow, and their curves get names. */
#include "platform/metrics/read/events_directory.h"

#include "base/crc32c.h"
#include "temporary.h"
#include "training/train/report/internal/event_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *parent;
static char directory[FILE_PATH_BYTES];
static char taken[1 << 16]; /* "name step value\n" of all that was passed on */
static size_t refuse_after;

static weft_status take(void *state, const struct events_scalar *scalar, struct error *error)
{
    const size_t used = strlen(taken);
    if (refuse_after-- == 0)
        return error_set(error, WEFT_ERROR_MEMORY, "no more");
    snprintf(taken + used, sizeof taken - used, "%s %d %g\n", scalar->name, (int)scalar->step, scalar->value);
    return WEFT_OK;
}

static int begin(void **state)
{
    static unsigned tests;
    snprintf(directory, sizeof directory, "%s/%u", parent, ++tests);
    taken[0] = 0;
    refuse_after = SIZE_MAX;
    return file_make_directory(directory, NULL) != WEFT_OK;
}

static struct events_directory *open_directory(const char *chosen)
{
    struct events_directory *opened;
    struct error error = {0};
    if (events_directory_open(directory, chosen, &opened, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return opened;
}

static struct event_file new_file(const char *below)
{
    struct event_file file;
    struct error error = {0};
    if (event_file_open(&file, temporary_path(directory, below), 1700000000, false, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return file;
}

static void put(struct event_file *file, const char *tag, int step, double value)
{
    assert_int_equal(
        event_file_put(file, 1700000000 + step, (uint64_t)step, &(struct event_value){tag, value}, 1, NULL), WEFT_OK);
}

/* A file with one scalar, closed. */
static void write_one(const char *below, const char *tag, int step, double value)
{
    struct event_file file = new_file(below);
    put(&file, tag, step, value);
    event_file_close(&file);
}

static void look(struct events_directory *opened, const char *expected)
{
    struct error error = {0};
    taken[0] = 0;
    if (events_directory_look(opened, take, NULL, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_string_equal(taken, expected);
}

static void files_are_read_as_they_grow(void **state)
{
    struct events_directory *opened = open_directory(NULL);
    look(opened, "");
    struct event_file file = new_file("runs/Nov23_host");
    put(&file, "loss", 1, 4);
    look(opened, "loss 1 4\n");
    look(opened, "");
    put(&file, "loss", 2, 3);
    put(&file, "loss", 3, 2);
    look(opened, "loss 2 3\nloss 3 2\n");
    event_file_close(&file);
    write_one("runs/Nov23_host", "loss", 4, 1); /* another file of the same directory */
    look(opened, "loss 4 1\n");
    assert_string_equal(events_directory_trouble(opened), "");
    events_directory_close(opened);
}

static void what_was_there_before_is_passed_by(void **state)
{
    struct event_file file = new_file("logs/old");
    put(&file, "loss", 1, 4);
    write_one("logs/older", "loss", 1, 9);
    struct events_directory *opened = open_directory(NULL);
    look(opened, "");
    write_one("logs/new", "loss", 1, 7); /* has the plain name: the old ones have given none */
    look(opened, "loss 1 7\n");
    put(&file, "loss", 2, 3); /* and one of them goes on */
    look(opened, "logs/old/loss 2 3\n");
    event_file_close(&file);
    events_directory_close(opened);
}

static void directories_give_names_where_they_have_to(void **state)
{
    struct events_directory *opened = open_directory(NULL);
    write_one("logs/train", "epoch_loss", 1, 1);
    write_one("logs/validation", "epoch_loss", 1, 2);
    look(opened, "train/epoch_loss 1 1\nvalidation/epoch_loss 1 2\n");
    events_directory_close(opened);
    opened = open_directory(NULL);
    write_one("runs/a", "Loss", 1, 3);
    write_one("runs/a/Loss_train", "Loss", 1, 4);
    write_one("runs/b", "Loss", 1, 5);
    write_one("runs/b/deep/er", "Loss", 1, 6);
    look(opened, "Loss 1 3\nLoss_train/Loss 1 4\nb/Loss 1 5\nb/deep/er/Loss 1 6\n");
    events_directory_close(opened);
}

static void the_usual_directories_are_looked_in_and_others_are_not(void **state)
{
    struct events_directory *opened = open_directory(NULL);
    write_one("output/runs/one", "a", 1, 1);
    write_one("lightning_logs/version_0", "b", 1, 2);
    write_one("elsewhere", "c", 1, 3);
    write_one("runs/1/2/3/4/5", "d", 1, 4);
    write_one("runs/1/2/3/4/5/6", "e", 1, 5);
    write_one("runs/.hidden", "f", 1, 6);
    assert_int_equal(symlink("../elsewhere", temporary_path(directory, "runs/link")), 0);
    look(opened, "d 1 4\nversion_0/b 1 2\none/a 1 1\n");
    events_directory_close(opened);
    opened = open_directory("elsewhere");
    write_one("elsewhere", "c", 2, 3);
    write_one("runs/more", "a", 2, 3);
    look(opened, "c 2 3\n");
    events_directory_close(opened);
    opened = open_directory(temporary_path(directory, "absolute"));
    write_one("absolute", "c", 3, 3);
    look(opened, "c 3 3\n");
    events_directory_close(opened);
}

static void damage_and_links_stop_nothing(void **state)
{
    struct events_directory *opened = open_directory(NULL);
    write_one("runs", "good", 1, 1);
    temporary_file(directory, "runs/events.out.tfevents.bad", "this is no event file", 21);
    assert_int_equal(symlink("/etc/hostname", temporary_path(directory, "runs/tfevents.link")), 0);
    assert_int_equal(mkfifo(temporary_path(directory, "runs/tfevents.pipe"), 0600), 0);
    look(opened, "good 1 1\n");
    write_one("runs", "good", 2, 2);
    look(opened, "good 2 2\n");
    events_directory_close(opened);
}

static void too_many_files_are_told(void **state)
{
    struct events_directory *opened = open_directory(NULL);
    char name[64];
    assert_int_equal(file_make_directory(temporary_path(directory, "runs"), NULL), WEFT_OK);
    for (int i = 0; i < EVENTS_DIRECTORY_FILES + 10; i++) {
        snprintf(name, sizeof name, "runs/tfevents.%d", i);
        temporary_file(directory, name, "", 0);
    }
    look(opened, "");
    assert_non_null(strstr(events_directory_trouble(opened), "more than 500 event files"));
    events_directory_close(opened);
}

static void a_refusal_is_passed_up_and_nothing_is_lost(void **state)
{
    struct events_directory *opened = open_directory(NULL);
    struct event_file file = new_file("runs");
    for (int step = 1; step <= 3; step++)
        put(&file, "loss", step, step);
    event_file_close(&file);
    refuse_after = 1;
    assert_int_equal(events_directory_look(opened, take, NULL, NULL), WEFT_ERROR_MEMORY);
    assert_string_equal(taken, "loss 1 1\n");
    refuse_after = SIZE_MAX;
    look(opened, "loss 2 2\nloss 3 3\n");
    events_directory_close(opened);
}

/* Append `size` bytes of a record that is 4 MiB and a bit, from its byte `from` on: a picture that nobody reads. */
static void put_large(struct event_file *file, size_t from, size_t size)
{
    const uint64_t length = EVENTS_RECORD_MOST + 1000;
    unsigned char *record = calloc(1, size > 12 ? size : 12);
    assert_non_null(record);
    if (from == 0) {
        for (int i = 0; i < 8; i++)
            record[i] = (unsigned char)(length >> 8 * i);
        const uint32_t check = crc32c_masked(record, 8);
        for (int i = 0; i < 4; i++)
            record[8 + i] = (unsigned char)(check >> 8 * i);
    }
    assert_int_equal(fwrite(record, 1, size, file->file), size);
    assert_int_equal(fflush(file->file), 0);
    free(record);
}

static void a_large_record_that_grows_brings_nothing_twice(void **state)
{
    const size_t whole = EVENTS_RECORD_MOST + 1000 + 16, piece = whole / 3;
    struct events_directory *opened = open_directory(NULL);
    struct event_file file = new_file("runs");
    put(&file, "loss", 1, 4);
    put_large(&file, 0, piece);
    look(opened, "loss 1 4\n");
    put_large(&file, piece, piece);
    look(opened, "");
    put_large(&file, 2 * piece, whole - 2 * piece);
    look(opened, "");
    put(&file, "loss", 2, 3);
    look(opened, "loss 2 3\n");
    put_large(&file, 0, piece);
    look(opened, "");
    put_large(&file, piece, piece);
    look(opened, "");
    event_file_close(&file);
    /* What is shorter than that was is another file, however far the record would have gone. */
    struct event_file other = new_file("elsewhere");
    put(&other, "loss", 1, 9);
    event_file_close(&other);
    assert_int_equal(rename(other.path, file.path), 0);
    look(opened, "loss 1 9\n");
    events_directory_close(opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(files_are_read_as_they_grow, begin),
        cmocka_unit_test_setup(what_was_there_before_is_passed_by, begin),
        cmocka_unit_test_setup(directories_give_names_where_they_have_to, begin),
        cmocka_unit_test_setup(the_usual_directories_are_looked_in_and_others_are_not, begin),
        cmocka_unit_test_setup(damage_and_links_stop_nothing, begin),
        cmocka_unit_test_setup(too_many_files_are_told, begin),
        cmocka_unit_test_setup(a_refusal_is_passed_up_and_nothing_is_lost, begin),
        cmocka_unit_test_setup(a_large_record_that_grows_brings_nothing_twice, begin),
    };
    parent = temporary_directory();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(parent, NULL);
    return failed;
}
