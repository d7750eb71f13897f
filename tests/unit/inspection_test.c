/* SPDX-License-Identifier: Apache-2.0 */
/* What is looked at from outside may be another user's, broken or hostile: it is refused, or shown and not believed. */
#include "observe/inspect/inspection.h"

#include "../forged_status_page.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void what_is_no_status_page_is_refused(void **state)
{
    const struct {
        uint32_t rank, ranks;
        uint64_t bytes;
        bool sealed;
    } cases[] = {
        {0, 2, status_page_bytes(2), false},    /* it could become shorter while it is looked at */
        {2, 2, status_page_bytes(2), true},     /* a rank that there is not */
        {0, 0, status_page_bytes(0), true},     /* no ranks */
        {0, 2, status_page_bytes(2) + 1, true}, /* another size than it has */
        {0, 3, status_page_bytes(2), true},     //
        {0, STATUS_PAGE_RANKS_MOST + 1, status_page_bytes(STATUS_PAGE_RANKS_MOST + 1), true},
        {0, 1 << 16, status_page_bytes(1 << 16),
         true}, /* memory that is not there yet: who looks would have to provide it */
        {0, 2, sizeof(struct status_page) - 64, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct forged_status_page forged;
        struct status_page_view view;
        forged_status_page_open(&forged, cases[i].ranks, cases[i].bytes, cases[i].sealed);
        forged.status_page->rank = cases[i].rank;
        assert_false(status_page_view_open(forged.path, getpid(), &view));
        forged_status_page_close(&forged);
    }
    struct forged_status_page forged;
    struct status_page_view view;
    forged_status_page_make(&forged, 1, 2);
    assert_true(status_page_view_open(forged.path, getpid(), &view));
    status_page_view_close(&view);
    forged.status_page->magic++;
    assert_false(status_page_view_open(forged.path, getpid(), &view));
    forged_status_page_close(&forged);
    assert_false(status_page_view_open("/dev/null", getpid(), &view));
}

static void status_pages_that_differ_in_their_ranks_are_of_two_jobs(void **state)
{
    struct forged_status_page few, many;
    struct status_page_view views[2];
    struct inspection inspection;
    forged_status_page_make(&few, 0, 1);
    forged_status_page_make(&many, 3, 4);
    assert_true(status_page_view_open(many.path, getpid(), &views[0]));
    assert_true(status_page_view_open(few.path, getpid(), &views[1]));
    assert_int_equal(inspection_read(views, 2, true, &inspection, NULL), WEFT_OK);
    assert_int_equal(inspection.job_count, 2);
    assert_int_equal(inspection.jobs[0].rank_count + inspection.jobs[1].rank_count, 5);
    inspection_close(&inspection);
    for (int i = 0; i < 2; i++)
        status_page_view_close(&views[i]);
    forged_status_page_close(&few);
    forged_status_page_close(&many);
}

static void numbers_that_no_rank_writes_are_shown_all_the_same(void **state)
{
    struct forged_status_page forged;
    struct status_page_view view;
    struct inspection inspection;
    forged_status_page_make(&forged, 0, 3);
    struct status_page *status_page = forged.status_page;
    struct operation_log *logs[] = {&status_page->log, &status_page_answers(status_page, 3)[1].log,
                                    &status_page_answers(status_page, 3)[2].log};
    memset(status_page->launcher, 0x1b, sizeof status_page->launcher);
    memset(status_page->run, 0xff, sizeof status_page->run);
    status_page->started = INT64_MIN;
    for (uint32_t r = 1; r < 3; r++) {
        struct status_page_answer *answer = &status_page_answers(status_page, 3)[r];
        atomic_store(&answer->number, UINT64_MAX);
        answer->offset = r == 1 ? INT64_MIN : INT64_MAX;
        answer->round_trip = UINT64_MAX;
    }
    for (uint32_t l = 0; l < 3; l++) {
        atomic_store(&logs[l]->next, UINT64_MAX);
        logs[l]->opened = (struct clock_timestamp){0, 0};
        logs[l]->beat = (struct clock_timestamp){1, UINT64_MAX}; /* a tick takes centuries */
        for (uint32_t i = 0; i < OPERATION_LOG_ENTRIES; i++) {
            struct operation_entry *entry = &logs[l]->entries[i];
            memset(entry, 0xff, sizeof *entry);
            entry->started = i % 2 ? UINT64_MAX : INT64_MAX;
            entry->since = i % 2 ? 0 : INT64_MAX;
            entry->phase = i % 5;
            atomic_store(&entry->awaited, i % 5);
        }
    }
    assert_true(status_page_view_open(forged.path, getpid(), &view));
    assert_int_equal(inspection_read(&view, 1, true, &inspection, NULL), WEFT_OK);
    assert_int_equal(inspection.job_count, 1);
    const struct inspected_job *job = &inspection.jobs[0];
    assert_int_equal(job->rank_count, 3);
    assert_int_equal(strspn(job->launcher, "?"), STATUS_PAGE_TEXT_BYTES - 1);
    assert_int_equal(strspn(job->name, "?"), STATUS_PAGE_TEXT_BYTES - 1);
    assert_true(*job->verdict);
    for (uint32_t r = 0; r < 3; r++)
        assert_int_equal(job->ranks[r].operation_count, OPERATION_LOG_ENTRIES);
    inspection_close(&inspection);
    status_page_view_close(&view);
    forged_status_page_close(&forged);
}

struct liar {
    struct forged_status_page forged;
    _Atomic bool stop;
};

/* Other numbers at every time, never those with which the status page was opened. */
static void *lie(void *argument)
{
    struct liar *liar = argument;
    struct status_page *status_page = liar->forged.status_page;
    for (uint32_t i = 1; !atomic_load(&liar->stop); i++) {
        __atomic_store_n(&status_page->ranks, i * 2654435761u, __ATOMIC_RELAXED);
        __atomic_store_n(&status_page->rank, i * 2246822519u, __ATOMIC_RELAXED);
        __atomic_store_n(&status_page->bytes, i * 3266489917u, __ATOMIC_RELAXED);
        __atomic_store_n(&status_page->job, i, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void a_status_page_that_changes_while_it_is_looked_at(void **state)
{
    struct liar liar = {.stop = false};
    struct status_page_view view;
    pthread_t thread;
    forged_status_page_make(&liar.forged, 1, 2);
    assert_true(status_page_view_open(liar.forged.path, getpid(), &view));
    assert_int_equal(pthread_create(&thread, NULL, lie, &liar), 0);
    for (int i = 0; i < 50; i++) {
        struct inspection inspection;
        assert_int_equal(inspection_read(&view, 1, true, &inspection, NULL), WEFT_OK);
        assert_int_equal(inspection.job_count, 1);
        assert_int_equal(inspection.jobs[0].rank_count, 2);
        assert_int_equal(inspection.jobs[0].here, 1);
        inspection_close(&inspection);
    }
    atomic_store(&liar.stop, true);
    pthread_join(thread, NULL);
    status_page_view_close(&view);
    forged_status_page_close(&liar.forged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_status_page_is_refused),
        cmocka_unit_test(status_pages_that_differ_in_their_ranks_are_of_two_jobs),
        cmocka_unit_test(numbers_that_no_rank_writes_are_shown_all_the_same),
        cmocka_unit_test(a_status_page_that_changes_while_it_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
