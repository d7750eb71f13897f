/* SPDX-License-Identifier: Apache-2.0 */
/* Records of runs: written, completed, listed; a run whose launcher vanished is lost. */
#include "platform/runs/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[FILE_PATH_BYTES];

static int make_directory(void **state)
{
    snprintf(directory, sizeof directory, "/tmp/weft-records-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    return file_remove_tree(directory, NULL) == WEFT_OK ? 0 : -1;
}

static void begin(struct run_record *record)
{
    *record = (struct run_record){.project = "default", .command = "weft run -n 2 -- \"a b\"", .ranks = 2};
    assert_int_equal(run_record_begin(record, NULL), WEFT_OK);
}

static void comes_back_as_it_was_written(void **state)
{
    struct run_record record, read;
    begin(&record);
    assert_int_equal(run_record_save(&record, directory, NULL), WEFT_OK);
    assert_int_equal(run_record_load(directory, record.id, &read, NULL), WEFT_OK);
    assert_string_equal(read.command, record.command);
    assert_int_equal(read.state, RUN_RECORD_RUNNING);
    run_record_complete(&record, 3, "rank 1 on here ended with code 3");
    assert_int_equal(run_record_save(&record, directory, NULL), WEFT_OK);
    assert_int_equal(run_record_load(directory, record.id, &read, NULL), WEFT_OK);
    assert_int_equal(read.state, RUN_RECORD_FAILED);
    assert_int_equal(read.exit_code, 3);
    assert_string_equal(read.reason, record.reason);
    assert_true(read.ended >= read.started);
}

static void is_lost_when_its_launcher_vanished(void **state)
{
    struct run_record record, read;
    begin(&record);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    record.launcher = child;
    assert_int_equal(run_record_save(&record, directory, NULL), WEFT_OK);
    assert_int_equal(run_record_load(directory, record.id, &read, NULL), WEFT_OK);
    assert_int_equal(read.state, RUN_RECORD_LOST);
}

static void are_listed_oldest_first(void **state)
{
    struct run_record record;
    char(*ids)[RUN_ID_BYTES];
    size_t count;
    begin(&record);
    snprintf(record.id, sizeof record.id, "20200101-000000-7");
    assert_int_equal(run_record_save(&record, directory, NULL), WEFT_OK);
    snprintf(record.id, sizeof record.id, "20190101-000000-7");
    assert_int_equal(run_record_save(&record, directory, NULL), WEFT_OK);
    assert_int_equal(run_records_list(directory, &ids, &count, NULL), WEFT_OK);
    assert_true(count >= 2);
    assert_string_equal(ids[0], "20190101-000000-7");
    assert_string_equal(ids[1], "20200101-000000-7");
    free(ids);
}

static void no_directory_means_no_runs(void **state)
{
    char(*ids)[RUN_ID_BYTES];
    size_t count = 9;
    assert_int_equal(run_records_list("/tmp/weft-no-such-directory", &ids, &count, NULL), WEFT_OK);
    assert_int_equal(count, 0);
}

static void damage_and_strangers_get_a_message(void **state)
{
    struct error error = {0};
    struct run_record record;
    char path[FILE_PATH_BYTES];
    assert_int_equal(file_join(path, directory, "broken.json", NULL), WEFT_OK);
    assert_int_equal(file_write(path, "{\"id\":7}", 8, NULL), WEFT_OK);
    assert_int_equal(run_record_load(directory, "broken", &record, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "broken.json"));
    error_clear(&error);
    assert_int_equal(run_record_load(directory, "../etc/passwd", &record, &error), WEFT_ERROR_ARGUMENT);
    error_clear(&error);
    assert_int_equal(run_record_load(directory, "20000101-000000-1", &record, &error), WEFT_ERROR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back_as_it_was_written),
        cmocka_unit_test(is_lost_when_its_launcher_vanished),
        cmocka_unit_test(are_listed_oldest_first),
        cmocka_unit_test(no_directory_means_no_runs),
        cmocka_unit_test(damage_and_strangers_get_a_message),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
