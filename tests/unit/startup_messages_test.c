/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What starting a job costs in messages: an exchange among all ranks is counted on up to 64 of them, for real, and on
 * up to 10,000 by the shape of their tree. No rank handles more than a few frames, and the longest chain of frames that
 * wait for one another grows with the logarithm of the number of ranks.
 */
#include "control/address.h"
#include "control/control.h"
#include "control/tree.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS_MOST      64
#define EXCHANGES       3
#define NEIGHBOURS_MOST 5 /* a parent, two leaders below, two ranks of the same node below */

/* ---- counted ---------------------------------------------------------------------------------------------------- */

struct rank {
    int number, ranks, per_node;
    char address[64];
    struct control *control;
    atomic_bool stop;
    pthread_t thread, helper;
    uint64_t frames;
    char message[ERROR_TEXT_BYTES];
};

static void *help(void *argument)
{
    struct rank *rank = argument;
    while (!atomic_load(&rank->stop)) {
        int milliseconds = control_progress(rank->control);
        struct pollfd wait = {control_descriptor(rank->control), POLLIN, 0};
        poll(&wait, 1, milliseconds < 0 || milliseconds > 20 ? 20 : milliseconds);
    }
    return NULL;
}

static weft_status exchange(struct rank *rank, struct error *error)
{
    uint32_t members[RANKS_MOST];
    uint64_t result[RANKS_MOST];
    for (uint32_t i = 0; i < (uint32_t)rank->ranks; i++)
        members[i] = i;
    for (uint64_t key = 1; key <= EXCHANGES; key++) {
        uint64_t mine = 1000 * key + (unsigned)rank->number;
        weft_status status =
            control_exchange(rank->control, key, members, (uint32_t)rank->ranks, &mine, 8, result, 60, error);
        for (uint32_t i = 0; status == WEFT_OK && i < (uint32_t)rank->ranks; i++)
            if (result[i] != 1000 * key + i)
                return error_set(error, WEFT_ERROR_DATA, "rank %d got %llu for rank %u", rank->number,
                                 (unsigned long long)result[i], i);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static void *live(void *argument)
{
    struct rank *rank = argument;
    struct error error = {0};
    struct meeting *meeting = NULL;
    struct card card, *cards = NULL;
    char node[16];
    const struct meeting_config config = {rank->number, rank->ranks, rank->address, "a secret", 60};
    const struct control_config settings = {
        .rank = (uint32_t)rank->number, .ranks = (uint32_t)rank->ranks, .connect_limit = 60};
    snprintf(node, sizeof node, "n%d", rank->number / rank->per_node);
    weft_status status = meeting_open(&config, &meeting, &error);
    if (status == WEFT_OK)
        status = card_begin(&card, (uint32_t)rank->number, node, &error);
    if (status == WEFT_OK)
        status = control_open(&settings, meeting_interface_hint(meeting), &rank->control, &card, &error);
    if (status == WEFT_OK)
        status = meeting_exchange(meeting, &card, &cards, &error);
    if (status == WEFT_OK)
        status = control_connect(rank->control, cards, meeting_secret(meeting), &error);
    meeting_close(meeting);
    if (status == WEFT_OK) {
        pthread_create(&rank->helper, NULL, help, rank);
        status = exchange(rank, &error);
        rank->frames = control_exchange_frames(rank->control);
        atomic_store(&rank->stop, true);
        pthread_join(rank->helper, NULL);
    }
    snprintf(rank->message, sizeof rank->message, "%s", status == WEFT_OK ? "" : error.text);
    control_close(rank->control);
    free(cards);
    return NULL;
}

static void count(int ranks, int per_node)
{
    static struct rank all[RANKS_MOST];
    uint16_t port = 0;
    int listener = -1;
    memset(all, 0, sizeof all);
    assert_int_equal(address_listen("127.0.0.1", 0, &listener, &port, NULL), WEFT_OK);
    close(listener);
    for (int i = 0; i < ranks; i++) {
        all[i].number = i;
        all[i].ranks = ranks;
        all[i].per_node = per_node;
        snprintf(all[i].address, sizeof all[i].address, "127.0.0.1:%u", port);
        assert_int_equal(pthread_create(&all[i].thread, NULL, live, &all[i]), 0);
    }
    uint64_t most = 0;
    for (int i = 0; i < ranks; i++) {
        pthread_join(all[i].thread, NULL);
        assert_string_equal(all[i].message, "");
        most = all[i].frames > most ? all[i].frames : most;
    }
    if (most > EXCHANGES * NEIGHBOURS_MOST)
        fail_msg("%d ranks, %d to a node: a rank handled %llu frames in %d exchanges", ranks, per_node,
                 (unsigned long long)most, EXCHANGES);
}

static void a_rank_handles_no_more_frames_than_it_has_neighbours(void **state)
{
    static const int per_node[] = {1, 3, 8, 64};
    for (int i = 0; i < 4; i++)
        for (int ranks = 4; ranks <= RANKS_MOST; ranks *= 4)
            count(ranks, per_node[i]);
}

/* ---- simulated -------------------------------------------------------------------------------------------------- */

/*
 * The longest chain of frames from any leaf of the tree up to the root and down again, if each rank handles one frame
 * after the other: on the way up a rank takes a frame from each child, on the way down it sends one to each.
 */
static uint32_t longest_chain(uint32_t ranks, uint32_t per_node)
{
    struct card *cards = calloc(ranks, sizeof *cards);
    uint32_t longest = 0;
    assert_non_null(cards);
    for (uint32_t i = 0; i < ranks; i++)
        snprintf(cards[i].machine, sizeof cards[i].machine, "machine-%u", i / per_node);
    /* Of large trees a sample of the ranks, the last one included, and all their ancestors. */
    uint32_t step = ranks > 256 ? ranks / 128 : 1;
    for (uint32_t i = 0; i < ranks; i += step) {
        uint32_t frames = 0;
        for (uint32_t rank = ranks - 1 - i; rank != TREE_NONE;) {
            struct tree tree;
            struct error error = {0};
            assert_int_equal(tree_build(cards, ranks, rank, &tree, &error), WEFT_OK);
            if (tree.count + 1 > NEIGHBOURS_MOST)
                fail_msg("rank %u of %u, %u to a node, has %u children", rank, ranks, per_node, tree.count);
            frames += 2 * tree.count;
            rank = tree.parent;
            tree_free(&tree);
        }
        longest = frames > longest ? frames : longest;
    }
    free(cards);
    return longest;
}

static void the_longest_chain_grows_with_the_logarithm(void **state)
{
    static const uint32_t ranks[] = {2, 16, 64, 256, 1000, 10000}, per_node[] = {1, 4, 8, 192, 10000};
    for (size_t i = 0; i < sizeof per_node / sizeof *per_node; i++)
        for (size_t k = 0; k < sizeof ranks / sizeof *ranks; k++) {
            uint32_t chain = longest_chain(ranks[k], per_node[i]);
            /* Up and down; four children at most on each of the levels of leaders and of ranks of a node. */
            double most = 2 * 4 * (log2(ranks[k]) + 2);
            if (chain > most)
                fail_msg("%u ranks, %u to a node: a chain of %u frames, more than %.0f", ranks[k], per_node[i], chain,
                         most);
        }
}

/* Every rank finds the same tree: its parent names it as a child, and the ranks below add up. */
static void all_ranks_find_the_same_tree(void **state)
{
    enum { RANKS = 60 };
    struct card cards[RANKS] = {0};
    struct tree trees[RANKS];
    struct error error = {0};
    for (uint32_t i = 0; i < RANKS; i++)
        snprintf(cards[i].machine, sizeof cards[i].machine, "machine-%u", i * i % 7);
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(tree_build(cards, RANKS, i, &trees[i], &error), WEFT_OK);
    for (uint32_t i = 0; i < RANKS; i++) {
        uint32_t below = 1;
        for (uint32_t c = 0; c < trees[i].count; c++) {
            assert_int_equal(trees[trees[i].children[c]].parent, i);
            below += trees[trees[i].children[c]].below;
        }
        assert_int_equal(trees[i].below, below);
        assert_true((trees[i].parent == TREE_NONE) == (i == 0));
    }
    assert_int_equal(trees[0].below, RANKS);
    for (uint32_t i = 0; i < RANKS; i++)
        tree_free(&trees[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_handles_no_more_frames_than_it_has_neighbours),
        cmocka_unit_test(the_longest_chain_grows_with_the_logarithm),
        cmocka_unit_test(all_ranks_find_the_same_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
