/* SPDX-License-Identifier: Apache-2.0 */
/* A reader gets what the arrays held when they were lent, whenever the owner withdraws and changes them. */
#include "training/train/state/internal/lending.h"

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

static void lend_all(struct lending *lending)
{
    lending_begin(lending);
    for (int i = ARRAYS - 1; i >= 0; i--) /* in any order */
        lending_add(lending, arrays[i], SIZE);
}

struct reading {
    struct lending *lending;
    uint64_t piece;
    bool gave_up;
};

/* Read all arrays in pieces into `seen`. */
static void *read_all(void *argument)
{
    struct reading *reading = argument;
    const struct byte_source source = lending_source(reading->lending);
    for (int i = 0; i < ARRAYS && !reading->gave_up; i++) {
        for (uint64_t done = 0; done < SIZE; done += reading->piece) {
            while (taken >= allowed)
                sched_yield();
            uint64_t size = SIZE - done < reading->piece ? SIZE - done : reading->piece;
            const void *bytes = source.take(source.owner, arrays[i] + done, size);
            if (!bytes) {
                reading->gave_up = true;
                break;
            }
            memcpy(seen[i] + done, bytes, size);
            source.give_back(source.owner, arrays[i] + done, size);
            taken++;
        }
    }
    lending_end(reading->lending);
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
    struct lending *lending;
    const uint64_t piece = 997, pieces = SIZE / piece + 1;
    assert_int_equal(lending_open(ARRAYS, sizeof arrays, &lending, NULL), WEFT_OK);
    for (int round = 1; round <= 120; round++) {
        struct reading reading = {.lending = lending, .piece = piece};
        const bool waits = round % 2;
        pthread_t thread;
        fill(round);
        lend_all(lending);
        const uint64_t read = random_below(3, (uint64_t)round, ARRAYS * pieces);
        taken = 0;
        allowed = waits ? read : UINT64_MAX;
        assert_int_equal(pthread_create(&thread, NULL, read_all, &reading), 0);
        while (taken < read)
            sched_yield();
        lending_withdraw(lending);
        fill(-round); /* the update */
        allowed = UINT64_MAX;
        lending_withdraw(lending);
        assert_int_equal(pthread_join(thread, NULL), 0);
        must_have_seen(round);
        const uint64_t left = sizeof arrays - (read / pieces * SIZE + read % pieces * piece);
        if (waits)
            assert_int_equal(lending_copied(lending), left);
        else
            assert_in_range(lending_copied(lending), 0, left);
    }
    lending_close(lending);
}

static void what_was_read_is_not_copied(void **state)
{
    struct lending *lending;
    struct reading reading = {.piece = SIZE};
    assert_int_equal(lending_open(ARRAYS, sizeof arrays, &lending, NULL), WEFT_OK);
    reading.lending = lending;
    fill(1);
    lend_all(lending);
    read_all(&reading);
    lending_withdraw(lending);
    assert_int_equal(lending_copied(lending), 0);
    lend_all(lending);
    lending_withdraw(lending);
    assert_int_equal(lending_copied(lending), sizeof arrays);
    fill(2);
    read_all(&reading);
    must_have_seen(1);
    lending_close(lending);
}

/* With too little room the owner waits for the reader, and the reader sees the old content all the same. */
static void without_memory_the_owner_waits(void **state)
{
    struct lending *lending;
    assert_int_equal(lending_open(ARRAYS, 10, &lending, NULL), WEFT_OK);
    for (int round = 1; round <= 20; round++) {
        struct reading reading = {.lending = lending, .piece = 997};
        pthread_t thread;
        fill(round);
        lend_all(lending);
        assert_int_equal(pthread_create(&thread, NULL, read_all, &reading), 0);
        lending_withdraw(lending);
        fill(-round);
        assert_int_equal(pthread_join(thread, NULL), 0);
        must_have_seen(round);
        assert_int_equal(lending_copied(lending), 0);
    }
    lending_close(lending);
}

static void a_reader_that_is_no_longer_wanted(void **state)
{
    struct lending *lending;
    struct reading reading = {.piece = 10};
    assert_int_equal(lending_open(ARRAYS, sizeof arrays, &lending, NULL), WEFT_OK);
    reading.lending = lending;
    lend_all(lending);
    lending_give_up(lending);
    lending_withdraw(lending);
    read_all(&reading);
    assert_true(reading.gave_up);
    assert_int_equal(lending_copied(lending), 0);
    lending_close(lending);
    lending_close(NULL);
}

static void memory_that_was_not_lent_is_read_as_it_is(void **state)
{
    struct lending *lending;
    char other[16] = "other";
    assert_int_equal(lending_open(1, 100, &lending, NULL), WEFT_OK);
    lending_begin(lending);
    lending_add(lending, arrays[1], 100);
    const struct byte_source source = lending_source(lending);
    lending_withdraw(lending);
    assert_ptr_equal(source.take(source.owner, other, sizeof other), other);
    source.give_back(source.owner, other, sizeof other);
    assert_ptr_not_equal(source.take(source.owner, arrays[1] + 10, 10), arrays[1] + 10);
    assert_ptr_equal(source.take(source.owner, arrays[1] + 100, 10), arrays[1] + 100);
    lending_close(lending);
}

static void warming_can_be_stopped(void **state)
{
    struct lending *lending;
    atomic_bool stop = false;
    assert_int_equal(lending_open(1, (uint64_t)8 << 20, &lending, NULL), WEFT_OK);
    lending_warm(lending, &stop);
    stop = true;
    lending_warm(lending, &stop);
    lending_close(lending);
    /* More than any machine has: no memory, and nothing is touched for long. */
    assert_int_equal(lending_open(1, (uint64_t)1 << 60, &lending, NULL), WEFT_OK);
    stop = false;
    lending_warm(lending, &stop);
    lending_close(lending);
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
