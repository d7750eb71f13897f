/* SPDX-License-Identifier: Apache-2.0 */
/* What fails on some ranks fails on all with one message, though every rank exits as soon as it knows. */
#include "../world.h"

#include "training/parallel/agreement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { RANKS = 5, ROUNDS = 10 };

/* All ranks fail from `first` on; the message is that of rank `first`. */
static int agree_and_exit(weft_context *context, int rank, void *argument)
{
    const int first = *(const int *)argument;
    struct error error = {0};
    char expected[ERROR_TEXT_BYTES];
    bool speaks = rank != first;
    weft_status status = WEFT_OK;
    if (rank >= first)
        status = error_set(&error, WEFT_ERROR_DATA, "rank %d lacks its file", rank);
    status = agreement_reach(context, weft_world(context), status, &error, &speaks);
    snprintf(expected, sizeof expected, "rank %d lacks its file", first);
    const bool right = status == WEFT_ERROR_DATA && error.status == status && strcmp(error.text, expected) == 0 &&
                       speaks == (rank == first);
    if (!right)
        fprintf(stderr, "rank %d: status %d, which speaks: %d, says: %s\n", rank, (int)status, speaks, error.text);
    _exit(!right);
}

static void exits_do_not_spoil_the_message(const int *node_of)
{
    for (int round = 0; round < ROUNDS; round++) {
        int first = round % RANKS;
        const struct world world = {.ranks = RANKS, .processes = true, .node_of = node_of, .heap_bytes = 64 << 20};
        assert_int_equal(world_run(&world, agree_and_exit, &first), 0);
    }
}

static void on_one_node(void **state)
{
    exits_do_not_spoil_the_message(NULL);
}

static void between_nodes(void **state)
{
    exits_do_not_spoil_the_message((const int[]){0, 0, 1, 2, 2});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_node),
        cmocka_unit_test(between_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
