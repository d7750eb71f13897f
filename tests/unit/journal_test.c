/* SPDX-License-Identifier: Apache-2.0 */
/* Journals: what was appended is read, from any record on, while it is written, after torn writes; old output goes. */
#include "platform/agent/journal/file.h"

#include "base/random.h"
#include "temporary.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void add(struct journal_writer *writer, uint32_t kind, const char *text)
{
    struct journal_record record = {.kind = kind, .text = text, .size = (uint32_t)strlen(text)};
    if (kind == JOURNAL_OUTPUT || kind == JOURNAL_METRICS) {
        record.output.stream = 1;
        record.output.rank = 3;
    }
    assert_int_equal(journal_append(writer, &record, NULL), WEFT_OK);
}

/* Number `n` as a line of output or of metrics. */
static uint32_t kind_of(uint64_t n)
{
    return n % 5 == 0 ? JOURNAL_METRICS : JOURNAL_OUTPUT;
}

static void add_numbered(struct journal_writer *writer, uint64_t n)
{
    char text[200];
    snprintf(text, sizeof text, "%llu %0*d", (unsigned long long)n, (int)(n * 37 % 120) + 1, 0);
    add(writer, kind_of(n), text);
}

static char *name_of_segment(const char *directory, size_t index)
{
    static char names[256][300];
    struct dirent **list;
    int count = scandir(directory, &list, NULL, alphasort);
    size_t seen = 0;
    char *found = NULL;
    for (int i = 0; i < count; i++) {
        if (strstr(list[i]->d_name, ".journal") && seen++ == index) {
            found = names[index];
            snprintf(found, sizeof names[0], "%s", list[i]->d_name);
        }
        free(list[i]);
    }
    free(list);
    return found;
}

static void every_kind_comes_back(void **state)
{
    const char *directory = *state;
    const struct journal_record records[] = {
        {.kind = JOURNAL_STARTED, .started = {4711}},
        {.kind = JOURNAL_HEARTBEAT},
        {.kind = JOURNAL_OUTPUT, .output = {2, 7}, .text = "a\0b\n", .size = 4},
        {.kind = JOURNAL_METRICS, .output = {1, JOURNAL_NO_RANK}, .text = "{}", .size = 2},
        {.kind = JOURNAL_USAGE, .usage = {1u << 30, UINT64_MAX, 12}},
        {.kind = JOURNAL_NOTE, .text = "a message", .size = 10},
        {.kind = JOURNAL_UNFIT, .text = "GPU 3: it is lost", .size = 17},
        {.kind = JOURNAL_EXITED, .exited = {0, 9, JOURNAL_FENCED, 1}, .text = "why", .size = 3},
    };
    struct journal_writer writer;
    struct journal_reader reader;
    assert_int_equal(journal_writer_open(&writer, directory, NULL, NULL), WEFT_OK);
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        struct journal_record record = records[i];
        assert_int_equal(journal_append(&writer, &record, NULL), WEFT_OK);
    }
    struct journal_record more = {.kind = JOURNAL_HEARTBEAT};
    assert_int_equal(journal_append(&writer, &more, NULL), WEFT_ERROR_STATE); /* nothing follows an end */
    journal_writer_close(&writer);
    assert_int_equal(journal_writer_open(&writer, directory, NULL, NULL), WEFT_OK);
    assert_int_equal(journal_append(&writer, &more, NULL), WEFT_ERROR_STATE);
    journal_writer_close(&writer);
    assert_int_equal(journal_reader_open(&reader, directory, 0, NULL), WEFT_OK);
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        struct journal_record read;
        bool found = false;
        assert_int_equal(journal_reader_next(&reader, &read, &found, NULL), WEFT_OK);
        assert_true(found);
        assert_int_equal(read.kind, records[i].kind);
        assert_int_equal(read.sequence, i + 1);
        assert_true(read.time > 1600000000000000u);
        assert_int_equal(read.size, records[i].size);
        assert_memory_equal(read.text, records[i].text ? records[i].text : "", read.size);
        assert_memory_equal(&read.started, &records[i].started, 4);
    }
    bool found = true;
    assert_int_equal(journal_reader_next(&reader, &more, &found, NULL), WEFT_OK);
    assert_false(found);
    journal_reader_close(&reader);
}

static void is_read_from_any_record_on(void **state)
{
    const char *directory = *state;
    const struct journal_limits limits = {.segment_bytes = 2000};
    struct journal_writer writer;
    assert_int_equal(journal_writer_open(&writer, directory, &limits, NULL), WEFT_OK);
    for (uint64_t n = 1; n <= 300; n++)
        add_numbered(&writer, n);
    journal_writer_close(&writer);
    assert_non_null(name_of_segment(directory, 10));
    for (uint64_t after = 0; after <= 301; after++) {
        struct journal_reader reader;
        struct journal_record record;
        bool found = true;
        assert_int_equal(journal_reader_open(&reader, directory, after, NULL), WEFT_OK);
        for (uint64_t n = after + 1; n <= 300; n++) {
            assert_int_equal(journal_reader_next(&reader, &record, &found, NULL), WEFT_OK);
            assert_true(found);
            assert_int_equal(record.sequence, n);
            assert_int_equal(strtoull(record.text, NULL, 10), n);
        }
        assert_int_equal(journal_reader_next(&reader, &record, &found, NULL), WEFT_OK);
        assert_false(found);
        journal_reader_close(&reader);
    }
}

/* A reader that keeps up with a writer in another process, which is killed in the midst of it, three times. */
static void is_read_while_it_is_written_and_torn(void **state)
{
    const char *directory = *state;
    const struct journal_limits limits = {.segment_bytes = 5000};
    struct journal_reader reader;
    uint64_t expected = 1;
    assert_int_equal(journal_reader_open(&reader, directory, 0, NULL), WEFT_OK);
    for (int round = 0; round < 3; round++) {
        pid_t child = fork();
        if (child == 0) {
            struct journal_writer writer;
            if (journal_writer_open(&writer, directory, &limits, NULL) != WEFT_OK)
                _exit(1);
            for (uint64_t n = writer.next; n < 20000; n++)
                add_numbered(&writer, n);
            _exit(0);
        }
        uint64_t until = expected + 500 + 700 * (uint64_t)round;
        bool found;
        struct journal_record record;
        while (expected < until) {
            assert_int_equal(journal_reader_next(&reader, &record, &found, NULL), WEFT_OK);
            if (!found)
                continue;
            assert_int_equal(record.sequence, expected);
            assert_int_equal(strtoull(record.text, NULL, 10), expected);
            expected++;
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        do {
            assert_int_equal(journal_reader_next(&reader, &record, &found, NULL), WEFT_OK);
            expected += found;
        } while (found);
        /* Half a record at the end, as a write that was cut short leaves it. */
        size_t last = 0;
        while (name_of_segment(directory, last + 1) && last < 250)
            last++;
        FILE *file = fopen(temporary_path(directory, name_of_segment(directory, last)), "ab");
        fwrite("\50\0\0\0\3\0\0\0torn", 1, 12, file);
        fclose(file);
        assert_int_equal(journal_reader_next(&reader, &record, &found, NULL), WEFT_OK);
        assert_false(found);
        if (last >= 250)
            break;
    }
    journal_reader_close(&reader);
}

static void drops_old_output_alone_and_says_so(void **state)
{
    const char *directory = *state;
    const struct journal_limits limits = {.segment_bytes = 2000, .output_bytes = 6000};
    struct journal_writer writer;
    struct journal_reader reader;
    struct journal_record record;
    bool found = true;
    assert_int_equal(journal_writer_open(&writer, directory, &limits, NULL), WEFT_OK);
    for (uint64_t n = 1; n <= 1000; n++) {
        add_numbered(&writer, n);
        if (n == 500) { /* its count of what it keeps survives */
            journal_writer_close(&writer);
            assert_int_equal(journal_writer_open(&writer, directory, &limits, NULL), WEFT_OK);
        }
    }
    journal_writer_close(&writer);
    assert_int_equal(journal_reader_open(&reader, directory, 0, NULL), WEFT_OK);
    uint64_t output = 0, metrics = 0, dropped = 0, dropped_bytes = 0, bytes = 0, all_bytes = 0;
    for (;;) {
        assert_int_equal(journal_reader_next(&reader, &record, &found, NULL), WEFT_OK);
        if (!found)
            break;
        output += record.kind == JOURNAL_OUTPUT;
        bytes += record.kind == JOURNAL_OUTPUT ? record.size : 0;
        metrics += record.kind == JOURNAL_METRICS;
        dropped += record.kind == JOURNAL_DROPPED ? record.dropped.records : 0;
        dropped_bytes += record.kind == JOURNAL_DROPPED ? record.dropped.bytes : 0;
    }
    journal_reader_close(&reader);
    for (uint64_t n = 1; n <= 1000; n++) {
        char text[200];
        snprintf(text, sizeof text, "%llu %0*d", (unsigned long long)n, (int)(n * 37 % 120) + 1, 0);
        all_bytes += kind_of(n) == JOURNAL_OUTPUT ? strlen(text) : 0;
    }
    assert_int_equal(metrics, 200);
    assert_int_equal(output + dropped, 800);
    assert_int_equal(bytes + dropped_bytes, all_bytes);
    assert_true(dropped > 500);
    assert_true(bytes < 6000 + 2 * 2200 && bytes > 2000);
}

/* A copy that is brought up to date now and then: the same records with the same sequences and times, and each once. */
static void a_copy_has_the_same_records(void **state)
{
    const char *directory = *state;
    const struct journal_limits limits = {.segment_bytes = 2000, .output_bytes = 6000};
    char own[300], other[300];
    struct journal_writer writer, copy;
    struct journal_reader from, to;
    struct journal_record record, copied;
    bool found = true, there = true;
    snprintf(own, sizeof own, "%s/own", directory);
    snprintf(other, sizeof other, "%s/copy", directory);
    assert_int_equal(journal_writer_open(&writer, own, &limits, NULL), WEFT_OK);
    for (uint64_t n = 1; n <= 600; n++) {
        add_numbered(&writer, n);
        if (n % 70 && n < 600)
            continue;
        assert_int_equal(journal_writer_open(&copy, other, &limits, NULL), WEFT_OK);
        const uint64_t last = copy.next - 1, again = last > 20 ? last - 20 : 0; /* some records come twice */
        assert_int_equal(journal_reader_open(&from, own, again, NULL), WEFT_OK);
        while (journal_reader_next(&from, &record, &found, NULL) == WEFT_OK && found)
            assert_int_equal(journal_append_copy(&copy, &record, NULL), WEFT_OK);
        journal_reader_close(&from);
        journal_writer_close(&copy);
    }
    journal_writer_close(&writer);
    assert_int_equal(journal_reader_open(&from, own, 0, NULL), WEFT_OK);
    assert_int_equal(journal_reader_open(&to, other, 0, NULL), WEFT_OK);
    uint64_t count = 0, output = 0;
    for (;;) {
        assert_int_equal(journal_reader_next(&to, &copied, &there, NULL), WEFT_OK);
        if (!there)
            break;
        output += copied.kind == JOURNAL_OUTPUT ? copied.size : 0;
        assert_int_equal(journal_reader_next(&from, &record, &found, NULL), WEFT_OK);
        while (found && record.sequence < copied.sequence) { /* of output, the copy may have dropped more or less */
            assert_int_equal(record.kind, JOURNAL_OUTPUT);
            assert_int_equal(journal_reader_next(&from, &record, &found, NULL), WEFT_OK);
        }
        while (there && (!found || copied.sequence < record.sequence)) {
            assert_int_equal(copied.kind, JOURNAL_OUTPUT);
            assert_int_equal(journal_reader_next(&to, &copied, &there, NULL), WEFT_OK);
        }
        if (!there)
            break;
        assert_true(found && record.sequence == copied.sequence && record.time == copied.time);
        assert_true(record.kind == copied.kind && record.size == copied.size);
        assert_memory_equal(record.text, copied.text, record.size);
        count++;
    }
    assert_true(count > 120); /* all metrics among them */
    assert_true(output < 4 * limits.output_bytes);
    journal_reader_close(&from);
    journal_reader_close(&to);
}

static void damage_is_told(void **state)
{
    const char *directory = *state;
    const struct journal_limits limits = {.segment_bytes = 2000};
    struct journal_writer writer;
    struct journal_reader reader;
    struct journal_record record;
    struct error error = {0};
    bool found = true;
    assert_int_equal(journal_writer_open(&writer, directory, &limits, NULL), WEFT_OK);
    for (uint64_t n = 1; n <= 100; n++)
        add_numbered(&writer, n);
    journal_writer_close(&writer);
    FILE *file = fopen(temporary_path(directory, name_of_segment(directory, 1)), "r+b");
    fseek(file, 700, SEEK_SET);
    fputc(fgetc(file) ^ 1, file);
    fseek(file, 700, SEEK_SET);
    fwrite("damage", 1, 6, file);
    fclose(file);
    assert_int_equal(journal_reader_open(&reader, directory, 0, NULL), WEFT_OK);
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && found)
        status = journal_reader_next(&reader, &record, &found, &error);
    assert_int_equal(status, WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, name_of_segment(directory, 1)));
    journal_reader_close(&reader);
    error_clear(&error);
    assert_int_equal(journal_writer_open(&writer, directory, &limits, &error), WEFT_ERROR_DATA);
    journal_writer_close(&writer);
}

/* A limit on the size of files stands in for a full disk: nothing half-written, and more fits when there is room. */
static void a_full_disk_leaves_whole_records(void **state)
{
    const char *directory = *state;
    struct journal_writer writer;
    struct journal_reader reader;
    struct journal_record record;
    struct rlimit before, tight;
    bool found = true;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(journal_writer_open(&writer, directory, NULL, NULL), WEFT_OK);
    getrlimit(RLIMIT_FSIZE, &before);
    tight = before;
    tight.rlim_cur = 3000;
    setrlimit(RLIMIT_FSIZE, &tight);
    uint64_t written = 0;
    struct error error = {0};
    for (uint64_t n = 1; n <= 100; n++) {
        struct journal_record line = {
            .kind = JOURNAL_OUTPUT, .output = {1, 0}, .text = "a line of some letters", .size = 22};
        written += journal_append(&writer, &line, &error) == WEFT_OK;
    }
    assert_int_equal(error.status, WEFT_ERROR_SYSTEM);
    assert_in_range(written, 40, 99);
    setrlimit(RLIMIT_FSIZE, &before);
    add(&writer, JOURNAL_NOTE, "room again");
    journal_writer_close(&writer);
    assert_int_equal(journal_reader_open(&reader, directory, 0, NULL), WEFT_OK);
    for (uint64_t n = 1; n <= written + 1; n++) {
        assert_int_equal(journal_reader_next(&reader, &record, &found, NULL), WEFT_OK);
        assert_true(found);
        assert_int_equal(record.sequence, n);
    }
    assert_int_equal(record.kind, JOURNAL_NOTE);
    journal_reader_close(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_temporary_directory(every_kind_comes_back),
        in_temporary_directory(is_read_from_any_record_on),
        in_temporary_directory(is_read_while_it_is_written_and_torn),
        in_temporary_directory(drops_old_output_alone_and_says_so),
        in_temporary_directory(a_copy_has_the_same_records),
        in_temporary_directory(damage_is_told),
        in_temporary_directory(a_full_disk_leaves_whole_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
