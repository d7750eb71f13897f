/* SPDX-License-Identifier: Apache-2.0 */
/* The table of algorithms, the shapes that each refuses, and schedule_generate(). */
#include "core/schedule/generators/generate.h"

#include "base/text.h"
#include "core/schedule/generators/internal/generators.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- refusals ---- */

static bool on_one_node(const struct schedule_shape *shape)
{
    for (uint32_t rank = 1; shape->nodes && rank < shape->ranks; rank++)
        if (shape->nodes[rank] != shape->nodes[0])
            return false;
    return true;
}

static const char *refuses_nothing(const struct schedule_shape *shape)
{
    return NULL;
}

static const char *refuses_far(const struct schedule_shape *shape)
{
    return on_one_node(shape) ? NULL : "it needs all ranks on one node";
}

_Static_assert(SCHEDULE_INLINE_BYTES == 4096, "the messages here quote these limits");

static const char *refuses_long(const struct schedule_shape *shape)
{
    uint64_t blocks = collective_widest_input(shape->collective, shape->ranks);
    if (blocks > SCHEDULE_INLINE_BYTES || shape->block_bytes > SCHEDULE_INLINE_BYTES / blocks)
        return "a rank's input must fit beside its flag: 4096 bytes in all, each block rounded up to a power of two";
    return refuses_far(shape);
}

static const char *refuses_odd(const struct schedule_shape *shape)
{
    return shape->ranks & (shape->ranks - 1) ? "the number of ranks must be a power of two" : NULL;
}

static const char *refuses_more_than_tiny(const struct schedule_shape *shape)
{
    return shape->block_bytes > ONE_SHOT_BYTES
               ? "every rank sends its input to all others: messages of up to 16 KiB only"
               : NULL;
}

/* Steps count chunks in 16 bits. */
static const char *refuses_many(const struct schedule_shape *shape)
{
    return shape->ranks > 16384 ? "its schedules have a step for every rank, and there are more than 16384" : NULL;
}

static const char *refuses_pairs_or_long(const struct schedule_shape *shape)
{
    const char *reason = refuses_many(shape);
    if (shape->ranks == 2)
        return "two ranks need only one round of recursive doubling";
    return reason ? reason : refuses_more_than_tiny(shape);
}

static const char *refuses_many_or_far(const struct schedule_shape *shape)
{
    const char *reason = refuses_many(shape);
    return reason ? reason : refuses_far(shape);
}

static bool canonical_always(const struct schedule_shape *shape)
{
    return true;
}

static bool canonical_never(const struct schedule_shape *shape)
{
    return false;
}

/*
 * Whether the ranks of each unit of a level are consecutive and their number is one power of two (the last unit may
 * have fewer): then units are subtrees of the canonical tree. A single unit is the whole tree.
 */
static bool level_is_aligned(const struct schedule_shape *shape, uint32_t level)
{
    uint32_t first = 0, units = shape_units(shape, level);
    while (first < shape->ranks && shape_unit(shape, level, first) == shape_unit(shape, level, 0))
        first++;
    if (units > 1 && (first & (first - 1)))
        return false;
    for (uint32_t rank = 0; units > 1 && rank < shape->ranks; rank++)
        if (shape_unit(shape, level, rank) != rank / first)
            return false;
    return true;
}

static bool canonical_if_aligned(const struct schedule_shape *shape)
{
    return !shape->nodes || level_is_aligned(shape, 0);
}

static bool canonical_if_all_aligned(const struct schedule_shape *shape)
{
    for (uint32_t level = 0; level < shape_levels(shape); level++)
        if (!level_is_aligned(shape, level))
            return false;
    return true;
}

/* The fewest and the most ranks that a unit of a level has; false when memory ran out. */
static bool unit_sizes(const struct schedule_shape *shape, uint32_t level, uint32_t *fewest, uint32_t *most)
{
    uint32_t *sizes = calloc(shape->ranks, sizeof *sizes);
    if (!sizes)
        return false;
    for (uint32_t rank = 0; rank < shape->ranks; rank++)
        sizes[shape_unit(shape, level, rank)]++;
    *fewest = shape->ranks;
    *most = 0;
    for (uint32_t unit = 0; unit < shape->ranks && sizes[unit]; unit++) {
        *fewest = sizes[unit] < *fewest ? sizes[unit] : *fewest;
        *most = sizes[unit] > *most ? sizes[unit] : *most;
    }
    free(sizes);
    return true;
}

static const char *refuses_one_level(const struct schedule_shape *shape)
{
    uint32_t fewest, most;
    if (on_one_node(shape))
        return "all ranks are on one node";
    if (!unit_sizes(shape, 0, &fewest, &most))
        return "there is no memory to examine the nodes";
    return most == 1 ? "every node has one rank only" : refuses_many(shape);
}

static const char *refuses_one_level_or_long(const struct schedule_shape *shape)
{
    const char *reason = refuses_one_level(shape);
    return reason ? reason : refuses_more_than_tiny(shape);
}

static const char *refuses_uneven(const struct schedule_shape *shape)
{
    uint32_t fewest, most;
    const char *reason = refuses_one_level(shape);
    if (reason)
        return reason;
    if (!unit_sizes(shape, 0, &fewest, &most))
        return "there is no memory to examine the nodes";
    return fewest == most ? NULL : "all nodes must have equally many ranks";
}

static const char *refuses_two_levels(const struct schedule_shape *shape)
{
    uint32_t below = shape->nodes ? shape_units(shape, 0) : 1;
    if (shape_levels(shape) < 2)
        return "the leaves above the nodes are unknown";
    if (shape_units(shape, 1) == 1)
        return "all nodes are under one leaf";
    for (uint32_t level = 1; level < shape_levels(shape); level++) {
        uint32_t units = shape_units(shape, level);
        if (units > 1 && units < below)
            return refuses_many(shape);
        below = units;
    }
    return "every leaf has one node only";
}

static const char *refuses_uneven_levels(const struct schedule_shape *shape)
{
    uint32_t fewest, most;
    const char *reason = refuses_two_levels(shape);
    if (reason)
        return reason;
    if (!unit_sizes(shape, 0, &fewest, &most))
        return "there is no memory to examine the nodes";
    return fewest == most && hierarchy_is_even(shape) ? NULL : "all nodes and all leaves must be of one size";
}

/* ---- the table ---- */

#define EXCHANGE                                                                                                       \
    {                                                                                                                  \
        "exchange", "beside the flags of local ranks, in one step; inputs of up to 4096 bytes", canonical_always,      \
            refuses_long, write_exchange                                                                               \
    }
#define DIRECT(write)                                                                                                  \
    {                                                                                                                  \
        "direct", "local ranks read and write one another's buffers in place", canonical_always, refuses_many_or_far,  \
            write                                                                                                      \
    }

static const struct algorithm allreduce[] = {
    EXCHANGE,
    DIRECT(write_direct_allreduce),
    {"recursive-doubling", "the whole value to a peer twice as far away each round; few messages", canonical_always,
     refuses_nothing, write_recursive_doubling},
    {"one-shot", "every input straight to all ranks, and each sums them; one round, for tiny messages",
     canonical_always, refuses_pairs_or_long, write_one_shot},
    {"halving-doubling", "halves to peers farther away each round, and back; few messages, few bytes; powers of two",
     canonical_always, refuses_odd, write_halving_doubling},
    {"pairwise-tree", "pieces straight to their owners, which sum and distribute them; fewest bytes", canonical_always,
     refuses_many, write_pairwise_allreduce},
    {"binomial", "up the canonical tree to rank 0, and down again", canonical_always, refuses_nothing,
     write_binomial_allreduce},
    {"ring", "pieces go around a ring; fewest bytes per link; sums in ring order", canonical_never, refuses_many,
     write_ring_allreduce},
    {"double-tree", "two binary trees, half of the data on each; sums in tree order", canonical_never, refuses_nothing,
     write_double_tree_allreduce},
    {"two-level", "through memory inside nodes, pieces to their owners between them; fewest bytes",
     canonical_if_aligned, refuses_one_level, write_two_level_allreduce},
    {"two-level-doubling", "through memory inside nodes, recursive doubling between them; few messages",
     canonical_if_aligned, refuses_one_level, write_two_level_allreduce_doubling},
    {"two-level-one-shot", "through memory to one leader per node, every node's sum straight to all leaders; one round",
     canonical_if_aligned, refuses_one_level_or_long, write_two_level_allreduce_one_shot},
    {"two-level-leaders", "through memory to one leader per node, pieces to their owners among leaders; fewest bytes",
     canonical_if_aligned, refuses_one_level, write_two_level_allreduce_leaders},
    {"two-level-leaders-doubling", "through memory to one leader per node, recursive doubling among leaders",
     canonical_if_aligned, refuses_one_level, write_two_level_allreduce_leaders_doubling},
    {"two-level-ring", "through memory inside nodes, a ring between them; sums in ring order", canonical_never,
     refuses_one_level, write_two_level_allreduce_ring},
    {"multi-level", "pieces to their owners level by level, leaves and pods too; fewest bytes on every level",
     canonical_if_all_aligned, refuses_two_levels, write_multi_level_allreduce},
};

static const struct algorithm reduce_scatter[] = {
    EXCHANGE,
    DIRECT(write_direct_reduce_scatter),
    {"pairwise", "blocks straight to their owners, which sum them", canonical_always, refuses_many,
     write_pairwise_reduce_scatter},
    {"ring", "blocks go around a ring; sums in ring order", canonical_never, refuses_many, write_ring_reduce_scatter},
    {"two-level", "through memory inside nodes, blocks to their owners between them; fewest bytes",
     canonical_if_aligned, refuses_uneven, write_two_level_reduce_scatter},
    {"multi-level", "blocks to their owners level by level, leaves and pods too; fewest bytes on every level",
     canonical_if_all_aligned, refuses_uneven_levels, write_multi_level_reduce_scatter},
};

static const struct algorithm allgather[] = {
    EXCHANGE,
    DIRECT(write_direct_allgather),
    {"bruck", "all blocks so far to peers farther away each round; few messages", canonical_always, refuses_many,
     write_bruck},
    {"ring", "blocks go around a ring", canonical_always, refuses_many, write_ring_allgather},
    {"pairwise", "every rank's block straight to all others", canonical_always, refuses_many, write_pairwise_allgather},
    {"two-level", "around a ring between nodes, through memory inside them; fewest bytes", canonical_always,
     refuses_uneven, write_two_level_allgather},
    {"multi-level", "across pods and leaves first, then forwarded level by level; fewest bytes on every level",
     canonical_always, refuses_uneven_levels, write_multi_level_allgather},
};

static const struct algorithm broadcast[] = {
    EXCHANGE,
    DIRECT(write_direct_broadcast),
    {"binomial", "every rank that has the data sends it on; twice as many each round", canonical_always,
     refuses_nothing, write_binomial_broadcast},
    {"chain", "a chain: each rank forwards to the next, segment by segment; for long messages", canonical_always,
     refuses_nothing, write_chain_broadcast},
    {"double-tree", "two binary trees, half of the data on each", canonical_always, refuses_nothing,
     write_double_tree_broadcast},
    {"two-level", "a binomial tree of one leader per node, through memory inside nodes", canonical_always,
     refuses_one_level, write_two_level_broadcast},
    {"two-level-chain", "a chain of one leader per node, through memory inside nodes; for long messages",
     canonical_always, refuses_one_level, write_two_level_broadcast_chain},
    {"multi-level", "binomial trees of one head per pod, leaf and node; once into each of them", canonical_always,
     refuses_two_levels, write_multi_level_broadcast},
    {"multi-level-chain", "chains of one head per pod, leaf and node; for long messages", canonical_always,
     refuses_two_levels, write_multi_level_broadcast_chain},
};

static const struct algorithm reduce[] = {
    EXCHANGE,
    DIRECT(write_direct_reduce),
    {"binomial", "up the canonical tree", canonical_always, refuses_nothing, write_binomial_reduce},
    {"pairwise-tree", "pieces straight to their owners, which sum them, then to the root", canonical_always,
     refuses_many, write_pairwise_reduce},
    {"two-level", "through memory inside nodes, up the canonical tree between them", canonical_if_aligned,
     refuses_one_level, write_two_level_reduce},
    {"multi-level", "up the canonical tree inside leaves, then between them, then between pods",
     canonical_if_all_aligned, refuses_two_levels, write_multi_level_reduce},
};

static const struct algorithm scan[] = {
    EXCHANGE,
    DIRECT(write_direct_scan),
    {"recursive-doubling", "sums of twice as many ranks to a peer twice as far away each round; few messages",
     canonical_always, refuses_nothing, write_doubling_scan},
};

static const struct algorithm alltoall[] = {
    EXCHANGE,
    DIRECT(write_direct_alltoall),
    {"pairwise", "exchange with the rank one farther away each round", canonical_always, refuses_many,
     write_pairwise_alltoall},
};

static const struct algorithm gather[] = {
    EXCHANGE,
    DIRECT(write_direct_gather),
    {"linear", "every rank straight to the root", canonical_always, refuses_many, write_linear_gather},
};

static const struct algorithm scatter[] = {
    EXCHANGE,
    DIRECT(write_direct_scatter),
    {"linear", "the root straight to every rank", canonical_always, refuses_many, write_linear_scatter},
};

static const struct algorithm allgatherv[] = {
    DIRECT(write_direct_allgather),
    {"ring", "blocks go around a ring", canonical_always, refuses_many, write_ring_allgather},
    {"pairwise", "every rank's block straight to all others", canonical_always, refuses_many, write_pairwise_allgather},
    {"two-level", "around a ring between nodes, through memory inside them; fewest bytes", canonical_always,
     refuses_uneven, write_two_level_allgather},
    {"multi-level", "across pods and leaves first, then forwarded level by level; fewest bytes on every level",
     canonical_always, refuses_uneven_levels, write_multi_level_allgather},
};

static const struct algorithm gatherv[] = {
    {"linear", "every rank straight to the root", canonical_always, refuses_many, write_linear_gather},
};

static const struct algorithm scatterv[] = {
    {"linear", "the root straight to every rank", canonical_always, refuses_many, write_linear_scatter},
};

static const struct algorithm alltoallv[] = {
    {"pairwise", "exchange with the rank one farther away each round", canonical_always, refuses_many,
     write_pairwise_alltoall},
};

static const struct algorithm barrier[] = {
    EXCHANGE,
    DIRECT(write_direct_barrier),
    {"dissemination", "empty messages to peers farther away each round", canonical_always, refuses_nothing,
     write_dissemination},
    {"two-level", "signals inside nodes, empty messages between leaders farther away each round", canonical_always,
     refuses_one_level, write_two_level_barrier},
};

static const struct algorithm sendreceive[] = {
    {"message", "one message", canonical_always, refuses_nothing, write_message},
};

#define LIST(algorithms)                                                                                               \
    {                                                                                                                  \
        algorithms, sizeof(algorithms) / sizeof *(algorithms)                                                          \
    }
static const struct {
    const struct algorithm *algorithms;
    size_t count;
} table[COLLECTIVES] = {
    [COLLECTIVE_ALLREDUCE] = LIST(allreduce),
    [COLLECTIVE_REDUCE_SCATTER] = LIST(reduce_scatter),
    [COLLECTIVE_ALLGATHER] = LIST(allgather),
    [COLLECTIVE_BROADCAST] = LIST(broadcast),
    [COLLECTIVE_REDUCE] = LIST(reduce),
    [COLLECTIVE_ALLTOALL] = LIST(alltoall),
    [COLLECTIVE_GATHER] = LIST(gather),
    [COLLECTIVE_SCATTER] = LIST(scatter),
    [COLLECTIVE_ALLGATHERV] = LIST(allgatherv),
    [COLLECTIVE_GATHERV] = LIST(gatherv),
    [COLLECTIVE_ALLTOALLV] = LIST(alltoallv),
    [COLLECTIVE_BARRIER] = LIST(barrier),
    [COLLECTIVE_SENDRECEIVE] = LIST(sendreceive),
    [COLLECTIVE_SCATTERV] = LIST(scatterv),
    [COLLECTIVE_SCAN] = LIST(scan),
    [COLLECTIVE_EXSCAN] = LIST(scan),
};

const struct algorithm *algorithms_of(enum collective collective, size_t *count)
{
    *count = table[collective].count;
    return table[collective].algorithms;
}

const struct algorithm *algorithm_find(enum collective collective, const char *name, struct error *error)
{
    size_t count;
    const struct algorithm *algorithms = algorithms_of(collective, &count);
    const char *names[32];
    char list[512] = "";
    for (size_t i = 0; i < count; i++) {
        if (strcmp(algorithms[i].name, name) == 0)
            return &algorithms[i];
        names[i] = algorithms[i].name;
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    const char *nearest = text_nearest(name, names, count);
    error_set(error, WEFT_ERROR_ARGUMENT, "%s has no algorithm '%s'; it has %s%s%s%s", collective_name(collective),
              name, list, nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "");
    return NULL;
}

/* ---- from shape to schedule ---- */

const char *algorithm_refuses(const struct algorithm *algorithm, const struct schedule_shape *shape)
{
    if (shape->ranks == 1)
        return NULL;
    const char *reason = algorithm->refuses(shape);
    if (!reason && shape->reproducible && !algorithm->canonical(shape))
        reason = "the communicator is marked reproducible, and it does not keep the canonical order of sums";
    return reason;
}

const char *algorithm_only_on_request(const struct algorithm *algorithm, const struct schedule_shape *shape)
{
    if (shape->ranks == 1 || algorithm->canonical(shape))
        return NULL;
    bool uneven = false, levels = algorithm->canonical == canonical_if_all_aligned;
    for (uint32_t level = 0; level < (levels ? shape_levels(shape) : shape->nodes != NULL); level++) {
        uint32_t fewest = 1, most = 1;
        bool several = unit_sizes(shape, level, &fewest, &most) && most < shape->ranks;
        uneven |= several && (fewest != most || (most & (most - 1)));
    }
    return uneven && (levels || algorithm->canonical == canonical_if_aligned)
               ? NULL
               : "its sums are not in the canonical order; it runs only if named";
}

/* One rank: its input is the only contribution. */
static void write_alone(struct builder *builder)
{
    struct stage stage = stage_whole(builder);
    stage.finishes = collective_reduces(builder->schedule->collective);
    stage.receive_lane = 0;
    bool in_place = builder->schedule->collective == COLLECTIVE_BROADCAST ||
                    (builder->schedule->collective == COLLECTIVE_ALLTOALL && builder->shape->in_place);
    if (builder->schedule->input_blocks && builder->schedule->output_blocks && !in_place)
        stage_alone(&stage, 1);
}

weft_status generator_open(struct schedule_generator *generator, const struct algorithm *algorithm,
                           const struct schedule_shape *shape, struct error *error)
{
    if (shape->root >= shape->ranks || shape->peer >= shape->ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT, "no schedule for root %u, peer %u of %u ranks", shape->root,
                         shape->peer, shape->ranks);
    if (shape->collective == COLLECTIVE_SENDRECEIVE && shape->root == shape->peer)
        return error_set(error, WEFT_ERROR_ARGUMENT, "rank %u cannot send a message to itself; copy the memory instead",
                         shape->root);
    const char *reason = algorithm_refuses(algorithm, shape);
    if (reason)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s cannot do this %s: %s", algorithm->name,
                         collective_name(shape->collective), reason);
    *generator = (struct schedule_generator){algorithm, shape, algorithm->canonical(shape)};
    return WEFT_OK;
}

weft_status generator_write(const struct schedule_generator *generator, uint32_t rank, struct schedule **schedule,
                            struct error *error)
{
    const struct schedule_shape *shape = generator->shape;
    if (rank >= shape->ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT, "no schedule for rank %u of %u ranks", rank, shape->ranks);
    struct builder builder;
    weft_status status = builder_open(&builder, shape, rank, generator->algorithm->name, error);
    if (status != WEFT_OK)
        return status;
    builder.schedule->canonical = generator->canonical;
    if (shape->ranks == 1)
        write_alone(&builder);
    else
        generator->algorithm->write(&builder);
    return builder_close(&builder, schedule, error);
}

weft_status schedule_generate(const struct algorithm *algorithm, const struct schedule_shape *shape, uint32_t rank,
                              struct schedule **schedule, struct error *error)
{
    struct schedule_generator generator;
    weft_status status = generator_open(&generator, algorithm, shape, error);
    return status == WEFT_OK ? generator_write(&generator, rank, schedule, error) : status;
}

/* ---- memory ---- */

static uint64_t scratch_of_segments(uint32_t chunks, uint32_t slots, uint64_t segment_bytes, uint64_t block_bytes)
{
    return block_bytes > segment_bytes ? chunks * slots * schedule_width(segment_bytes, 1)
                                       : chunks * schedule_width(block_bytes, 1);
}

uint64_t reduce_scatter_scratch(uint32_t ranks, uint32_t nodes, uint64_t block_bytes)
{
    const uint32_t each = nodes ? ranks / nodes : 0;
    if (nodes <= 1)
        return 0;
    if (each > 1 && ranks % nodes == 0 && (each & (each - 1)) == 0)
        return scratch_of_segments(2 * nodes, SCHEDULE_SLOTS, segment_of_many(ranks, 16 * MESSAGE_SEGMENT),
                                   block_bytes);
    return scratch_of_segments(ranks, 1, MESSAGE_SEGMENT, block_bytes);
}
