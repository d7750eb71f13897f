/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What starting a job costs in messages. The rendezvous, then an exchange among all ranks, are counted on up to 64 of
 * them, for real, and on up to 10,000 by the shape of their trees. No rank handles more than a few messages, and the
 * longest chain of messages that wait for one another grows with the logarithm of the number of ranks; but for the
 * rendezvous's server, which hears of each node once.
 */
#include "control_ranks.h"

#include "core/control/rendezvous/rendezvous.h"
#include "core/control/wire/stream.h"
#include "core/control/wire/tree.h"

#include <math.h>

#define RANKS_MOST      64
#define EXCHANGES       3
#define NEIGHBOURS_MOST 5 /* a parent, two leaders below, two ranks of the same node below */

/* ---- the rendezvous ---- */

/* What it costs: the server, the busiest rank, and the longest chain of messages. */
struct cost {
    uint32_t server, busiest, chain;
    uint64_t server_bytes, busiest_bytes;
};

#define GREETING_BYTES (STREAM_HELLO_BYTES + STREAM_REPLY_BYTES + SECRET_BYTES)
#define HOST           "127.0.0.1"

/*
 * By the shape of the trees alone, each rank handling one message after the other, in the worst order: greetings, too,
 * wait for what came before. All nodes but the last have as many ranks.
 */
struct simulated {
    uint32_t ranks, nodes, per_node;
    uint32_t *up, *down; /* of a place: messages until its endpoint infos have gone up, and until it has the table */
};

static uint32_t ranks_of(const struct simulated *job, uint32_t node)
{
    return node + 1 < job->nodes ? job->per_node : job->ranks - node * job->per_node;
}

static uint32_t children_of(uint32_t place, uint32_t count)
{
    uint32_t children = 0;
    while (children < TREE_ARITY && tree_place_child(place, children) < count)
        children++;
    return children;
}

static uint64_t table_bytes(const struct simulated *job)
{
    return FRAME_HEADER_BYTES + 12 + SECRET_BYTES + (uint64_t)job->ranks * sizeof(struct endpoint_info);
}

static uint64_t cards_bytes(uint32_t ranks)
{
    return FRAME_HEADER_BYTES + 8 + (uint64_t)ranks * (4 + sizeof(struct endpoint_info));
}

/* Over a leader's connection to the server: a greeting, the ranks' numbers, and the place with two children's names. */
static uint64_t server_bytes(void)
{
    char host[STREAM_HOST_BYTES];
    uint64_t address = strlen(HOST) + 6, name = strlen(address_host_name(host, sizeof host));
    return GREETING_BYTES + 2 * FRAME_HEADER_BYTES + 12 + address + 8 + 12 + address + TREE_ARITY * (8 + name);
}

static void note_busiest(struct cost *cost, uint32_t messages, uint64_t bytes)
{
    cost->busiest = messages > cost->busiest ? messages : cost->busiest;
    cost->busiest_bytes = bytes > cost->busiest_bytes ? bytes : cost->busiest_bytes;
}

/* Bytes over a connection within a node to a rank with so many below it, itself included. */
static uint64_t near_bytes(const struct simulated *job, uint32_t below)
{
    return GREETING_BYTES + FRAME_HEADER_BYTES + 4 + strlen(HOST) + cards_bytes(below) + table_bytes(job);
}

/* In a node of so many ranks: messages until its leader, at place 0, has all endpoint infos. */
static uint32_t climb(struct simulated *job, uint32_t ranks)
{
    for (uint32_t place = ranks; place-- > 0;) {
        uint32_t longest = 0, children = children_of(place, ranks);
        for (uint32_t k = 0; k < children; k++) {
            uint32_t up = job->up[tree_place_child(place, k)];
            longest = up > longest ? up : longest;
        }
        /* Of each child a greeting, the address told and its endpoint infos; of its own greeting, the leader's is the server's.
         */
        job->up[place] = longest + 5 * children + (place ? 4 + 1 : 0);
    }
    return job->up[0];
}

/* From a leader that has the table, and tells so many other leaders first: messages until all of its node have it. */
static uint32_t descend(struct simulated *job, uint32_t ranks, uint32_t had, uint32_t others)
{
    uint32_t longest = job->down[0] = had;
    for (uint32_t place = 1; place < ranks; place++) {
        uint32_t parent = tree_place_parent(place);
        job->down[place] = job->down[parent] + children_of(parent, ranks) + (parent ? 0 : others) + 1;
        longest = job->down[place] > longest ? job->down[place] : longest;
    }
    return longest;
}

static struct cost simulate(uint32_t ranks, uint32_t per_node)
{
    struct simulated job = {ranks, (ranks + per_node - 1) / per_node, per_node, calloc(ranks, sizeof(uint32_t)),
                            calloc(ranks, sizeof(uint32_t))};
    uint32_t nodes = job.nodes, *up = calloc(nodes, sizeof *up), *down = calloc(nodes, sizeof *down);
    struct cost cost = {.server = 5 * nodes};
    assert_true(job.up && job.down && up && down);
    /* Up to the server: three messages of a greeting and the ranks' numbers; all leaders, one after the other. */
    uint32_t come = climb(&job, ranks_of(&job, 0)) + 3 + 1;
    for (uint32_t place = 1; place < ranks_of(&job, 0); place++) {
        uint32_t inside = ranks_of(&job, 0), children = children_of(place, inside);
        uint64_t bytes = near_bytes(&job, tree_places_below(place, inside));
        for (uint32_t k = 0; k < children; k++)
            bytes += near_bytes(&job, tree_places_below(tree_place_child(place, k), inside));
        note_busiest(&cost, 6 + 6 * children, bytes);
    }
    uint32_t placed = come + 4 * nodes + nodes + 1;
    /* Up and down the tree of leaders. */
    for (uint32_t node = nodes; node-- > 0;) {
        uint32_t longest = placed, children = children_of(node, nodes);
        for (uint32_t k = 0; k < children; k++) {
            uint32_t child = up[tree_place_child(node, k)];
            longest = child > longest ? child : longest;
        }
        up[node] = longest + 4 * children + (node ? 3 + 1 : 0);
    }
    for (uint32_t node = 0; node < nodes; node++) {
        uint32_t parent = tree_place_parent(node), inside = ranks_of(&job, node), others = children_of(node, nodes);
        uint32_t near = children_of(0, inside);
        uint64_t bytes = server_bytes();
        down[node] =
            node ? down[parent] + children_of(parent, nodes) + children_of(0, ranks_of(&job, parent)) + 1 : up[0];
        uint32_t longest = descend(&job, inside, down[node], others);
        cost.chain = longest > cost.chain ? longest : cost.chain;
        /* Its part in bytes: the server, its parent, other leaders and its own node. */
        cost.server_bytes += server_bytes();
        for (uint32_t k = 0; k < others; k++)
            bytes += GREETING_BYTES + table_bytes(&job) +
                     cards_bytes(tree_places_below(tree_place_child(node, k), nodes) * job.per_node);
        for (uint32_t k = 0; k < near; k++)
            bytes += near_bytes(&job, tree_places_below(tree_place_child(0, k), inside));
        bytes +=
            node ? GREETING_BYTES + table_bytes(&job) + cards_bytes(tree_places_below(node, nodes) * job.per_node) : 0;
        note_busiest(&cost, 5 + (node ? 5 : 0) + 5 * others + 6 * near, bytes);
    }
    free(job.up);
    free(job.down);
    free(up);
    free(down);
    return cost;
}

/* If a launcher's store tells each rank where to go: of each child a greeting and endpoint infos, then the table. */
static uint32_t simulate_gathering(uint32_t ranks)
{
    uint32_t *up = calloc(ranks, sizeof *up), *down = calloc(ranks, sizeof *down), chain = 0;
    assert_true(up && down);
    for (uint32_t place = ranks; place-- > 0;) {
        uint32_t longest = 0;
        for (uint32_t k = 0; k < children_of(place, ranks); k++) {
            uint32_t child = up[tree_place_child(place, k)];
            longest = child > longest ? child : longest;
        }
        up[place] = longest + 4 * children_of(place, ranks) + (place ? 3 + 1 : 0);
    }
    for (uint32_t place = 0; place < ranks; place++) {
        uint32_t parent = tree_place_parent(place);
        down[place] = place ? down[parent] + children_of(parent, ranks) + 1 : up[0];
        chain = down[place] > chain ? down[place] : chain;
    }
    free(up);
    free(down);
    return chain;
}

/* One that comes, in a thread. */
struct visitor {
    struct rendezvous_client client;
    struct rendezvous_result result;
    struct error error;
    pthread_t thread;
};

static void *come(void *argument)
{
    struct visitor *visitor = argument;
    struct rendezvous *rendezvous = NULL;
    struct endpoint_info endpoint = {.rank = visitor->client.rank};
    if (rendezvous_open(&visitor->client, &rendezvous, &visitor->error) == WEFT_OK)
        (void)rendezvous_join(rendezvous, NULL, &endpoint, sizeof endpoint, &visitor->result, &visitor->error);
    rendezvous_close(rendezvous);
    return NULL;
}

struct served {
    struct rendezvous_server server;
    struct stream_counts counts;
    int listener;
    weft_status status;
};

static void *serve(void *argument)
{
    struct served *served = argument;
    served->status = rendezvous_serve(served->listener, &served->server, NULL);
    return NULL;
}

/* A rendezvous for real. */
static struct cost meet(uint32_t ranks, uint32_t per_node)
{
    static struct visitor all[RANKS_MOST];
    uint8_t secret[SECRET_BYTES];
    struct served served = {.server = {.ranks = ranks, .secret = secret, .limit_seconds = 60, .stop = -1}};
    struct cost cost = {0};
    pthread_t thread;
    char address[64];
    uint16_t port = 0;
    assert_int_equal(secret_from_text("a secret", secret, NULL), WEFT_OK);
    assert_int_equal(address_listen(HOST, 0, &served.listener, &port, NULL), WEFT_OK);
    snprintf(address, sizeof address, HOST ":%u", port);
    served.server.counts = &served.counts;
    pthread_create(&thread, NULL, serve, &served);
    memset(all, 0, sizeof all);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t first = rank / per_node * per_node;
        all[rank].client =
            (struct rendezvous_client){.addresses = address,
                                       .rank = rank,
                                       .ranks = ranks,
                                       .secret = secret,
                                       .limit_seconds = 60,
                                       .stop = -1,
                                       .node = first,
                                       .local_rank = rank - first,
                                       .local_ranks = first + per_node < ranks ? per_node : ranks - first};
        assert_int_equal(pthread_create(&all[rank].thread, NULL, come, &all[rank]), 0);
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct rendezvous_result *result = &all[rank].result;
        pthread_join(all[rank].thread, NULL);
        assert_string_equal(all[rank].error.text, "");
        for (uint32_t i = 0; i < ranks; i++)
            assert_int_equal(((struct endpoint_info *)result->blobs)[i].rank, i);
        note_busiest(&cost, result->counts.sent + result->counts.received, result->counts.bytes);
        cost.chain = result->chain > cost.chain ? result->chain : cost.chain;
        free(result->blobs);
    }
    pthread_join(thread, NULL);
    close(served.listener);
    assert_int_equal(served.status, WEFT_OK);
    cost.server = served.counts.sent + served.counts.received;
    cost.server_bytes = served.counts.bytes;
    return cost;
}

static void print_cost(const char *how, uint32_t ranks, uint32_t per_node, const struct cost *cost)
{
    printf("%-9s %5u ranks, %5u a node: server %5u messages, %9llu bytes; a rank at most %3u, %9llu bytes; chain %5u\n",
           how, ranks, per_node, cost->server, (unsigned long long)cost->server_bytes, cost->busiest,
           (unsigned long long)cost->busiest_bytes, cost->chain);
}

/* What is counted is what the shape of the trees says, or less where it is less than the worst order. */
static void a_meeting_costs_what_its_trees_say(void **state)
{
    static const uint32_t per_node[] = {1, 4, 8, 64};
    for (uint32_t ranks = 4; ranks <= RANKS_MOST; ranks *= 4)
        for (int i = 0; i < 4; i++) {
            uint32_t width = per_node[i] < ranks ? per_node[i] : ranks;
            struct cost real = meet(ranks, width), said = simulate(ranks, width);
            print_cost("counted", ranks, width, &real);
            print_cost("simulated", ranks, width, &said);
            assert_int_equal(real.server, said.server);
            assert_true(real.busiest <= said.busiest);
            assert_true(real.chain <= said.chain);
            assert_true(real.server_bytes <= said.server_bytes);
            assert_true(real.busiest_bytes <= said.busiest_bytes);
        }
}

/* All but the server's five messages a node grow with the logarithm; bytes of a rank with the table, at most five
 * times. */
static void a_meeting_grows_with_the_logarithm(void **state)
{
    static const uint32_t ranks[] = {16, 64, 256, 1000, 10000}, per_node[] = {1, 4, 8, 192, 10000};
    for (size_t k = 0; k < sizeof ranks / sizeof *ranks; k++)
        for (size_t i = 0; i < sizeof per_node / sizeof *per_node; i++) {
            uint32_t width = per_node[i] < ranks[k] ? per_node[i] : ranks[k], nodes = (ranks[k] + width - 1) / width;
            struct cost said = simulate(ranks[k], width);
            print_cost("simulated", ranks[k], width, &said);
            assert_true(said.busiest <= 10 + 5 * TREE_ARITY + 6 * TREE_ARITY);
            assert_true(said.chain <= 5 * nodes + 20 * (log2(ranks[k]) + 2));
            assert_true(said.busiest_bytes <= 8 * (uint64_t)ranks[k] * (sizeof(struct endpoint_info) + 4) + 10000);
        }
}

/* For real, as threads that know whom to go to. */
struct gatherer {
    struct rendezvous *rendezvous;
    const struct gatherer *parent;
    uint32_t rank;
    struct rendezvous_result result;
    struct error error;
    pthread_t thread;
};

static void *gather(void *argument)
{
    static const uint8_t secret[SECRET_BYTES] = {1};
    struct gatherer *one = argument;
    struct endpoint_info endpoint = {.rank = one->rank};
    (void)rendezvous_gather(one->rendezvous, secret, one->parent ? rendezvous_place(one->parent->rendezvous) : NULL,
                            &endpoint, sizeof endpoint, &one->result, &one->error);
    return NULL;
}

static void gathering_by_a_store_grows_with_the_logarithm(void **state)
{
    static struct gatherer all[RANKS_MOST];
    for (uint32_t ranks = 4; ranks <= RANKS_MOST; ranks *= 4) {
        uint32_t chain = 0, busiest = 0;
        memset(all, 0, sizeof all);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            const struct rendezvous_client client = {
                .addresses = "a store", .rank = rank, .ranks = ranks, .limit_seconds = 60, .stop = -1};
            all[rank].rank = rank;
            all[rank].parent = rank ? &all[tree_place_parent(rank)] : NULL;
            assert_int_equal(rendezvous_listen(&client, HOST, &all[rank].rendezvous, NULL), WEFT_OK);
        }
        for (uint32_t rank = 0; rank < ranks; rank++)
            pthread_create(&all[rank].thread, NULL, gather, &all[rank]);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            const struct rendezvous_result *result = &all[rank].result;
            pthread_join(all[rank].thread, NULL);
            assert_string_equal(all[rank].error.text, "");
            uint32_t messages = result->counts.sent + result->counts.received;
            busiest = messages > busiest ? messages : busiest;
            chain = result->chain > chain ? result->chain : chain;
            free(result->blobs);
        }
        for (uint32_t rank = 0; rank < ranks; rank++)
            rendezvous_close(all[rank].rendezvous);
        printf("by a store, %u ranks: counted: a rank at most %u messages, chain %u; simulated: chain %u\n", ranks,
               busiest, chain, simulate_gathering(ranks));
        assert_true(busiest <= 5 + 5 * TREE_ARITY);
        assert_true(chain <= simulate_gathering(ranks));
    }
    static const uint32_t many[] = {256, 1000, 10000};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        printf("by a store, %u ranks: simulated: chain %u\n", many[i], simulate_gathering(many[i]));
        assert_true(simulate_gathering(many[i]) <= 15 * (log2(many[i]) + 1));
    }
}

/* ---- an exchange, counted ---- */

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

static void exchange_and_tell(struct rank *rank)
{
    struct error error = {0};
    if (exchange(rank, &error) != WEFT_OK)
        snprintf(rank->message, sizeof rank->message, "%s", error.text);
}

static void count(int ranks, int per_node)
{
    static struct rank all[RANKS_MOST];
    uint64_t most = 0;
    ranks_run(all, ranks, per_node, exchange_and_tell);
    for (int i = 0; i < ranks; i++) {
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

/* ---- an exchange, simulated ---- */

/*
 * The longest chain of frames from any leaf of the tree up to the root and down again, if each rank handles one frame
 * after the other: on the way up a rank takes a frame from each child, on the way down it sends one to each.
 */
static uint32_t longest_chain(uint32_t ranks, uint32_t per_node)
{
    struct endpoint_info *endpoints = calloc(ranks, sizeof *endpoints);
    uint32_t longest = 0;
    assert_non_null(endpoints);
    for (uint32_t i = 0; i < ranks; i++)
        snprintf(endpoints[i].machine, sizeof endpoints[i].machine, "machine-%u", i / per_node);
    /* Of large trees a sample of the ranks, the last one included, and all their ancestors. */
    uint32_t step = ranks > 256 ? ranks / 128 : 1;
    for (uint32_t i = 0; i < ranks; i += step) {
        uint32_t frames = 0;
        for (uint32_t rank = ranks - 1 - i; rank != TREE_NONE;) {
            struct tree tree;
            struct error error = {0};
            assert_int_equal(tree_build(endpoints, ranks, rank, &tree, &error), WEFT_OK);
            if (tree.count + 1 > NEIGHBOURS_MOST)
                fail_msg("rank %u of %u, %u to a node, has %u children", rank, ranks, per_node, tree.count);
            frames += 2 * tree.count;
            rank = tree.parent;
            tree_free(&tree);
        }
        longest = frames > longest ? frames : longest;
    }
    free(endpoints);
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
    struct endpoint_info endpoints[RANKS] = {0};
    struct tree trees[RANKS];
    struct error error = {0};
    for (uint32_t i = 0; i < RANKS; i++)
        snprintf(endpoints[i].machine, sizeof endpoints[i].machine, "machine-%u", i * i % 7);
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(tree_build(endpoints, RANKS, i, &trees[i], &error), WEFT_OK);
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
        cmocka_unit_test(a_meeting_costs_what_its_trees_say),
        cmocka_unit_test(a_meeting_grows_with_the_logarithm),
        cmocka_unit_test(gathering_by_a_store_grows_with_the_logarithm),
        cmocka_unit_test(a_rank_handles_no_more_frames_than_it_has_neighbours),
        cmocka_unit_test(the_longest_chain_grows_with_the_logarithm),
        cmocka_unit_test(all_ranks_find_the_same_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
