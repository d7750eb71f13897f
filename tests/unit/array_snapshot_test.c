/* SPDX-License-Identifier: Apache-2.0 */
/* A reader gets what the arrays held when they were lent, whenever the owner withdraws and changes them. */
#include "training/train/state/internal/array_snapshot.h"

#include "base/random.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define ARRAYS 3
#define SIZE   100000 /* bytes of each */

static char arrays[ARRAYS][SIZE], seen[ARRAYS][SIZE];
static _Atomic uint64_t taken, allowed; /* pieces */

static void fill(int number)
{
    memset(arrays, number, sizeof arrays);
}

static void lend_all(struct array_snapshot *snapshot)
{
    array_snapshot_begin(snapshot);
    for (int i = ARRAYS - 1; i >= 0; i--) /* in any order */
        array_snapshot_add(snapshot, arrays[i], SIZE);
}

struct reading {
    struct array_snapshot *snapshot;
    uint64_t piece;
    bool gave_up;
};

/* Read all arrays in pieces into `seen`. */
static void *read_all(void *argument)
{
    struct reading *reading = argument;
    const struct byte_source source = array_snapshot_source(reading->snapshot);
    for (int i = 0; i < ARRAYS && !reading->gave_up; i++) {
        for (uint64_t done = 0; done < SIZE; done += reading->piece) {
            while (taken >= allowed)
                sched_yield();
            uint64_t size = SIZE - done < reading->piece ? SIZE - done : reading->piece;
            const void *bytes = source.acquire(source.owner, arrays[i] + done, size);
            if (!bytes) {
                reading->gave_up = true;
                break;
            }
            memcpy(seen[i] + done, bytes, size);
            source.release(source.owner, arrays[i] + done, size);
            taken++;
        }
    }
    array_snapshot_reader_ended(reading->snapshot);
    return NULL;
}

static void must_have_seen(int number)
{
    for (int i = 0; i < ARRAYS; i++)
        for (int at = 0; at < SIZE; at++)
            if (seen[i][at] != (char)number)
                fail_msg("array %d has %d at %d, not %d", i, seen[i][at], at, number);
}

/* In every second round the reader waits between two pieces, so that it is known what must be copied. */
static void withdrawn_at_any_moment(void **state)
{
    struct array_snapshot *snapshot;
    const uint64_t piece = 997, pieces = SIZE / piece + 1;
    assert_int_equal(array_snapshot_open(ARRAYS, sizeof arrays, &snapshot, NULL), WEFT_OK);
    for (int round = 1; round <= 120; round++) {
        struct reading reading = {.snapshot = snapshot, .piece = piece};
        const bool waits = round % 2;
        pthread_t thread;
        fill(round);
        lend_all(snapshot);
        const uint64_t read = random_below(3, (uint64_t)round, ARRAYS * pieces);
        taken = 0;
        allowed = waits ? read : UINT64_MAX;
        assert_int_equal(pthread_create(&thread, NULL, read_all, &reading), 0);
        while (taken < read)
            sched_yield();
        array_snapshot_detach(snapshot);
        fill(-round); /* the update */
        allowed = UINT64_MAX;
        array_snapshot_detach(snapshot);
        assert_int_equal(pthread_join(thread, NULL), 0);
        must_have_seen(round);
        const uint64_t left = sizeof arrays - (read / pieces * SIZE + read % pieces * piece);
        if (waits)
            assert_int_equal(array_snapshot_copied(snapshot), left);
        else
            assert_in_range(array_snapshot_copied(snapshot), 0, left);
    }
    array_snapshot_close(snapshot);
}

static void what_was_read_is_not_copied(void **state)
{
    struct array_snapshot *snapshot;
    struct reading reading = {.piece = SIZE};
    assert_int_equal(array_snapshot_open(ARRAYS, sizeof arrays, &snapshot, NULL), WEFT_OK);
    reading.snapshot = snapshot;
    fill(1);
    lend_all(snapshot);
    read_all(&reading);
    array_snapshot_detach(snapshot);
    assert_int_equal(array_snapshot_copied(snapshot), 0);
    lend_all(snapshot);
    array_snapshot_detach(snapshot);
    assert_int_equal(array_snapshot_copied(snapshot), sizeof arrays);
    fill(2);
    read_all(&reading);
    must_have_seen(1);
    array_snapshot_close(snapshot);
}

/* With too little room the owner waits for the reader, and the reader sees the old content all the same. */
static void without_memory_the_owner_waits(void **state)
{
    struct array_snapshot *snapshot;
    assert_int_equal(array_snapshot_open(ARRAYS, 10, &snapshot, NULL), WEFT_OK);
    for (int round = 1; round <= 20; round++) {
        struct reading reading = {.snapshot = snapshot, .piece = 997};
        pthread_t thread;
        fill(round);
        lend_all(snapshot);
        assert_int_equal(pthread_create(&thread, NULL, read_all, &reading), 0);
        array_snapshot_detach(snapshot);
        fill(-round);
        assert_int_equal(pthread_join(thread, NULL), 0);
        must_have_seen(round);
        assert_int_equal(array_snapshot_copied(snapshot), 0);
    }
    array_snapshot_close(snapshot);
}

static void a_reader_that_is_no_longer_wanted(void **state)
{
    struct array_snapshot *snapshot;
    struct reading reading = {.piece = 10};
    assert_int_equal(array_snapshot_open(ARRAYS, sizeof arrays, &snapshot, NULL), WEFT_OK);
    reading.snapshot = snapshot;
    lend_all(snapshot);
    array_snapshot_cancel(snapshot);
    array_snapshot_detach(snapshot);
    read_all(&reading);
    assert_true(reading.gave_up);
    assert_int_equal(array_snapshot_copied(snapshot), 0);
    array_snapshot_close(snapshot);
    array_snapshot_close(NULL);
}

static void memory_that_was_not_lent_is_read_as_it_is(void **state)
{
    struct array_snapshot *snapshot;
    char other[16] = "other";
    assert_int_equal(array_snapshot_open(1, 100, &snapshot, NULL), WEFT_OK);
    array_snapshot_begin(snapshot);
    array_snapshot_add(snapshot, arrays[1], 100);
    const struct byte_source source = array_snapshot_source(snapshot);
    array_snapshot_detach(snapshot);
    assert_ptr_equal(source.acquire(source.owner, other, sizeof other), other);
    source.release(source.owner, other, sizeof other);
    assert_ptr_not_equal(source.acquire(source.owner, arrays[1] + 10, 10), arrays[1] + 10);
    assert_ptr_equal(source.acquire(source.owner, arrays[1] + 100, 10), arrays[1] + 100);
    array_snapshot_close(snapshot);
}

static void warming_can_be_stopped(void **state)
{
    struct array_snapshot *snapshot;
    atomic_bool stop = false;
    assert_int_equal(array_snapshot_open(1, (uint64_t)8 << 20, &snapshot, NULL), WEFT_OK);
    array_snapshot_touch(snapshot, &stop);
    stop = true;
    array_snapshot_touch(snapshot, &stop);
    array_snapshot_close(snapshot);
    /* More than any machine has: no memory, and nothing is touched for long. */
    assert_int_equal(array_snapshot_open(1, (uint64_t)1 << 60, &snapshot, NULL), WEFT_OK);
    stop = false;
    array_snapshot_touch(snapshot, &stop);
    array_snapshot_close(snapshot);
}

int main(void)
{
    allowed = UINT64_MAX;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(withdrawn_at_any_moment),
        cmocka_unit_test(what_was_read_is_not_copied),
        cmocka_unit_test(without_memory_the_owner_waits),
        cmocka_unit_test(a_reader_that_is_no_longer_wanted),
        cmocka_unit_test(memory_that_was_not_lent_is_read_as_it_is),
        cmocka_unit_test(warming_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
