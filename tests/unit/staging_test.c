/* SPDX-License-Identifier: Apache-2.0 */
/* The ring that ordinary buffers are staged in: what the last operation has is left alone, whatever sizes follow. */
#include "core/collective/internal/staging.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define USUAL      (UINT64_C(64) << 10)
#define OPERATIONS 5000

struct piece {
    char *place;
    uint64_t bytes;
    char mark;
};

static struct heap *open_heap(uint64_t bytes)
{
    struct heap *heap = NULL;
    struct error error = {0};
    if (heap_open(bytes, &heap, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return heap;
}

static void assert_untouched(const struct piece *piece)
{
    for (uint64_t i = 0; i < piece->bytes; i++)
        if (piece->place[i] != piece->mark)
            fail_msg("byte %d of a piece of %d was written by the operation after it", (int)i, (int)piece->bytes);
}

static struct piece take(struct staging *staging, struct heap *heap, uint64_t bytes, char mark)
{
    struct piece piece = {.bytes = bytes, .mark = mark};
    struct error error = {0};
    if (staging_take(staging, heap, USUAL, bytes, &piece.place, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_int_equal((uintptr_t)piece.place % 64, 0);
    assert_true(heap_offset(heap, piece.place, bytes) != HEAP_NOWHERE);
    memset(piece.place, mark, bytes);
    return piece;
}

static void an_operation_leaves_the_one_before_it_alone(void **state)
{
    for (uint64_t most = 100; most <= 1000000; most *= 10) {
        struct heap *heap = open_heap(UINT64_C(64) << 20);
        struct staging staging = {0};
        struct piece last = {0};
        for (uint64_t i = 0; i < OPERATIONS / (1 + most / 100000); i++) {
            struct piece next = take(&staging, heap, 1 + random_bits(most, i) % most, (char)(i % 127));
            assert_untouched(&last);
            last = next;
        }
        assert_true(staging.bytes <= USUAL + 3 * (most + 128));
        staging_free(&staging, heap);
        heap_close(heap);
    }
    (void)state;
}

/* A piece comes again only after all of the ring. */
static void small_operations_go_round_the_ring(void **state)
{
    struct heap *heap = open_heap(UINT64_C(1) << 20);
    struct staging staging = {0};
    char *first = take(&staging, heap, 1024, 1).place;
    for (uint64_t i = 1; i < USUAL / 1024; i++)
        assert_true(take(&staging, heap, 1024, 1).place != first);
    assert_true(take(&staging, heap, 1024, 1).place == first);
    staging_free(&staging, heap);
    heap_close(heap);
    (void)state;
}

static void no_memory_is_told_and_nothing_taken(void **state)
{
    struct heap *heap = open_heap(UINT64_C(1) << 20);
    struct staging staging = {0};
    struct piece last = take(&staging, heap, 1000, 5);
    char *place = NULL;
    struct error error = {0};
    assert_int_equal(staging_take(&staging, heap, USUAL, UINT64_C(1) << 30, &place, &error), WEFT_ERROR_MEMORY);
    assert_untouched(&last);
    take(&staging, heap, 1000, 6);
    assert_untouched(&last);
    staging_free(&staging, heap);
    heap_close(heap);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_leaves_the_one_before_it_alone),
        cmocka_unit_test(small_operations_go_round_the_ring),
        cmocka_unit_test(no_memory_is_told_and_nothing_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
