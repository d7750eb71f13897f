/* SPDX-License-Identifier: Apache-2.0 */
/* The shared heap: what it hands out is aligned, zeroed, apart and touched; what comes back is used again; limits are
 * told. */
#include "core/transport/heap/heap.h"

#include "base/random.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MEBIBYTE (UINT64_C(1) << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static struct heap *open_heap(uint64_t bytes)
{
    struct heap *heap = NULL;
    struct error error = {0};
    if (heap_open(bytes, &heap, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return heap;
}

static bool is_zero(const char *place, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (place[i])
            return false;
    return true;
}

static void alignment_zeroes_and_offsets(void **state)
{
    static const uint64_t sizes[] = {0, 1, 63, 64, 65, 4095, 4096, 4097, 100000, 3 * MEBIBYTE};
    struct heap *heap = open_heap(64 * MEBIBYTE);
    void *places[sizeof sizes / sizeof *sizes];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            assert_int_equal(heap_alloc(heap, sizes[i], &places[i], NULL), WEFT_OK);
            assert_int_equal((uintptr_t)places[i] % (sizes[i] >= 4096 ? 4096 : 64), 0);
            assert_true(is_zero(places[i], sizes[i]));
            memset(places[i], 0xa5, sizes[i]);
            assert_int_equal(heap_offset(heap, places[i], sizes[i]), (char *)places[i] - heap_base(heap));
        }
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            assert_true(heap_free(heap, places[(i * 7 + 3) % (sizeof sizes / sizeof *sizes)]));
        assert_int_equal(heap_in_use(heap), 0);
    }
    heap_close(heap);
}

static void offsets_of_what_lies_outside(void **state)
{
    struct heap *heap = open_heap(MEBIBYTE);
    char local;
    assert_true(heap_offset(heap, &local, 1) == HEAP_NOWHERE);
    assert_true(heap_offset(heap, NULL, 0) == HEAP_NOWHERE);
    assert_true(heap_offset(heap, heap_base(heap) - 1, 2) == HEAP_NOWHERE);
    assert_true(heap_offset(heap, heap_base(heap) + MEBIBYTE, 0) == HEAP_NOWHERE);
    assert_true(heap_offset(heap, heap_base(heap) + 10, MEBIBYTE - 9) == HEAP_NOWHERE);
    assert_true(heap_offset(heap, heap_base(heap) + 10, UINT64_MAX) == HEAP_NOWHERE);
    assert_int_equal(heap_offset(heap, heap_base(heap) + 10, MEBIBYTE - 10), 10);
    heap_close(heap);
}

static void freed_memory_is_used_again_and_joined(void **state)
{
    struct heap *heap = open_heap(64 * MEBIBYTE);
    void *pieces[8], *whole;
    for (int i = 0; i < 8; i++)
        assert_int_equal(heap_alloc(heap, MEBIBYTE, &pieces[i], NULL), WEFT_OK);
    for (int i = 0; i < 8; i++)
        assert_true(heap_free(heap, pieces[(i * 3) % 8]));
    uint64_t touched = heap_touched(heap);
    assert_int_equal(heap_alloc(heap, 8 * MEBIBYTE, &whole, NULL), WEFT_OK);
    assert_int_equal(heap_touched(heap), touched);
    assert_true(heap_free(heap, whole));
    assert_int_equal(heap_alloc(heap, 10 * MEBIBYTE, &whole, NULL), WEFT_OK);
    assert_int_equal(heap_touched(heap), 10 * MEBIBYTE);
    heap_close(heap);
}

static void freeing_what_is_not_ours_is_refused(void **state)
{
    struct heap *heap = open_heap(MEBIBYTE);
    char local;
    void *place;
    assert_int_equal(heap_alloc(heap, 1000, &place, NULL), WEFT_OK);
    assert_true(heap_free(heap, NULL));
    assert_false(heap_free(heap, &local));
    assert_false(heap_free(heap, (char *)place + 64));
    assert_true(heap_free(heap, place));
    assert_false(heap_free(heap, place));
    heap_close(heap);
}

static void exhaustion_is_told_and_survived(void **state)
{
    struct heap *heap = open_heap(4 * MEBIBYTE);
    struct error error = {0};
    void *place = &error, *half;
    assert_int_equal(heap_alloc(heap, 5 * MEBIBYTE, &place, &error), WEFT_ERROR_MEMORY);
    assert_non_null(strstr(error.text, "5 MiB"));
    assert_non_null(strstr(error.text, "heap_bytes"));
    assert_ptr_equal(place, &error);
    assert_int_equal(heap_alloc(heap, UINT64_MAX, &place, NULL), WEFT_ERROR_MEMORY);
    assert_int_equal(heap_alloc(heap, 2 * MEBIBYTE, &half, NULL), WEFT_OK);
    assert_int_equal(heap_alloc(heap, 3 * MEBIBYTE, &place, NULL), WEFT_ERROR_MEMORY);
    assert_true(heap_free(heap, half));
    assert_int_equal(heap_alloc(heap, 4 * MEBIBYTE, &place, NULL), WEFT_OK);
    heap_close(heap);
}

static void more_than_the_machine_has_is_a_message_not_a_kill(void **state)
{
#if defined(__SANITIZE_THREAD__)
    skip(); /* its shadow memory leaves no room for terabytes */
#endif
    struct heap *heap = open_heap(UINT64_C(1) << 41);
    struct error error = {0};
    void *place;
    assert_int_equal(heap_alloc(heap, UINT64_C(1) << 40, &place, &error), WEFT_ERROR_MEMORY);
    assert_non_null(strstr(error.text, "an allocation of shared memory needs 1.0 TiB"));
    assert_int_equal(heap_alloc(heap, 100, &place, NULL), WEFT_OK);
    heap_close(heap);
}

static void too_small_or_too_large_heaps_are_refused(void **state)
{
    struct heap *heap = NULL;
    struct error error = {0};
    assert_int_equal(heap_open(4096, &heap, &error), WEFT_ERROR_MEMORY);
    assert_non_null(strstr(error.text, "4 KiB"));
    assert_int_equal(heap_open(UINT64_C(1) << 60, &heap, NULL), WEFT_ERROR_ARGUMENT);
    assert_null(heap);
}

/* In a process of its own, since a limit cannot be raised again. */
static void a_small_address_space_is_told(void **state)
{
    if (SANITIZED)
        skip(); /* sanitizers need terabytes of address space themselves */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {UINT64_C(1) << 30, UINT64_C(1) << 30};
        setrlimit(RLIMIT_AS, &limit);
        struct heap *heap = NULL;
        struct error error = {0};
        bool told = heap_open(UINT64_C(2) << 30, &heap, &error) == WEFT_ERROR_MEMORY && strstr(error.text, "ulimit -v");
        bool fits = heap_open(0, &heap, NULL) == WEFT_OK && heap_size(heap) <= UINT64_C(1) << 27;
        _exit(told && fits ? 0 : 1);
    }
    int outcome = 0;
    assert_int_equal(waitpid(child, &outcome, 0), child);
    assert_int_equal(outcome, 0);
}

/* The fewer processes map each other's heaps, the more of a limited address space each can have; some is left to all
 * else. */
static void a_limited_address_space_is_shared(void **state)
{
    if (SANITIZED)
        skip();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {UINT64_C(2) << 30, UINT64_C(2) << 30};
        setrlimit(RLIMIT_AS, &limit);
        const uint64_t one = heap_default_bytes(1), two = heap_default_bytes(2), many = heap_default_bytes(100);
        bool well = one > UINT64_C(700) << 20 && one < UINT64_C(1) << 30 && two < one && two > many;
        well = well && 2 * two < UINT64_C(3) << 29 && many <= UINT64_C(1) << 28 && many > UINT64_C(200) << 20;
        _exit(well ? 0 : 1);
    }
    int outcome = 0;
    assert_int_equal(waitpid(child, &outcome, 0), child);
    assert_int_equal(outcome, 0);
}

/* In a process of its own, as a run of the platform with a small disk quota. True if the heap opens, can be used, and
 * the limit is then as before. */
static void a_limit_of_file_sizes_is_no_limit_of_memory(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {64 * MEBIBYTE, RLIM_INFINITY}, after = {0, 0};
        struct heap *heap;
        void *place;
        bool well = setrlimit(RLIMIT_FSIZE, &limit) == 0 && heap_open(256 * MEBIBYTE, &heap, NULL) == WEFT_OK &&
                    heap_alloc(heap, 80 * MEBIBYTE, &place, NULL) == WEFT_OK && getrlimit(RLIMIT_FSIZE, &after) == 0 &&
                    after.rlim_cur == limit.rlim_cur;
        if (well)
            heap_close(heap);
        /* A hard limit is respected: by default, and with a message where more is asked for. */
        struct error error = {0};
        limit.rlim_max = limit.rlim_cur;
        well = well && setrlimit(RLIMIT_FSIZE, &limit) == 0 && heap_open(0, &heap, &error) == WEFT_OK;
        if (well) {
            well = heap->size == 64 * MEBIBYTE;
            heap_close(heap);
        }
        well = well && heap_open(256 * MEBIBYTE, &heap, &error) == WEFT_ERROR_MEMORY && strstr(error.text, "ulimit -f");
        _exit(well ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void default_size_opens(void **state)
{
    struct heap *heap = open_heap(0);
    assert_true(heap_size(heap) >= 64 * MEBIBYTE);
    heap_close(heap);
}

static void the_memory_is_shared_and_cannot_be_shrunk(void **state)
{
    struct heap *heap = open_heap(MEBIBYTE), *other = open_heap(MEBIBYTE);
    assert_true(heap_identity(heap) != heap_identity(other));
    char *first, *second;
    assert_int_equal(heap_attach(other, heap_descriptor(heap), heap_identity(heap), heap_size(heap), &first, NULL),
                     WEFT_OK);
    assert_int_equal(heap_attach(other, heap_descriptor(heap), heap_identity(heap), heap_size(heap), &second, NULL),
                     WEFT_OK);
    assert_ptr_equal(first, second);
    void *place;
    assert_int_equal(heap_alloc(heap, 64, &place, NULL), WEFT_OK);
    memcpy(place, "shared", 7);
    assert_string_equal(first + heap_offset(heap, place, 64), "shared");
    assert_int_equal(ftruncate(heap_descriptor(heap), 4096), -1);
    struct error error = {0};
    assert_int_equal(
        heap_attach(other, heap_descriptor(heap), heap_identity(heap), 2 * heap_size(heap), &first, &error),
        WEFT_ERROR_DATA); /* it knows this one, which has not grown */
    heap_detach(other, heap_identity(heap));
    heap_detach(other, heap_identity(heap));

    int plain = memfd_create("not-sealed", MFD_CLOEXEC);
    assert_int_equal(heap_attach(other, plain, 7, 4096, &first, &error), WEFT_ERROR_DATA);
    close(plain);
    heap_close(other);
    heap_close(heap);
}

struct stress {
    struct heap *heap;
    uint64_t seed;
    bool well;
};

/* Many sizes in random order; each piece is filled with a pattern of its own, so an overlap would show. */
static void *stress_heap(void *argument)
{
    enum { PIECES = 64, ROUNDS = 4000 };
    struct stress *stress = argument;
    struct {
        unsigned char *place;
        uint64_t bytes;
        unsigned char pattern;
    } pieces[PIECES] = {0};
    stress->well = true;
    for (uint64_t round = 0; round < ROUNDS && stress->well; round++) {
        uint64_t bits = random_bits(stress->seed, round), which = bits % PIECES;
        if (pieces[which].place) {
            for (uint64_t i = 0; i < pieces[which].bytes; i++)
                stress->well &= pieces[which].place[i] == pieces[which].pattern;
            stress->well &= heap_free(stress->heap, pieces[which].place);
            pieces[which].place = NULL;
            continue;
        }
        uint64_t bytes = (bits >> 8) % (UINT64_C(1) << (4 + (bits >> 40) % 13));
        void *place = NULL;
        stress->well &= heap_alloc(stress->heap, bytes, &place, NULL) == WEFT_OK;
        if (!stress->well)
            break;
        stress->well &= is_zero(place, bytes);
        pieces[which].place = place;
        pieces[which].bytes = bytes;
        pieces[which].pattern = (unsigned char)(bits >> 56) | 1;
        memset(place, pieces[which].pattern, bytes);
    }
    for (size_t i = 0; i < PIECES; i++)
        heap_free(stress->heap, pieces[i].place);
    return NULL;
}

/* While a large piece is touched, which may take seconds, other threads get and free memory. */
static struct {
    sem_t touching, done;
    bool waits, in_time;
} meeting;

/* In place of the C library's: the first large piece is touched only after another thread has used the heap. */
int madvise(void *place, size_t bytes, int advice)
{
    if (meeting.waits && advice == MADV_POPULATE_WRITE && bytes >= MEBIBYTE) {
        struct timespec end;
        meeting.waits = false;
        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec += 20;
        sem_post(&meeting.touching);
        meeting.in_time = sem_timedwait(&meeting.done, &end) == 0;
    }
    return (int)syscall(SYS_madvise, place, bytes, advice);
}

static void *allocate_large(void *argument)
{
    void *place = NULL;
    weft_status status = heap_alloc(argument, 8 * MEBIBYTE, &place, NULL);
    return status == WEFT_OK && is_zero(place, 8 * MEBIBYTE) ? place : NULL;
}

static void nobody_waits_while_memory_is_touched(void **state)
{
    struct heap *heap = open_heap(64 * MEBIBYTE);
    pthread_t thread;
    void *before, *small, *large = NULL;
    assert_int_equal(sem_init(&meeting.touching, 0, 0) | sem_init(&meeting.done, 0, 0), 0);
    assert_int_equal(heap_alloc(heap, 1000, &before, NULL), WEFT_OK);
    meeting.waits = true;
    assert_int_equal(pthread_create(&thread, NULL, allocate_large, heap), 0);
    while (sem_wait(&meeting.touching) != 0) {
    }
    assert_int_equal(heap_alloc(heap, 5000, &small, NULL), WEFT_OK);
    assert_true(heap_free(heap, before));
    assert_true(heap_free(heap, small));
    sem_post(&meeting.done);
    pthread_join(thread, &large);
    assert_true(meeting.in_time);
    assert_non_null(large);
    assert_true(heap_free(heap, large));
    assert_int_equal(heap_in_use(heap), 0);
    heap_close(heap);
}

static void threads_allocate_and_free_at_random(void **state)
{
    enum { THREADS = 4 };
    struct heap *heap = open_heap(256 * MEBIBYTE);
    pthread_t threads[THREADS];
    struct stress stresses[THREADS];
    for (int i = 0; i < THREADS; i++) {
        stresses[i] = (struct stress){heap, 1000u + (unsigned)i, false};
        assert_int_equal(pthread_create(&threads[i], NULL, stress_heap, &stresses[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(stresses[i].well);
    }
    assert_int_equal(heap_in_use(heap), 0);
    /* All is one free piece again. */
    void *all;
    uint64_t touched = heap_touched(heap) & ~UINT64_C(4095);
    assert_int_equal(heap_alloc(heap, touched, &all, NULL), WEFT_OK);
    assert_int_equal(heap_offset(heap, all, 1), 0);
    heap_close(heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alignment_zeroes_and_offsets),
        cmocka_unit_test(offsets_of_what_lies_outside),
        cmocka_unit_test(freed_memory_is_used_again_and_joined),
        cmocka_unit_test(freeing_what_is_not_ours_is_refused),
        cmocka_unit_test(exhaustion_is_told_and_survived),
        cmocka_unit_test(more_than_the_machine_has_is_a_message_not_a_kill),
        cmocka_unit_test(too_small_or_too_large_heaps_are_refused),
        cmocka_unit_test(a_small_address_space_is_told),
        cmocka_unit_test(a_limited_address_space_is_shared),
        cmocka_unit_test(a_limit_of_file_sizes_is_no_limit_of_memory),
        cmocka_unit_test(default_size_opens),
        cmocka_unit_test(the_memory_is_shared_and_cannot_be_shrunk),
        cmocka_unit_test(nobody_waits_while_memory_is_touched),
        cmocka_unit_test(threads_allocate_and_free_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
