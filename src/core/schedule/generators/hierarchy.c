/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages over levels of units: nodes under leaves, leaves in pods. Each level is a stage among the units of one unit of
 * the next level, so that data is summed before it crosses between these, or crosses once and is forwarded afterwards.
 *
 * Ranks of the stage are nodes. At level `depth` a node stands for a unit (at level 0 for itself); all ranks that stand
 * for the units of a level in one column are found by `standing`, unit -> rank of the stage. Of each group, the units
 * with a number below the size of the smallest group are *owners*, which go on to the next level; they carry an equal
 * share each.
 *
 * Every level has lanes of its own, so that segments follow one another through the levels. The lowest level ends on
 * the stage's own lanes, which wait for messages sent on the others: from outside it is a stage like any other.
 */
#include "core/schedule/generators/internal/generators.h"

#include <stdlib.h>

static const struct dependency now = {0};

/* One level, as this rank sees it. */
struct hierarchy_level {
    const uint32_t *above;       /* the group of each unit; NULL at the top, where all units are one group */
    uint32_t units, groups;      /* how many */
    uint32_t unit, group, index; /* this rank's; its number in its group */
    uint32_t members, owners;    /* units of this rank's group; of the smallest one */
    uint32_t *standing;          /* each unit's representative, as a rank of the stage */
    uint32_t *ranks;             /* each member's representative, as a rank of the communicator */
    uint32_t *next;              /* the representative of each group with this rank's number; NULL at the top */
};

/* ---- levels ---- */

/* The groups of the units of a level; NULL where all of them are one group. */
static const uint32_t *groups_of(const struct schedule_shape *shape, uint32_t depth, uint32_t *units, uint32_t *groups)
{
    *units = shape_units(shape, depth);
    *groups = 1;
    if (depth + 1 >= shape_levels(shape))
        return NULL;
    *groups = shape_units(shape, depth + 1);
    return *groups > 1 ? shape->above[depth] : NULL;
}

/* The size of the smallest group, and of the largest; 0 when memory ran out. */
static uint32_t smallest_group(const uint32_t *above, uint32_t units, uint32_t groups, uint32_t *most)
{
    uint32_t *sizes = calloc(groups, sizeof *sizes), least = units;
    *most = 0;
    for (uint32_t unit = 0; sizes && unit < units; unit++)
        sizes[above[unit]]++;
    for (uint32_t group = 0; sizes && group < groups; group++) {
        least = sizes[group] < least ? sizes[group] : least;
        *most = sizes[group] > *most ? sizes[group] : *most;
    }
    bool made = sizes != NULL;
    free(sizes);
    return made ? least : 0;
}

uint32_t hierarchy_parts(const struct schedule_shape *shape)
{
    uint32_t parts = 1, units, groups, most;
    for (uint32_t depth = 0;; depth++) {
        const uint32_t *above = groups_of(shape, depth, &units, &groups);
        if (!above)
            return parts * units;
        parts *= smallest_group(above, units, groups, &most);
    }
}

bool hierarchy_is_even(const struct schedule_shape *shape)
{
    uint32_t units, groups, most;
    const uint32_t *above;
    for (uint32_t depth = 0; (above = groups_of(shape, depth, &units, &groups)); depth++)
        if (smallest_group(above, units, groups, &most) != most)
            return false;
    return true;
}

static void level_close(struct hierarchy_level *level)
{
    free(level->ranks);
    free(level->next);
}

/* `standing` is borrowed. */
static bool level_open(struct hierarchy_level *level, const struct stage *stage, uint32_t depth, uint32_t unit,
                       uint32_t *standing)
{
    struct builder *builder = stage->builder;
    *level = (struct hierarchy_level){.unit = unit, .standing = standing};
    level->above = groups_of(builder->shape, depth, &level->units, &level->groups);
    level->ranks = malloc(level->units * sizeof *level->ranks);
    uint32_t *sizes = calloc(level->groups, sizeof *sizes);
    if (level->above)
        level->next = calloc(level->groups, sizeof *level->next);
    if (!level->ranks || !sizes || (level->above && !level->next)) {
        builder->exhausted = true;
        free(sizes);
        level_close(level);
        return false;
    }
    level->group = level->above ? level->above[unit] : 0;
    for (uint32_t other = 0; other < unit; other++)
        level->index += !level->above || level->above[other] == level->group;
    for (uint32_t other = 0; other < level->units; other++) {
        uint32_t group = level->above ? level->above[other] : 0, index = sizes[group]++;
        if (group == level->group)
            level->ranks[level->members++] = stage->members ? stage->members[standing[other]] : standing[other];
        if (level->above && index == level->index)
            level->next[group] = standing[other];
    }
    level->owners = level->members;
    for (uint32_t group = 0; group < level->groups; group++)
        if (sizes[group] < level->owners)
            level->owners = sizes[group];
    free(sizes);
    return true;
}

/* Every node represents itself. NULL when out of memory. */
static uint32_t *standing_for_nodes(const struct stage *stage)
{
    uint32_t *standing = malloc(stage->ranks * sizeof *standing);
    for (uint32_t node = 0; standing && node < stage->ranks; node++)
        standing[node] = node;
    if (!standing)
        stage->builder->exhausted = true;
    return standing;
}

/* The stage among the members of this rank's group. */
static struct stage hierarchy_within(const struct stage *stage, const struct hierarchy_level *level, uint32_t send_lane)
{
    struct stage inner = *stage;
    inner.ranks = level->members;
    inner.rank = level->index;
    inner.members = level->ranks;
    inner.send_lane = send_lane;
    inner.receive_lane = send_lane + 1;
    return inner;
}

static struct pieces pieces_from(struct pieces pieces, uint32_t piece)
{
    pieces.first += piece;
    pieces.part += piece;
    return pieces;
}

/* The stage's own lanes also wait for messages sent on the spare lanes: every second one of these. */
static void join_sends(const struct stage *stage)
{
    for (uint32_t lane = stage->spare_lane; lane < stage->spare_lane + HIERARCHY_LANES; lane += 2)
        builder_hold(stage->builder, stage->send_lane, builder_now(stage->builder, lane));
}

static struct step reduce_step(const struct stage *stage, uint32_t source, uint32_t operands, uint32_t stride,
                               uint32_t part, bool finishes, const struct pieces *into)
{
    return (struct step){.kind = STEP_REDUCE,
                         .flags = finishes ? STEP_FINISHES : 0,
                         .source = BUFFER_SCRATCH,
                         .source_chunk = source,
                         .operands = (uint16_t)operands,
                         .stride = (uint16_t)stride,
                         .chunks = 1,
                         .value = part % stage->builder->schedule->parts,
                         .target = into->buffer,
                         .target_chunk = stage_chunk(into, 0)};
}

/* ---- all-reduce ---- */

/* `width` pieces of all inputs are summed at their owners, an equal share at each, into `into`. */
static void sum_shares(const struct stage *stage, const struct hierarchy_level *level, uint32_t width,
                       const struct pieces *into, bool finishes)
{
    uint32_t n = stage->ranks, me = stage->rank, share = width / level->owners;
    struct dependency after = stage->ready;
    for (uint32_t k = 1; k < n; k++) {
        uint32_t peer = (me + k) % n;
        if (peer < level->owners) {
            stage_send(stage, after, peer, &stage->input, peer * share, share);
            after = now;
        }
    }
    if (me >= level->owners)
        return;
    struct pieces own = pieces_from(stage->input, me * share);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t from = (me + n - k) % n;
        struct pieces landing = {.buffer = BUFFER_SCRATCH, .first = stage->scratch + from * share, .part = own.part};
        if (k == 0)
            stage_copy(stage, stage->receive_lane, stage->ready, &own, 0, &landing, 0, share);
        else
            stage_receive(stage, now, from, &landing, 0, share);
    }
    for (uint32_t i = 0; i < share; i++) {
        struct pieces target = pieces_from(*into, i);
        builder_add(stage->builder, stage->receive_lane,
                    reduce_step(stage, stage->scratch + i, n, share, own.part + i, finishes, &target));
    }
}

/* Every owner's share of the output goes to all members; in place, it overwrites the data that `sent` read. */
static void hand_on_shares(const struct stage *stage, const struct hierarchy_level *level, uint32_t width,
                           struct dependency own, struct dependency sent)
{
    uint32_t n = stage->ranks, me = stage->rank, share = width / level->owners;
    for (uint32_t k = 1; k < n && me < level->owners; k++)
        stage_send(stage, k == 1 ? own : now, (me + k) % n, &stage->output, me * share, share);
    for (uint32_t k = 1; k < n; k++) {
        uint32_t from = (me + n - k) % n;
        if (from < level->owners) {
            stage_receive(stage, sent, from, &stage->output, from * share, share);
            sent = now;
        }
    }
    if (me < level->owners)
        builder_hold(stage->builder, stage->receive_lane, own);
}

/*
 * Sum `width` pieces over the units of this level and all above it, for the rank that stands for `unit`: `stage` says
 * from where to where. Lanes from `lane` on are free. Returns when the output is complete.
 */
static struct dependency sum_levels(const struct stage *stage, uint32_t depth, uint32_t unit, uint32_t *standing,
                                    uint32_t width, uint32_t lane)
{
    struct builder *builder = stage->builder;
    struct hierarchy_level level;
    if (!level_open(&level, stage, depth, unit, standing))
        return now;
    struct stage up = hierarchy_within(stage, &level, lane),
                 down = hierarchy_within(stage, &level, depth ? lane + 2 : stage->send_lane);
    uint32_t share = width / level.owners;
    down.receive_lane = depth ? lane + 3 : stage->receive_lane;
    down.channel = (uint8_t)(stage->channel + 1);
    struct stage above = *stage; /* this owner's share, which goes to the next level */
    above.output = pieces_from(stage->output, level.index * share);
    bool goes_on = level.above && level.index < level.owners;
    if (!level.above) {
        builder_scratch(builder, stage->scratch + level.members * share);
        sum_shares(&up, &level, width, &above.output, stage->finishes);
        above.ready = builder_now(builder, up.receive_lane);
    } else if (level.members > 1) {
        above.input = (struct pieces){
            .buffer = BUFFER_SCRATCH, .first = stage->scratch, .part = stage->input.part + level.index * share};
        up.scratch = stage->scratch + share;
        above.scratch = up.scratch + level.members * share;
        builder_scratch(builder, above.scratch);
        sum_shares(&up, &level, width, &above.input, false);
        above.ready = builder_now(builder, up.receive_lane);
    }
    if (goes_on)
        above.ready = sum_levels(&above, depth + 1, level.group, level.next, share, depth ? lane + 4 : lane + 2);
    hand_on_shares(&down, &level, width, above.ready, builder_now(builder, up.send_lane));
    level_close(&level);
    return builder_now(builder, down.receive_lane);
}

void stage_hierarchy_allreduce(const struct stage *stage)
{
    uint32_t *standing = standing_for_nodes(stage);
    if (standing)
        sum_levels(stage, 0, stage->rank, standing, hierarchy_parts(stage->builder->shape), stage->spare_lane);
    join_sends(stage);
    free(standing);
}

/* ---- reduce-scatter, all-gather: groups of one size ---- */

/* The unit with number `index` in each group. NULL when memory ran out. */
static uint32_t *units_by_group(const struct stage *stage, const struct hierarchy_level *level)
{
    uint32_t *table = malloc(level->units * sizeof *table), *sizes = calloc(level->groups, sizeof *sizes);
    for (uint32_t unit = 0; table && sizes && unit < level->units; unit++) {
        uint32_t group = level->above[unit];
        table[group * level->members + sizes[group]++] = unit;
    }
    if (!table || !sizes) {
        stage->builder->exhausted = true;
        free(table);
        table = NULL;
    }
    free(sizes);
    return table;
}

/* Inside a group, the member with a number sums the pieces of all units of that number. */
static void sum_by_number(const struct stage *stage, const struct hierarchy_level *level, const uint32_t *units,
                          uint32_t sums)
{
    struct builder *builder = stage->builder;
    uint32_t n = stage->ranks, me = stage->rank;
    struct dependency after = stage->ready;
    for (uint32_t k = 1; k < n; k++)
        for (uint32_t group = 0; group < level->groups; group++) {
            stage_send(stage, after, (me + k) % n, &stage->input, units[group * n + (me + k) % n], 1);
            after = now;
        }
    after = stage->ready;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t group = 0; group < level->groups; group++) {
            uint32_t from = (me + n - k) % n;
            struct pieces landing = {.buffer = BUFFER_SCRATCH, .first = stage->scratch + group * n + from};
            if (k == 0)
                stage_copy(stage, stage->receive_lane, after, &stage->input, units[group * n + me], &landing, 0, 1);
            else
                stage_receive(stage, now, from, &landing, 0, 1);
            after = now;
        }
    for (uint32_t group = 0; group < level->groups; group++) {
        struct pieces target = {.buffer = BUFFER_SCRATCH, .first = sums + group};
        builder_add(builder, stage->receive_lane,
                    reduce_step(stage, stage->scratch + group * n, n, 1, 0, false, &target));
    }
}

static void scatter_levels(const struct stage *stage, uint32_t depth, uint32_t unit, uint32_t *standing, uint32_t lane)
{
    struct builder *builder = stage->builder;
    struct hierarchy_level level;
    if (!level_open(&level, stage, depth, unit, standing))
        return;
    struct stage inner = hierarchy_within(stage, &level, lane);
    if (!level.above) {
        inner.send_lane = stage->send_lane;
        inner.receive_lane = stage->receive_lane;
        stage_pairwise_reduce_scatter(&inner, &stage->output, 0);
        level_close(&level);
        return;
    }
    uint32_t *units = units_by_group(stage, &level);
    struct stage above = *stage;
    uint32_t sums = stage->scratch + level.groups * level.members;
    if (units)
        sum_by_number(&inner, &level, units, sums);
    above.input = (struct pieces){.buffer = BUFFER_SCRATCH, .first = sums};
    above.scratch = sums + level.groups;
    above.ready = builder_now(builder, inner.receive_lane);
    builder_scratch(builder, above.scratch);
    scatter_levels(&above, depth + 1, level.group, level.next, lane + 2);
    free(units);
    level_close(&level);
}

void stage_hierarchy_reduce_scatter(const struct stage *stage)
{
    uint32_t *standing = standing_for_nodes(stage);
    if (standing)
        scatter_levels(stage, 0, stage->rank, standing, stage->spare_lane);
    join_sends(stage);
    free(standing);
}

/*
 * Every block crosses the highest level first, to the ranks of the same number, which pass it on level by level.
 * Returns the dependency on the arrival of the blocks of all representatives of this level's units.
 */
static struct dependency gather_levels(const struct stage *stage, uint32_t depth, uint32_t unit, uint32_t *standing,
                                       struct dependency own, uint32_t lane)
{
    struct builder *builder = stage->builder;
    struct hierarchy_level level;
    if (!level_open(&level, stage, depth, unit, standing))
        return now;
    struct stage inner = hierarchy_within(stage, &level, lane);
    if (!depth) {
        inner.send_lane = stage->send_lane;
        inner.receive_lane = stage->receive_lane;
    }
    struct dependency have = own;
    uint32_t n = inner.ranks, me = inner.rank, *units = NULL;
    if (level.above) {
        have = gather_levels(stage, depth + 1, level.group, level.next, own, depth ? lane + 2 : lane);
        units = units_by_group(stage, &level);
    }
    bool ready = !level.above || units;
    for (uint32_t k = 1; ready && k < n; k++) {
        uint32_t to = (me + k) % n, from = (me + n - k) % n;
        for (uint32_t group = 0; group < level.groups; group++) {
            stage_send(&inner, have, to, &stage->output, standing[units ? units[group * n + me] : me], 1);
            stage_receive(&inner, now, from, &stage->output, standing[units ? units[group * n + from] : from], 1);
        }
    }
    builder_hold(builder, inner.receive_lane, have);
    free(units);
    level_close(&level);
    return builder_now(builder, inner.receive_lane);
}

void stage_hierarchy_allgather(const struct stage *stage, struct dependency own)
{
    uint32_t *standing = standing_for_nodes(stage);
    if (standing)
        gather_levels(stage, 0, stage->rank, standing, own, stage->spare_lane);
    join_sends(stage);
    free(standing);
}

/* ---- broadcast, reduce: one head a group ---- */

/*
 * The representative of a group is its head: the root's unit in its group, else the first. Sets level.next to the
 * heads, and returns whether this rank is the head of its group.
 */
static bool choose_heads(struct hierarchy_level *level, uint32_t root, uint32_t *head)
{
    *head = 0;
    if (!level->above)
        return false;
    for (uint32_t unit = level->units; unit-- > 0;)
        level->next[level->above[unit]] = level->standing[unit];
    level->next[level->above[root]] = level->standing[root];
    uint32_t index = 0;
    for (uint32_t unit = 0; unit < level->units; unit++) {
        if (level->above[unit] != level->group)
            continue;
        if (level->standing[unit] == level->next[level->group])
            *head = index;
        index++;
    }
    return *head == level->index;
}

static struct dependency broadcast_levels(const struct stage *stage, uint32_t depth, uint32_t unit, uint32_t root,
                                          uint32_t *standing, void (*cross)(const struct stage *stage), uint32_t lane)
{
    struct builder *builder = stage->builder;
    struct hierarchy_level level;
    uint32_t head;
    if (!level_open(&level, stage, depth, unit, standing))
        return now;
    struct stage inner = hierarchy_within(stage, &level, lane);
    if (!depth) {
        inner.send_lane = stage->send_lane;
        inner.receive_lane = stage->receive_lane;
    }
    inner.root = root;
    if (choose_heads(&level, root, &head))
        inner.ready = broadcast_levels(stage, depth + 1, level.group, level.above[root], level.next, cross,
                                       depth ? lane + 2 : lane);
    if (level.above)
        inner.root = head;
    cross(&inner);
    builder_hold(builder, inner.receive_lane, inner.ready);
    level_close(&level);
    return builder_now(builder, inner.receive_lane);
}

static void broadcast(const struct stage *stage, void (*cross)(const struct stage *stage))
{
    uint32_t *standing = standing_for_nodes(stage);
    if (standing)
        broadcast_levels(stage, 0, stage->rank, stage->root, standing, cross, stage->spare_lane);
    join_sends(stage);
    free(standing);
}

void stage_hierarchy_broadcast(const struct stage *stage)
{
    broadcast(stage, stage_binomial_broadcast);
}

void stage_hierarchy_broadcast_chain(const struct stage *stage)
{
    broadcast(stage, stage_chain_broadcast);
}

static void reduce_levels(const struct stage *stage, uint32_t depth, uint32_t unit, uint32_t root, uint32_t *standing,
                          uint32_t lane)
{
    struct builder *builder = stage->builder;
    struct hierarchy_level level;
    uint32_t head;
    if (!level_open(&level, stage, depth, unit, standing))
        return;
    struct stage inner = hierarchy_within(stage, &level, lane);
    bool is_head = choose_heads(&level, root, &head);
    if (!level.above) {
        inner.send_lane = stage->send_lane;
        inner.receive_lane = stage->receive_lane;
        inner.root = root;
        stage_binomial_reduce(&inner);
    } else if (inner.ranks > 1) {
        inner.root = head;
        inner.finishes = false;
        inner.output = (struct pieces){.buffer = BUFFER_SCRATCH, .first = stage->scratch, .part = stage->input.part};
        inner.scratch = stage->scratch + stage->chunks;
        builder_scratch(builder, inner.scratch);
        stage_binomial_reduce(&inner);
    }
    if (is_head) {
        struct stage above = *stage;
        if (inner.ranks > 1) {
            above.input = inner.output;
            above.scratch = inner.scratch + stage->chunks;
            above.ready = builder_now(builder, inner.receive_lane);
        }
        reduce_levels(&above, depth + 1, level.group, level.above[root], level.next, lane + 2);
    }
    level_close(&level);
}

void stage_hierarchy_reduce(const struct stage *stage)
{
    uint32_t *standing = standing_for_nodes(stage);
    if (standing)
        reduce_levels(stage, 0, stage->rank, stage->root, standing, stage->spare_lane);
    join_sends(stage);
    free(standing);
}
