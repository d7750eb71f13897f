/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prices among more ranks than can be simulated while a caller waits. The same shape with fewer nodes under each leaf
 * (then fewer leaves, then fewer ranks on each node) is simulated in three sizes, each twice the one before, and the
 * growth is extrapolated. With every doubling, algorithms made of rounds grow by the same amount, those with a message
 * for every rank by twice the previous amount, and those that fill links by half of it: the ratio of the two increases
 * shows which. If nodes lost ranks, the smallest size is simulated once more with all of them, and the extra time is
 * added. Where all nodes are alike, or nearly, none of this is needed: one
 * node is simulated for all.
 */
#include "core/schedule/simulate/internal/scale.h"

#include "core/schedule/simulate/internal/simulation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIZES        3
#define VARIED_LEAST 8 /* of the varied count, at the largest size: 2, 4 and 8 are simulated */

/* The counts of a shape: ranks per node, nodes per leaf, leaves per pod. */
enum { RANKS, NODES, LEAVES, COUNTS };

/* The largest count at each level, and how many of it stay. */
struct thinning {
    uint32_t all[COUNTS], keep[COUNTS];
};

/* Maps of a thinned shape, in one piece of memory. */
struct thinned {
    struct schedule_shape shape;
    struct simulated_cluster cluster;
    uint32_t *memory;
};

/* The largest number of units below that a unit of a level has; level 0: ranks of a node. */
static uint32_t largest(const struct schedule_shape *shape, uint32_t level)
{
    uint32_t below = level ? shape_units(shape, level - 1) : shape->ranks, most = 0;
    uint32_t *sizes = calloc(below, sizeof *sizes);
    for (uint32_t i = 0; sizes && i < below; i++) {
        uint32_t unit = level == 0                    ? shape_node(shape, i)
                        : level < shape_levels(shape) ? shape->above[level - 1][i]
                                                      : 0;
        if (++sizes[unit] > most)
            most = sizes[unit];
    }
    free(sizes);
    return most;
}

/*
 * Reduce the shape so that the largest size has at most `most` ranks: one count, *varied, stays large enough to be
 * halved twice more; the others shrink if they must. Ranks per node shrink first, because the cost is between nodes.
 * Powers of two stay powers of two, because other counts cost extra rounds.
 */
static struct thinning choose_thinning(const struct schedule_shape *shape, uint32_t most, uint32_t *varied)
{
    uint32_t levels = shape_levels(shape), pods = levels > 2 ? shape_units(shape, 2) : 1;
    struct thinning thinning = {
        .all = {largest(shape, 0), levels ? largest(shape, 1) : 1, levels > 1 ? largest(shape, 2) : 1}};
    memcpy(thinning.keep, thinning.all, sizeof thinning.keep);
    uint32_t *keep = thinning.keep;
    *varied = keep[NODES] >= VARIED_LEAST ? NODES : keep[LEAVES] >= VARIED_LEAST ? LEAVES : RANKS;
    uint32_t other = *varied == NODES ? LEAVES : NODES;
    keep[*varied] = 1u << (31 - __builtin_clz(keep[*varied]));
    if (!(shape->ranks & (shape->ranks - 1))) /* their sum is one, though leaves are uneven: so is the smaller shape */
        keep[other] = 1u << (31 - __builtin_clz(keep[other]));
    while ((uint64_t)pods * keep[RANKS] * keep[NODES] * keep[LEAVES] > most) {
        uint32_t which = keep[*varied] > VARIED_LEAST          ? *varied
                         : keep[RANKS] > 1 && *varied != RANKS ? RANKS
                         : keep[other] > 2                     ? other
                                                               : *varied;
        if (keep[which] == 1)
            break;
        keep[which] = (keep[which] + 1) / 2;
    }
    return thinning;
}

/* Which of `count` units stay when each group (NULL: there is one group) keeps its first ones: their new numbers, or
 * "none".
 */
static void keep_first(const uint32_t *group_of, uint32_t count, uint32_t keep, uint32_t *used, uint32_t *number)
{
    uint32_t next = 0;
    memset(used, 0, count * sizeof *used);
    for (uint32_t i = 0; i < count; i++)
        number[i] = used[group_of ? group_of[i] : 0]++ < keep ? next++ : UINT32_MAX;
}

/* The shape reduced by `thinning`, and a cluster whose uplinks shrink in proportion to the units below them. */
static bool thin(const struct schedule_shape *shape, const struct simulated_cluster *cluster, struct thinning thinning,
                 struct thinned *thinned)
{
    uint32_t n = shape->ranks, levels = shape_levels(shape);
    *thinned =
        (struct thinned){.shape = *shape, .cluster = *cluster, .memory = calloc((size_t)7 * n, sizeof(uint32_t))};
    if (!thinned->memory)
        return false;
    uint32_t *leaf_number = thinned->memory, *node_number = leaf_number + n, *rank_number = node_number + n;
    uint32_t *used = rank_number + n, *nodes = used + n, *leaves = nodes + n, *pods = leaves + n;
    uint32_t node_count = shape_units(shape, 0), leaf_count = levels > 1 ? shape_units(shape, 1) : 1;
    keep_first(levels > 2 ? shape->above[1] : NULL, leaf_count, thinning.keep[LEAVES], used, leaf_number);
    keep_first(levels > 1 ? shape->above[0] : NULL, node_count, thinning.keep[NODES], used, node_number);
    keep_first(shape->nodes, n, thinning.keep[RANKS], used, rank_number);
    uint32_t kept_nodes = 0, kept_ranks = 0;
    for (uint32_t node = 0; node < node_count; node++) {
        uint32_t leaf = levels > 1 ? shape->above[0][node] : 0;
        bool stays = node_number[node] != UINT32_MAX && leaf_number[leaf] != UINT32_MAX;
        node_number[node] = stays ? kept_nodes : UINT32_MAX;
        if (stays)
            leaves[kept_nodes++] = leaf_number[leaf];
    }
    for (uint32_t leaf = 0; leaf < leaf_count; leaf++)
        if (leaf_number[leaf] != UINT32_MAX && levels > 2)
            pods[leaf_number[leaf]] = shape->above[1][leaf];
    for (uint32_t rank = 0; rank < n; rank++) {
        uint32_t node = node_number[shape_node(shape, rank)];
        if (rank_number[rank] != UINT32_MAX && node != UINT32_MAX)
            nodes[kept_ranks++] = node;
    }
    thinned->shape.ranks = kept_ranks;
    thinned->shape.nodes = shape->nodes ? nodes : NULL;
    thinned->shape.above[0] = levels > 1 ? leaves : NULL;
    thinned->shape.above[1] = levels > 2 ? pods : NULL;
    thinned->shape.root = thinned->shape.peer = 0;
    if (shape->collective == COLLECTIVE_SENDRECEIVE)
        thinned->shape.peer = kept_ranks - 1;
    if (cluster->interfaces > 1) /* the node keeps its bandwidth, for fewer ranks */
        thinned->cluster.interfaces =
            (cluster->interfaces * thinning.keep[RANKS] + thinning.all[RANKS] - 1) / thinning.all[RANKS];
    double nodes_kept = (double)thinning.keep[NODES] / thinning.all[NODES];
    thinned->cluster.above[0].bandwidth *= nodes_kept;
    thinned->cluster.above[1].bandwidth *= nodes_kept * thinning.keep[LEAVES] / thinning.all[LEAVES];
    return true;
}

/* The price after `doublings` more, from prices of three sizes. */
static double extrapolate(const double seconds[SIZES], double doublings)
{
    double first = seconds[1] - seconds[0], step = seconds[2] - seconds[1], price = seconds[2];
    double ratio = first > 0 && step > 0 ? step / first : 1;
    ratio = ratio < 0.25 ? 0.25 : ratio > 2.2 ? 2.2 : ratio;
    if (step < 0)
        step = 0;
    for (; doublings > 0; doublings -= 1) {
        step *= ratio;
        price += step * (doublings < 1 ? doublings : 1);
    }
    return price;
}

static weft_status scale_count_rank(const struct schedule_generator *generator, uint32_t rank,
                                    struct scale_traffic *traffic, struct error *error)
{
    const struct schedule_shape *shape = generator->shape;
    struct schedule *schedule;
    weft_status status = generator_write(generator, rank, &schedule, error);
    if (status != WEFT_OK)
        return status;
    double messages = 0, sent = 0, moved = 0, chunk = (double)shape->block_bytes / schedule->parts;
    for (uint32_t i = 0; i < schedule->step_count; i++) {
        const struct step *step = &schedule->steps[i];
        if (step->kind > STEP_RECEIVE_REDUCE)
            continue;
        double bytes = step->kind == STEP_SEND ? step->chunks * chunk : 0;
        uint32_t from = shape_node(shape, rank), to = shape_node(shape, step->peer);
        sent += bytes;
        if (from == to)
            continue;
        messages++;
        if (step->kind != STEP_SEND)
            continue;
        moved += (double)simulation_step_bytes(schedule, step, shape->block_bytes, 0);
        for (uint32_t level = 0; from != to && level <= SHAPE_LEVELS; level++) {
            traffic->bytes[level] += bytes;
            if (level == SHAPE_LEVELS || !shape->above[level])
                break;
            from = shape->above[level][from];
            to = shape->above[level][to];
        }
    }
    double iterations = (double)schedule_iterations(schedule, shape->block_bytes);
    double whole = fmin(fmax(iterations - 1, 1), ITERATIONS_MOST); /* the last may have fewer bytes */
    traffic->messages = fmax(traffic->messages, messages * iterations);
    traffic->rank_bytes = fmax(traffic->rank_bytes, sent);
    traffic->simulated_messages = fmax(traffic->simulated_messages, messages * fmin(iterations, ITERATIONS_MOST));
    traffic->simulated_bytes += moved * whole;
    schedule_free(schedule);
    return WEFT_OK;
}

/* Of all ranks in the first unit of a level. */
static weft_status scale_count_unit(const struct algorithm *algorithm, const struct schedule_shape *shape,
                                    uint32_t level, struct scale_traffic *traffic, struct error *error)
{
    struct schedule_generator generator;
    weft_status status = generator_open(&generator, algorithm, shape, error);
    *traffic = (struct scale_traffic){0};
    for (uint32_t rank = 0; status == WEFT_OK && shape->nodes && rank < shape->ranks; rank++)
        if (shape_unit(shape, level, rank) == shape_unit(shape, level, 0))
            status = scale_count_rank(&generator, rank, traffic, error);
    return status;
}

weft_status scale_count(const struct algorithm *algorithm, const struct schedule_shape *shape,
                        struct scale_traffic *traffic, struct error *error)
{
    return scale_count_unit(algorithm, shape, 0, traffic, error);
}

double scale_bound(const struct scale_traffic *traffic, const struct simulated_cluster *cluster)
{
    return fmax(traffic->messages * cluster->far.overhead, traffic->bytes[0] / cluster->far.bandwidth);
}

/* Rounding errors of a simulation are smaller. */
#define ROUNDING (1 - 1e-6)

/*
 * The same for the iterations that are simulated, so that no simulation can end earlier; nor does scale_bound() say
 * less, which is what counts where smaller shapes are simulated.
 */
static double scale_least(const struct scale_traffic *traffic, const struct simulated_cluster *cluster)
{
    double overhead = cluster->far.overhead;
    for (uint32_t level = 0; level < SHAPE_LEVELS; level++)
        if (cluster->above[level].bandwidth > 0)
            overhead = fmin(overhead, cluster->above[level].overhead);
    double seconds = traffic->simulated_messages * overhead;
    if (cluster->burst_bytes <= 0)
        seconds = fmax(seconds, fmin(traffic->simulated_bytes, traffic->bytes[0]) / cluster->far.bandwidth);
    return cluster->disturbance ? 0 : seconds * ROUNDING;
}

/* Whether the uplinks of every leaf and pod carry all that the units below them can send: none is ever waited for. */
static bool uplinks_are_ample(const struct schedule_shape *shape, const struct simulated_cluster *cluster)
{
    double below = cluster->far.bandwidth;
    for (uint32_t level = 1; level < shape_levels(shape); level++) {
        double bandwidth = cluster->above[level - 1].bandwidth;
        if (bandwidth > 0 && bandwidth < below * largest(shape, level))
            return false;
        below = bandwidth > 0 ? bandwidth : below * largest(shape, level);
    }
    return true;
}

/*
 * Leaves of different sizes are not alike. But where their uplinks are ample, leaves differ from one large one in
 * latency only; an algorithm that does not look at them is simulated as if all nodes were under one, as far apart as
 * the farthest.
 */
static weft_status simulate_flat(const struct algorithm *algorithm, const struct schedule_shape *shape,
                                 const struct simulated_cluster *cluster, double limit, struct simulated_report *report,
                                 bool *folded, struct error *error)
{
    struct schedule_shape flat = *shape;
    struct simulated_cluster farthest = *cluster;
    *folded = false;
    flat.above[0] = flat.above[1] = NULL;
    if (shape_levels(shape) < 2 || algorithm_refuses(algorithm, &flat) || !uplinks_are_ample(shape, cluster))
        return WEFT_OK;
    for (uint32_t level = 0; level < SHAPE_LEVELS; level++) {
        farthest.far.latency = fmax(farthest.far.latency, cluster->above[level].latency);
        farthest.far.overhead = fmax(farthest.far.overhead, cluster->above[level].overhead);
    }
    return simulation_run_folded(algorithm, &flat, &farthest, limit, report, folded, error);
}

/* Three sizes of a shape, each with twice as many of `varied` as the one before. */
struct scale_sizes {
    struct thinning thinning[SIZES];
    struct thinned shapes[SIZES];
    uint32_t varied;
    bool exist; /* the algorithm supports all of them */
};

static void sizes_close(struct scale_sizes *sizes)
{
    for (uint32_t i = 0; i < SIZES; i++)
        free(sizes->shapes[i].memory);
}

static weft_status sizes_open(struct scale_sizes *sizes, const struct algorithm *algorithm,
                              const struct schedule_shape *shape, const struct simulated_cluster *cluster,
                              uint32_t most_ranks, struct error *error)
{
    *sizes = (struct scale_sizes){.exist = true};
    const struct thinning largest_size = choose_thinning(shape, most_ranks, &sizes->varied);
    for (uint32_t i = 0; i < SIZES; i++) {
        struct thinning *thinning = &sizes->thinning[i];
        *thinning = largest_size;
        thinning->keep[sizes->varied] >>= SIZES - 1 - i;
        thinning->keep[sizes->varied] += !thinning->keep[sizes->varied];
        if (!thin(shape, cluster, *thinning, &sizes->shapes[i])) {
            sizes_close(sizes);
            return error_memory(error, (size_t)7 * shape->ranks * sizeof(uint32_t), "a smaller shape");
        }
        sizes->exist = sizes->exist && !algorithm_refuses(algorithm, &sizes->shapes[i].shape);
    }
    return WEFT_OK;
}

/* Nodes with fewer ranks do different work: the difference at the smallest size. */
static weft_status sizes_add_work(const struct scale_sizes *sizes, const struct algorithm *algorithm,
                                  const struct schedule_shape *shape, const struct simulated_cluster *cluster,
                                  double smallest, double *seconds, struct error *error)
{
    struct thinning thinning = sizes->thinning[0];
    struct thinned whole_nodes;
    if (sizes->varied == RANKS || thinning.keep[RANKS] == thinning.all[RANKS])
        return WEFT_OK;
    thinning.keep[RANKS] = thinning.all[RANKS];
    if (!thin(shape, cluster, thinning, &whole_nodes))
        return error_memory(error, (size_t)7 * shape->ranks * sizeof(uint32_t), "a smaller shape");
    struct simulated_report report = {0};
    weft_status status = WEFT_OK;
    if (!algorithm_refuses(algorithm, &whole_nodes.shape)) {
        status = simulation_run_shape(algorithm, &whole_nodes.shape, &whole_nodes.cluster, HUGE_VAL, &report, error);
        *seconds += fmax(report.seconds - smallest, 0);
    }
    free(whole_nodes.memory);
    return status;
}

/* Above the limit only the largest size ends early: the shape takes at least as long. */
static weft_status simulate_sizes(const struct scale_sizes *sizes, const struct algorithm *algorithm,
                                  const struct schedule_shape *shape, const struct simulated_cluster *cluster,
                                  double limit, struct simulated_report *report, struct error *error)
{
    double prices[SIZES];
    const struct schedule_shape *last = &sizes->shapes[SIZES - 1].shape;
    for (uint32_t i = 0; i < SIZES; i++) {
        const struct thinned *thinned = &sizes->shapes[i];
        weft_status status = simulation_run_shape(algorithm, &thinned->shape, &thinned->cluster,
                                                  i == SIZES - 1 ? limit : HUGE_VAL, report, error);
        prices[i] = report->seconds;
        if (status != WEFT_OK || prices[i] == HUGE_VAL)
            return status;
    }
    double times = sizes->varied == RANKS ? (double)shape->ranks / last->ranks
                                          : (double)shape_units(shape, 0) / shape_units(last, 0);
    report->seconds = extrapolate(prices, log2(times));
    return sizes_add_work(sizes, algorithm, shape, cluster, prices[0], &report->seconds, error);
}

weft_status simulate_estimate(const struct algorithm *algorithm, const struct schedule_shape *shape,
                              const struct simulated_cluster *cluster, uint32_t most_ranks,
                              const struct scale_traffic *traffic, double limit, struct simulated_report *report,
                              struct error *error)
{
    struct scale_sizes sizes;
    bool folded;
    report->seconds = HUGE_VAL;
    if (scale_least(traffic, cluster) > limit)
        return WEFT_OK;
    if (shape->ranks <= most_ranks)
        return simulation_run_shape(algorithm, shape, cluster, limit, report, error);
    weft_status status = simulation_run_folded(algorithm, shape, cluster, limit, report, &folded, error);
    if (status != WEFT_OK || folded)
        return status;
    status = sizes_open(&sizes, algorithm, shape, cluster, most_ranks, error);
    if (status != WEFT_OK)
        return status;
    double bound = scale_bound(traffic, cluster);
    bool exceeds = sizes.exist && bound > limit;
    report->seconds = HUGE_VAL;
    if (!exceeds)
        status = simulate_flat(algorithm, shape, cluster, limit, report, &folded, error);
    if (status == WEFT_OK && !exceeds && !folded)
        status = sizes.exist ? simulate_sizes(&sizes, algorithm, shape, cluster, limit, report, error)
                             : simulation_run_shape(algorithm, shape, cluster, limit, report, error);
    sizes_close(&sizes);
    if (status != WEFT_OK || report->seconds == HUGE_VAL || !(folded || sizes.exist))
        return status;
    report->leaving[0] = fmax(report->leaving[0], traffic->rank_bytes);
    report->leaving[1] = traffic->bytes[0];
    report->seconds = fmax(report->seconds, bound);
    report->load_count = 0;
    report->how = SIMULATED_ESTIMATE;
    return WEFT_OK;
}

weft_status simulate_complete(const struct algorithm *algorithm, const struct schedule_shape *shape,
                              struct simulated_report *report, struct error *error)
{
    struct scale_traffic traffic;
    if (report->how != SIMULATED_ESTIMATE || shape_levels(shape) < 2)
        return WEFT_OK;
    weft_status status = scale_count_unit(algorithm, shape, 1, &traffic, error);
    if (status != WEFT_OK)
        return status;
    for (uint32_t level = 1; level < shape_levels(shape); level++)
        report->leaving[level + 1] = traffic.bytes[level] * shape_units(shape, 1) / shape_units(shape, level);
    return WEFT_OK;
}

weft_status simulate_report(const struct algorithm *algorithm, const struct schedule_shape *shape,
                            const struct simulated_cluster *cluster, uint32_t most_ranks,
                            struct simulated_report *report, struct error *error)
{
    struct scale_traffic traffic;
    weft_status status = scale_count(algorithm, shape, &traffic, error);
    if (status == WEFT_OK)
        status = simulate_estimate(algorithm, shape, cluster, most_ranks, &traffic, HUGE_VAL, report, error);
    return status == WEFT_OK ? simulate_complete(algorithm, shape, report, error) : status;
}
