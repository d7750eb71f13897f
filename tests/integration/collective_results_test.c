/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every collective by every algorithm gives exactly the bits that a serial, canonical computation gives: over rank
 * counts, types, ops, sizes, roots, in place or not, with registered buffers, ordinary ones, and a mixture of both.
 * Ranks are threads; the worlds of several nodes mix shared memory and the fabric.
 */
#include "../world.h"
#include "base/random.h"
#include "core/collective/communicator/context.h"
#include "core/schedule/generators/generate.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

enum placement { REGISTERED, ORDINARY, MIXED, PLACEMENTS };

/* One case, the same on all ranks. */
struct trial {
    uint64_t number; /* of the case: what inputs are made from */
    enum collective collective;
    const struct algorithm *algorithm; /* NULL: the tuner's choice */
    weft_type type;
    weft_op op;
    size_t count;
    int root;
    bool in_place;
    enum placement placement;
};

/* What a run covers. */
struct coverage {
    int trials_each; /* of every algorithm */
    size_t most;     /* elements of a block, about */
    bool large;      /* also blocks of several segments */
    bool leaves;     /* nodes lie under several leaves: algorithms that use them must serve */
    bool uneven;     /* nodes that split canonical subtrees: half of the trials are on a reproducible communicator */
};

/* ---- inputs ---- */

/* Element `index` of what `rank` contributes. */
static void make_element(weft_type type, uint64_t seed, uint64_t index, void *element)
{
    uint64_t bits = random_bits(seed, index);
    float single = (float)(int32_t)(bits & 0xffffff) * 0x1p-22f - 1.75f;
    switch (type) {
    case WEFT_F32:
        memcpy(element, &single, 4);
        break;
    case WEFT_F64: {
        double wide = (double)single + (double)(bits >> 40) * 0x1p-50;
        memcpy(element, &wide, 8);
        break;
    }
    case WEFT_BF16: {
        uint32_t word;
        memcpy(&word, &single, 4);
        uint16_t high = (uint16_t)(word >> 16);
        memcpy(element, &high, 2);
        break;
    }
    case WEFT_F16: {
        uint16_t half = (uint16_t)((bits & 0x83ff) | (12 + (bits >> 16) % 5) << 10);
        memcpy(element, &half, 2);
        break;
    }
    default: /* one in eight is 0: logical operations look for it */
        bits = bits >> 61 ? bits : 0;
        memcpy(element, &bits, weft_type_size(type));
    }
}

static uint64_t seed_of(const struct trial *trial, int rank)
{
    return random_bits(trial->number, (uint64_t)rank);
}

static void make_input(const struct trial *trial, int rank, size_t elements, char *input)
{
    size_t size = weft_type_size(trial->type);
    for (size_t i = 0; i < elements; i++)
        make_element(trial->type, seed_of(trial, rank), i, input + i * size);
}

/* ---- expected outputs ---- */

/* The canonical sum of elements [first, first + count) of the first `ranks` ranks' inputs of `elements` elements. */
static void expect_sum(const struct trial *trial, int ranks, size_t elements, size_t first, size_t count,
                       char *expected)
{
    size_t size = weft_type_size(trial->type);
    char *inputs = malloc((size_t)ranks * elements * size + 1);
    const void **sources = malloc((size_t)ranks * sizeof *sources);
    void *target = expected;
    for (int r = 0; r < ranks; r++) {
        make_input(trial, r, elements, inputs + (size_t)r * elements * size);
        sources[r] = inputs + ((size_t)r * elements + first) * size;
    }
    struct reduction_finish finish = reduction_finish_of(trial->type, trial->op, (uint32_t)ranks);
    if (count)
        reduction_tree(reduction_named("portable"), trial->type, trial->op.kind, &target, 1, sources, (uint32_t)ranks,
                       count, &finish, false);
    free(inputs);
    free(sources);
}

/* Elements [first, first + count) of what `rank` contributes. */
static void expect_piece(const struct trial *trial, int rank, size_t first, size_t count, char *expected)
{
    size_t size = weft_type_size(trial->type);
    for (size_t i = 0; i < count; i++)
        make_element(trial->type, seed_of(trial, rank), first + i, expected + i * size);
}

/* Counts of the v-forms: uneven, some of them 0. */
static size_t vector_count(const struct trial *trial, int a, int b)
{
    return random_below(trial->number + 77, (uint64_t)a * 64 + (uint64_t)b, 2 * trial->count + 1);
}

/* From rank a to b in an alltoallv; in place as many as back. */
static size_t exchanged(const struct trial *trial, int a, int b)
{
    return trial->in_place && a > b ? vector_count(trial, b, a) : vector_count(trial, a, b);
}

/* Elements of input and output of `rank`. */
static void sizes_of(const struct trial *trial, int rank, int ranks, size_t *input, size_t *output)
{
    size_t n = (size_t)ranks;
    *input = *output = trial->count;
    switch (trial->collective) {
    case COLLECTIVE_REDUCE_SCATTER:
        *input *= n;
        break;
    case COLLECTIVE_ALLGATHER:
        *output *= n;
        break;
    case COLLECTIVE_ALLTOALL:
        *input *= n;
        *output *= n;
        break;
    case COLLECTIVE_REDUCE:
        *output *= rank == trial->root;
        break;
    case COLLECTIVE_EXSCAN:
        *output *= rank > 0;
        break;
    case COLLECTIVE_GATHER:
        *output *= rank == trial->root ? n : 0;
        break;
    case COLLECTIVE_SCATTER:
        *input *= rank == trial->root ? n : 0;
        break;
    case COLLECTIVE_ALLGATHERV:
    case COLLECTIVE_GATHERV:
        *input = vector_count(trial, 0, rank);
        *output = 0;
        for (int r = 0; r < ranks; r++)
            *output += vector_count(trial, 0, r);
        if (trial->collective == COLLECTIVE_GATHERV && rank != trial->root)
            *output = 0;
        break;
    case COLLECTIVE_SCATTERV:
        *output = vector_count(trial, 0, rank);
        *input = 0;
        for (int r = 0; r < ranks && rank == trial->root; r++)
            *input += vector_count(trial, 0, r);
        break;
    case COLLECTIVE_ALLTOALLV:
        *input = *output = 0;
        for (int r = 0; r < ranks; r++) {
            *input += exchanged(trial, rank, r);
            *output += exchanged(trial, r, rank);
        }
        break;
    case COLLECTIVE_BARRIER:
        *input = *output = 0;
        break;
    default:
        break;
    }
}

static void expect(const struct trial *trial, int rank, int ranks, char *expected)
{
    size_t size = weft_type_size(trial->type), count = trial->count;
    switch (trial->collective) {
    case COLLECTIVE_ALLREDUCE:
        expect_sum(trial, ranks, count, 0, count, expected);
        break;
    case COLLECTIVE_REDUCE:
        if (rank == trial->root)
            expect_sum(trial, ranks, count, 0, count, expected);
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        expect_sum(trial, ranks, count * (size_t)ranks, (size_t)rank * count, count, expected);
        break;
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_GATHER:
        for (int r = 0; r < ranks && (trial->collective == COLLECTIVE_ALLGATHER || rank == trial->root); r++)
            expect_piece(trial, r, 0, count, expected + (size_t)r * count * size);
        break;
    case COLLECTIVE_BROADCAST:
        expect_piece(trial, trial->root, 0, count, expected);
        break;
    case COLLECTIVE_SCATTER:
        expect_piece(trial, trial->root, (size_t)rank * count, count, expected);
        break;
    case COLLECTIVE_ALLTOALL:
        for (int r = 0; r < ranks; r++)
            expect_piece(trial, r, (size_t)rank * count, count, expected + (size_t)r * count * size);
        break;
    case COLLECTIVE_ALLGATHERV:
    case COLLECTIVE_GATHERV:
        for (int r = 0; r < ranks && (trial->collective == COLLECTIVE_ALLGATHERV || rank == trial->root); r++) {
            expect_piece(trial, r, 0, vector_count(trial, 0, r), expected);
            expected += vector_count(trial, 0, r) * size;
        }
        break;
    case COLLECTIVE_SCAN:
    case COLLECTIVE_EXSCAN:
        if (collective_summed(trial->collective, (uint32_t)rank, 0))
            expect_sum(trial, (int)collective_summed(trial->collective, (uint32_t)rank, 0), count, 0, count, expected);
        break;
    case COLLECTIVE_SCATTERV: {
        size_t first = 0;
        for (int r = 0; r < rank; r++)
            first += vector_count(trial, 0, r);
        expect_piece(trial, trial->root, first, vector_count(trial, 0, rank), expected);
        break;
    }
    case COLLECTIVE_ALLTOALLV:
        for (int r = 0; r < ranks; r++) {
            size_t first = 0;
            for (int q = 0; q < rank; q++)
                first += exchanged(trial, r, q);
            expect_piece(trial, r, first, exchanged(trial, r, rank), expected);
            expected += exchanged(trial, r, rank) * size;
        }
        break;
    default:
        break;
    }
}

/* ---- one trial ---- */

static weft_status call(const struct trial *trial, int rank, int ranks, const void *input, void *output,
                        weft_comm *comm)
{
    size_t counts[64], receives[64];
    for (int r = 0; r < ranks; r++) {
        counts[r] = trial->collective == COLLECTIVE_ALLTOALLV ? exchanged(trial, rank, r) : vector_count(trial, 0, r);
        receives[r] = exchanged(trial, r, rank);
    }
    size_t count = trial->count;
    switch (trial->collective) {
    case COLLECTIVE_ALLREDUCE:
        return weft_allreduce(input, output, count, trial->type, trial->op, comm);
    case COLLECTIVE_REDUCE_SCATTER:
        return weft_reduce_scatter(input, output, count, trial->type, trial->op, comm);
    case COLLECTIVE_ALLGATHER:
        return weft_allgather(input, output, count, trial->type, comm);
    case COLLECTIVE_BROADCAST:
        return weft_broadcast(output, count, trial->type, trial->root, comm);
    case COLLECTIVE_REDUCE:
        return weft_reduce(input, output, count, trial->type, trial->op, trial->root, comm);
    case COLLECTIVE_ALLTOALL:
        return weft_alltoall(input, output, count, trial->type, comm);
    case COLLECTIVE_GATHER:
        return weft_gather(input, output, count, trial->type, trial->root, comm);
    case COLLECTIVE_SCATTER:
        return weft_scatter(input, output, count, trial->type, trial->root, comm);
    case COLLECTIVE_ALLGATHERV:
        return weft_allgatherv(input, output, counts, NULL, trial->type, comm);
    case COLLECTIVE_GATHERV:
        return weft_gatherv(input, output, counts, NULL, trial->type, trial->root, comm);
    case COLLECTIVE_SCAN:
        return weft_scan(input, output, count, trial->type, trial->op, comm);
    case COLLECTIVE_EXSCAN:
        return weft_exscan(input, output, count, trial->type, trial->op, comm);
    case COLLECTIVE_SCATTERV:
        return weft_scatterv(input, counts, NULL, output, trial->type, trial->root, comm);
    case COLLECTIVE_ALLTOALLV:
        return weft_alltoallv(input, counts, NULL, output, receives, NULL, trial->type, comm);
    default:
        return weft_barrier(comm);
    }
}

/* Where the smaller buffer lies in the larger one when the call is in place; SIZE_MAX: it cannot be. */
static size_t place_within(const struct trial *trial, int rank, bool *input_is_larger)
{
    size_t before = 0;
    *input_is_larger = false;
    switch (trial->collective) {
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_SCAN:
    case COLLECTIVE_EXSCAN:
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_ALLTOALLV:
    case COLLECTIVE_BROADCAST:
        return 0;
    case COLLECTIVE_REDUCE:
        return rank == trial->root ? 0 : SIZE_MAX;
    case COLLECTIVE_REDUCE_SCATTER:
        *input_is_larger = true;
        return (size_t)rank * trial->count;
    case COLLECTIVE_SCATTER:
        *input_is_larger = true;
        return rank == trial->root ? (size_t)rank * trial->count : SIZE_MAX;
    case COLLECTIVE_ALLGATHER:
        return (size_t)rank * trial->count;
    case COLLECTIVE_GATHER:
        return rank == trial->root ? (size_t)rank * trial->count : SIZE_MAX;
    case COLLECTIVE_ALLGATHERV:
    case COLLECTIVE_GATHERV:
        for (int r = 0; r < rank; r++)
            before += vector_count(trial, 0, r);
        return trial->collective == COLLECTIVE_ALLGATHERV || rank == trial->root ? before : SIZE_MAX;
    case COLLECTIVE_SCATTERV:
        *input_is_larger = true;
        for (int r = 0; r < rank; r++)
            before += vector_count(trial, 0, r);
        return rank == trial->root ? before : SIZE_MAX;
    default:
        return SIZE_MAX;
    }
}

/* The two buffers of a rank: allocated once for all trials, in the heap or outside it. */
struct buffers {
    char *input[2], *output[2], *expected;
};

static int run_trial(const struct trial *trial, int rank, int ranks, struct buffers *buffers, weft_context *context)
{
    weft_comm *comm = weft_world(context);
    size_t size = weft_type_size(trial->type), input_count, output_count;
    bool ordinary = trial->placement == ORDINARY || (trial->placement == MIXED && (rank + trial->number) % 2);
    bool ordinary_output = trial->placement == MIXED ? (rank + trial->number / 2) % 2 : ordinary;
    char *input = buffers->input[ordinary], *output = buffers->output[ordinary_output];
    sizes_of(trial, rank, ranks, &input_count, &output_count);
    bool input_is_larger, in_place = trial->in_place || trial->collective == COLLECTIVE_BROADCAST;
    size_t place = place_within(trial, rank, &input_is_larger);
    memset(output, 0xee, output_count * size);
    if (in_place && place != SIZE_MAX && input_is_larger)
        output = input + place * size;
    else if (in_place && place != SIZE_MAX)
        input = output + place * size;
    make_input(trial, rank, input_count, input);
    weft_status status = call(trial, rank, ranks, input, output, comm);
    const char *name = collective_name(trial->collective);
    const char *algorithm = trial->algorithm ? trial->algorithm->name : "the default";
    if (status != WEFT_OK) {
        fprintf(stderr, "rank %d of %d: %s by %s, count %zu: %s\n", rank, ranks, name, algorithm, trial->count,
                weft_message(context));
        return 1;
    }
    expect(trial, rank, ranks, buffers->expected);
    for (size_t i = 0; i < output_count * size; i++)
        if (output[i] != buffers->expected[i]) {
            fprintf(
                stderr,
                "rank %d of %d: %s by %s of %zu %s (%s, root %d, placement %d%s): byte %zu of %zu is %02x, not %02x\n",
                rank, ranks, name, algorithm, trial->count, weft_type_name(trial->type), weft_op_name(trial->op.kind),
                trial->root, trial->placement, in_place ? ", in place" : "", i, output_count * size, (uint8_t)output[i],
                (uint8_t)buffers->expected[i]);
            return 1;
        }
    return 0;
}

/* ---- all of them ---- */

/* Bytes of a block that an algorithm serves; SIZE_MAX: any. */
static size_t most_bytes(const struct algorithm *algorithm, int ranks)
{
    if (algorithm && strcmp(algorithm->name, "exchange") == 0)
        return SCHEDULE_INLINE_BYTES / 2 / (size_t)ranks; /* a schedule is for a class of sizes, up to twice as large */
    if (algorithm && strstr(algorithm->name, "one-shot"))
        return 16384;
    return SIZE_MAX;
}

static struct trial draw(uint64_t number, enum collective collective, const struct algorithm *algorithm, int ranks,
                         size_t most)
{
    uint64_t choice = random_bits(4711, number);
    struct trial trial = {.number = number, .collective = collective, .algorithm = algorithm};
    trial.type = (weft_type)(choice % WEFT_TYPES);
    trial.op = WEFT_OP_LITERAL((weft_op_kind)(choice / 16 % WEFT_OP_KINDS), 1.0);
    if (trial.type <= WEFT_BF16 && trial.op.kind >= WEFT_OP_BITWISE_AND)
        trial.op = WEFT_MAX;
    if (trial.type > WEFT_BF16 && trial.op.kind == WEFT_OP_SCALED_SUM)
        trial.op = WEFT_SUM;
    if (trial.type == WEFT_BOOL && trial.op.kind < WEFT_OP_MIN) /* sums and products */
        trial.op = WEFT_LOGICAL_XOR;
    if (trial.op.kind == WEFT_OP_SCALED_SUM)
        trial.op.factor = 0.3;
    if (most > most_bytes(algorithm, ranks) / weft_type_size(trial.type))
        most = most_bytes(algorithm, ranks) / weft_type_size(trial.type);
    trial.count = choice / 1024 % 16 == 0 ? 0 : random_below(4712, number, most + 1);
    if (choice / 65536 % 4 == 0)
        trial.count &= ~(size_t)15;
    trial.root = (int)(choice / 1048576 % (uint64_t)ranks);
    trial.in_place = choice >> 33 & 1;
    if (collective_is_prefix(collective) && trial.op.kind == WEFT_OP_AVERAGE)
        trial.op = WEFT_SUM;
    trial.placement = (enum placement)((choice >> 36) % PLACEMENTS);
    return trial;
}

/* Sums in another order than the canonical one are right, too, but only with numbers that add exactly. */
static void make_exact(struct trial *trial)
{
    if (!collective_reduces(trial->collective))
        return;
    trial->type = WEFT_U32;
    if (trial->op.kind == WEFT_OP_SCALED_SUM)
        trial->op = WEFT_SUM;
}

static int body(weft_context *context, int rank, void *argument)
{
    const struct coverage *coverage = argument;
    weft_comm *comm = weft_world(context);
    int ranks = weft_comm_size(comm), failed = 0;
    size_t large = coverage->large ? 700000 : coverage->most;
    size_t bytes = (size_t)ranks * 2 * (large > coverage->most ? large : coverage->most) * 8 + 64;
    if (bytes > 64u << 20)
        bytes = 64u << 20;
    struct buffers buffers = {
        {weft_alloc(context, bytes), malloc(bytes)}, {weft_alloc(context, bytes), malloc(bytes)}, malloc(bytes)};
    uint64_t number = 1;
    for (int c = 0; c < COLLECTIVE_SENDRECEIVE && !failed; c++) {
        size_t count;
        const struct algorithm *algorithms = algorithms_of((enum collective)c, &count);
        const char *name = collective_name((enum collective)c);
        for (size_t a = 0; a <= count && !failed; a++) {
            const struct algorithm *algorithm = a < count ? &algorithms[a] : NULL;
            if (weft_comm_set_algorithm(comm, name, algorithm ? algorithm->name : NULL) != WEFT_OK)
                continue;
            if (coverage->leaves && algorithm && strstr(algorithm->name, "multi-level") &&
                strcmp(weft_comm_algorithm(comm, name, 16, WEFT_I32), algorithm->name) != 0) {
                fprintf(stderr, "rank %d: %s by %s does not serve\n", rank, name, algorithm->name);
                failed = 1;
                break;
            }
            struct schedule_key key = {.collective = (uint8_t)c};
            struct schedule_shape shape = schedule_shape_of(comm, &key);
            for (int t = 0; t < coverage->trials_each && !failed; t++) {
                bool tiny = most_bytes(algorithm, ranks) != SIZE_MAX;
                struct trial trial = draw(number++, (enum collective)c, algorithm, ranks, coverage->most);
                if (t < (int)PLACEMENTS)
                    trial.placement = (enum placement)t; /* few trials have them all, and one of a large size */
                if (coverage->large && t % 8 == 3 && !tiny) {
                    trial.count = large / weft_type_size(trial.type) + 13;
                    if (c != COLLECTIVE_ALLREDUCE && c != COLLECTIVE_BROADCAST && c != COLLECTIVE_REDUCE)
                        trial.count = trial.count * 2 / (size_t)ranks;
                }
                bool reproducible = coverage->uneven && trial.number % 2 && !algorithm;
                weft_comm_set_reproducible(comm, reproducible);
                if ((algorithm && !algorithm->canonical(&shape)) || (coverage->uneven && !algorithm && !reproducible))
                    make_exact(&trial);
                failed = run_trial(&trial, rank, ranks, &buffers, context);
            }
        }
    }
    struct transport_counters counters[CONTEXT_TRANSPORTS];
    context_counters(context, counters);
    if (!failed && weft_comm_nodes(comm) > 1 && counters[CONTEXT_FABRIC].bytes_sent < coverage->most) {
        fprintf(stderr, "rank %d: these nodes should have talked over the fabric\n", rank);
        failed = 1;
    }
    if (failed)
        weft_abort(context, "a result was wrong");
    for (int i = 0; i < 2; i++) {
        char *pair[2] = {buffers.input[i], buffers.output[i]};
        for (int k = 0; k < 2; k++)
            i ? free(pair[k]) : weft_free(context, pair[k]);
    }
    free(buffers.expected);
    return failed;
}

static void check_world(struct world world, struct coverage coverage)
{
#if defined(__SANITIZE_THREAD__)
    if (world.ranks > 5 && !coverage.leaves)
        return; /* too slow there */
    coverage.trials_each = PLACEMENTS + 1;
#endif
    assert_int_equal(world_run(&world, body, &coverage), 0);
}

static void test_one_to_four_ranks_on_one_node(void **state)
{
    for (int ranks = 1; ranks <= 4; ranks++)
        check_world((struct world){.ranks = ranks}, (struct coverage){24, 3000, .large = true});
}

static void test_five_to_eight_ranks_on_one_node(void **state)
{
    for (int ranks = 5; ranks <= 8; ranks++)
        check_world((struct world){.ranks = ranks}, (struct coverage){8, 1500, .large = true});
}

static void test_processes(void **state)
{
    check_world((struct world){.ranks = 3, .processes = true}, (struct coverage){16, 2000, .large = true});
}

static void test_two_nodes_of_two(void **state)
{
    check_world((struct world){.ranks = 4, .ranks_per_node = 2}, (struct coverage){8, 2000, .large = true});
}

static void test_every_rank_a_node(void **state)
{
    check_world((struct world){.ranks = 3, .ranks_per_node = 1}, (struct coverage){8, 2000, .large = true});
}

static void test_uneven_nodes(void **state)
{
    static const int nodes[] = {0, 1, 0, 0, 1};
    check_world((struct world){.ranks = 5, .node_of = nodes}, (struct coverage){6, 1000, .uneven = true});
}

/* What there is of levels, in the fewest ranks: leaves of two nodes; and two of these in a pod, of two ranks a node.
 * The algorithms that use leaves serve then, and are looked for. */
static const char leaves_file[] = "{\"weft_cluster\": 1, \"name\": \"leaves\", \"levels\": ["
                                  "{\"name\": \"node\", \"size\": %d, \"latency\": 1e-7, \"overhead\": 1e-7, "
                                  "\"bytes_per_second\": 1e10},"
                                  "{\"name\": \"leaf\", \"size\": %d, \"latency\": 1e-5, \"overhead\": 1e-6, "
                                  "\"bytes_per_second\": 1e9},"
                                  "{\"name\": \"core\", \"size\": %d, \"latency\": 2e-5, \"overhead\": 1e-6, "
                                  "\"bytes_per_second\": 1e8}]}";

static void test_leaves_of_nodes(void **state)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/weft-results-%d", getpid());
    for (int local = 1; local <= 2; local++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, leaves_file, local, 2 * local, 4 * local);
        assert_int_equal(fclose(file), 0);
        check_world((struct world){.ranks = 4 * local, .ranks_per_node = local, .topology = path},
                    (struct coverage){4, 1500, .large = true, .leaves = true});
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_to_four_ranks_on_one_node),
        cmocka_unit_test(test_five_to_eight_ranks_on_one_node),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_two_nodes_of_two),
        cmocka_unit_test(test_every_rank_a_node),
        cmocka_unit_test(test_uneven_nodes),
        cmocka_unit_test(test_leaves_of_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
