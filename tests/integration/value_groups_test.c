/* SPDX-License-Identifier: Apache-2.0 */
/* Weights over the data axis: set, updated slice by slice, shared or gathered, under every ZeRO stage. */
#include "../world.h"
#include "training/parallel/sharding/value_groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { GROUPS = 8, BUFFERS = 2, SKIPPED = 16, LARGEST = 4097 * 16 }; /* a group begins SKIPPED elements into a buffer */

static const size_t counts[GROUPS] = {16, 0, 4096, 3 * 4096, 1, 4096 + 32, LARGEST, 4095};

/* Some begin or end within slices, one is all of its group, and most groups have none. */
static const struct value_part parts[] = {{0, 3, 5}, {3, 100, 5000}, {3, 8191, 2}, {4, 0, 1}, {6, 4096 * 5 - 1, 30000}};

struct value_case {
    uint32_t zero;
    bool activations, second_moments;
};

/* A rank's objects. */
struct value_run {
    struct value_case config;
    struct group_range ranges[GROUPS];
    size_t elements;
    struct value_groups *groups;
    struct error error;
};

/* A weight in a given version: no two neighbors, groups or versions are alike. */
static float weight_of(uint32_t group, size_t element, uint32_t version)
{
    return (float)((element * 31 + group * 7 + version * 13) % 10007) * 1.00123f - 3000;
}

/* To the nearest bf16, ties to even. */
static uint16_t as_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static bool group_has_version(const struct value_run *run, uint32_t group, uint32_t version, const float *values,
                              const uint16_t *activations)
{
    for (size_t i = 0; i < counts[group]; i++)
        if (values[i] != weight_of(group, i, version) ||
            (run->config.activations && activations[i] != as_bf16(weight_of(group, i, version))))
            return false;
    return run->config.activations || !activations;
}

/* ---- where whole groups are ---- */

static bool flat_arrays_have_version(struct value_run *run, uint32_t version)
{
    for (uint32_t g = 0; g < GROUPS; g++) {
        const float *values = value_groups_values(run->groups, g, UINT32_MAX, 0);
        if (values != value_groups_flat(run->groups) + run->ranges[g].offset ||
            !group_has_version(run, g, version, values, value_groups_activations(run->groups, g, UINT32_MAX, 0)))
            return false;
    }
    return true;
}

/* The parts of a group as they are, and all of it as activations. */
static bool activations_have_version(struct value_run *run, uint32_t group, uint32_t buffer, uint32_t version)
{
    const uint16_t *activations = value_groups_activations(run->groups, group, buffer, SKIPPED);
    const float *values = value_groups_values(run->groups, group, buffer, SKIPPED);
    for (size_t i = 0; i < counts[group]; i++)
        if (activations[i] != as_bf16(weight_of(group, i, version)))
            return false;
    for (size_t p = 0; p < ARRAY_SIZE(parts); p++)
        for (size_t i = parts[p].first; parts[p].group == group && i < parts[p].first + parts[p].count; i++)
            if (values[i] != weight_of(group, i, version))
                return false;
    return true;
}

static bool values_have_version(struct value_run *run, uint32_t group, uint32_t buffer, uint32_t version)
{
    const float *values = value_groups_values(run->groups, group, buffer, SKIPPED);
    for (size_t i = 0; i < counts[group]; i++)
        if (values[i] != weight_of(group, i, version))
            return false;
    return true;
}

/* Gather each group while the one before it is in use. */
static bool gathered_groups_have_version(struct value_run *run, uint32_t version, bool as_activations)
{
    for (uint32_t g = 0; g <= GROUPS; g++) {
        const uint32_t last = g - 1, buffer = last % BUFFERS;
        if (g < GROUPS &&
            value_groups_gather_start(run->groups, g, g % BUFFERS, SKIPPED, as_activations, &run->error) != WEFT_OK)
            return false;
        if (g == 0)
            continue;
        if (value_groups_gather_finish(run->groups, last, buffer, SKIPPED, as_activations, &run->error) != WEFT_OK)
            return false;
        if (as_activations && run->config.activations ? !activations_have_version(run, last, buffer, version)
                                                      : !values_have_version(run, last, buffer, version))
            return false;
    }
    return !value_groups_values(run->groups, 0, UINT32_MAX, 0) && !value_groups_flat(run->groups);
}

static bool all_have_version(struct value_run *run, uint32_t version)
{
    if (run->config.zero < 3)
        return flat_arrays_have_version(run, version);
    return gathered_groups_have_version(run, version, true) && gathered_groups_have_version(run, version, false);
}

/* ---- slices ---- */

static bool slice_is_where_it_belongs(struct value_run *run, uint32_t group, uint32_t rank, uint32_t ranks)
{
    const struct value_slice slice = value_groups_slice(run->groups, group);
    struct group_slice own = {.count = counts[group]};
    if (run->config.zero)
        own = group_slice_of(&run->ranges[group], rank, ranks);
    return slice.first == own.first && slice.count == own.count &&
           !slice.second_moments == !run->config.second_moments && !slice.activations == !run->config.activations;
}

/* An optimizer's step to a new version, which writes moments, too. */
static void update_slice(struct value_run *run, uint32_t group, uint32_t version)
{
    const struct value_slice slice = value_groups_slice(run->groups, group);
    for (size_t i = 0; i < slice.count; i++) {
        slice.values[i] = weight_of(group, slice.first + i, version);
        slice.first_moments[i] = weight_of(group, slice.first + i, version + 1);
        if (slice.second_moments)
            slice.second_moments[i] = weight_of(group, slice.first + i, version + 2);
        if (slice.activations)
            ((uint16_t *)slice.activations)[i] = as_bf16(slice.values[i]);
    }
}

static bool moments_are(struct value_run *run, uint32_t group, bool zero, uint32_t version)
{
    const struct value_slice slice = value_groups_slice(run->groups, group);
    for (size_t i = 0; i < slice.count; i++) {
        const float first = zero ? 0 : weight_of(group, slice.first + i, version + 1),
                    second = zero ? 0 : weight_of(group, slice.first + i, version + 2);
        if (slice.first_moments[i] != first || (slice.second_moments && slice.second_moments[i] != second))
            return false;
    }
    return true;
}

/* ---- one rank ---- */

static int open_run(weft_context *context, int rank, struct device *device, struct value_run *run)
{
    for (uint32_t g = 0; g < GROUPS; g++) {
        run->ranges[g] = (struct group_range){.offset = run->elements, .count = counts[g], .turn = g};
        run->elements += tree_blocks(counts[g]) * DEVICE_SQUARES_BLOCK;
    }
    const struct value_groups_config config = {
        .context = context,
        .comm = weft_world(context),
        .device = device,
        .ranges = run->ranges,
        .group_count = GROUPS,
        .elements = run->elements,
        .zero = run->config.zero,
        .activations = run->config.activations,
        .parts = parts,
        .part_count = ARRAY_SIZE(parts),
        .second_moments = run->config.second_moments,
        .buffers = BUFFERS,
        .buffer_elements = SKIPPED + LARGEST,
    };
    CHECK(value_groups_open(&config, &run->groups, &run->error) == WEFT_OK);
    return 0;
}

static int store_groups(weft_context *context, int rank, struct value_run *run)
{
    float *whole = calloc(LARGEST, sizeof *whole);
    CHECK(whole);
    for (uint32_t g = 0; g < GROUPS; g++) {
        for (size_t i = 0; i < counts[g]; i++)
            whole[i] = weight_of(g, i, 0);
        value_groups_store(run->groups, g, whole);
    }
    free(whole);
    return 0;
}

static int share_groups(weft_context *context, int rank, struct value_run *run)
{
    for (uint32_t g = 0; g < GROUPS; g++)
        CHECK(value_groups_share_start(run->groups, g, &run->error) == WEFT_OK);
    for (uint32_t g = 0; g < GROUPS; g++)
        CHECK(value_groups_share_finish(run->groups, g, &run->error) == WEFT_OK);
    return 0;
}

/* Values that a checkpoint wrote to the flat array need new copies. */
static int set_flat_array(weft_context *context, int rank, struct value_run *run, uint32_t version)
{
    for (uint32_t g = 0; g < GROUPS; g++) {
        float *values = value_groups_values(run->groups, g, UINT32_MAX, 0);
        for (size_t i = 0; i < counts[g]; i++)
            values[i] = weight_of(g, i, version);
    }
    value_groups_changed(run->groups);
    CHECK(flat_arrays_have_version(run, version));
    return 0;
}

static int value_case(weft_context *context, int rank, struct device *device, const struct value_case *config)
{
    const uint32_t ranks = (uint32_t)weft_comm_size(weft_world(context)), zero = config->zero;
    struct value_run run = {.config = *config};
    if (open_run(context, rank, device, &run) != 0 || store_groups(context, rank, &run) != 0)
        return 1;
    CHECK(all_have_version(&run, 0));
    for (uint32_t g = 0; g < GROUPS; g++) {
        CHECK(slice_is_where_it_belongs(&run, g, (uint32_t)rank, ranks));
        CHECK(moments_are(&run, g, true, 0));
    }
    for (uint32_t version = 1; version <= 2; version++) {
        for (uint32_t g = 0; g < GROUPS; g++)
            update_slice(&run, g, version);
        if ((zero == 1 || zero == 2) && share_groups(context, rank, &run) != 0)
            return 1;
        CHECK(all_have_version(&run, version));
        for (uint32_t g = 0; g < GROUPS; g++)
            CHECK(moments_are(&run, g, false, version));
    }
    if (zero < 3 && set_flat_array(context, rank, &run, 3) != 0)
        return 1;
    value_groups_close(run.groups);
    return 0;
}

static int value_cases(weft_context *context, int rank, void *argument)
{
    struct device *device;
    struct error error = {0};
    CHECK(device_open("cpu-bf16", 1, &device, &error) == WEFT_OK);
    for (uint32_t zero = 0; zero <= (weft_comm_size(weft_world(context)) > 1 ? 3 : 0); zero++)
        for (int kinds = 0; kinds < 4; kinds++) {
            const struct value_case config = {.zero = zero, .activations = kinds & 1, .second_moments = kinds >> 1 & 1};
            if (value_case(context, rank, device, &config) != 0)
                return 1;
        }
    device->close(device);
    return 0;
}

static void all_ranks_have_the_same_weights(void **state)
{
    static const int ranks[] = {1, 2, 3, 4, 5, 7};
    for (size_t i = 0; i < ARRAY_SIZE(ranks); i++)
        assert_int_equal(world_run(&(struct world){.ranks = ranks[i]}, value_cases, NULL), 0);
}

static void ranks_may_be_on_several_nodes(void **state)
{
    static const int uneven[] = {0, 0, 0, 1};
    assert_int_equal(world_run(&(struct world){.ranks = 4, .node_of = uneven}, value_cases, NULL), 0);
}

/* ---- memory ---- */

static size_t memory_of(uint32_t zero, bool activations, bool second_moments)
{
    static const struct group_range ranges[] = {{.count = 64 * DEVICE_SQUARES_BLOCK}};
    const struct value_groups_config config = {.ranges = ranges,
                                               .group_count = 1,
                                               .elements = ranges[0].count,
                                               .zero = zero,
                                               .activations = activations,
                                               .second_moments = second_moments,
                                               .buffers = 2,
                                               .buffer_elements = ranges[0].count};
    const struct value_memory memory = value_groups_memory(&config, 0, zero ? 4 : 1);
    return memory.weights + memory.moments + memory.copy + memory.gathered;
}

static void memory_is_what_the_header_says(void **state)
{
    const size_t all = 64 * DEVICE_SQUARES_BLOCK * sizeof(float);
    assert_int_equal(memory_of(0, false, true), 3 * all);
    assert_int_equal(memory_of(0, true, false), 2 * all + all / 2);
    assert_int_equal(memory_of(1, false, true), all + 2 * all / 4);
    assert_int_equal(memory_of(2, true, true), all + all / 2 + 2 * all / 4);
    assert_int_equal(memory_of(3, false, true), 3 * all / 4 + 2 * all);
    assert_int_equal(memory_of(3, true, true), 3 * all / 4 + all / 8 + 2 * all + all);
}

/* ---- arrays that are shared ---- */

static float *first_value(struct value_groups *groups)
{
    float *flat = value_groups_flat(groups);
    return flat ? flat : value_groups_slice(groups, 0).values;
}

/* What another object of the same groups has of this one. */
static int open_after_another(weft_context *context, int rank, void *argument)
{
    enum { RANGES = 2, COUNT = 3 * DEVICE_SQUARES_BLOCK };
    static const struct {
        uint32_t former, next; /* ZeRO stages */
        bool values, moments;  /* are shared */
    } cases[] = {{0, 0, true, true}, {1, 2, true, true},  {0, 2, true, false},
                 {3, 3, true, true}, {3, 1, false, true}, {0, 3, false, false}};
    const struct group_range ranges[RANGES] = {{.count = COUNT}, {.offset = COUNT, .count = COUNT, .turn = 1}};
    struct device *device;
    struct error error = {0};
    CHECK(device_open("cpu-bf16", 1, &device, &error) == WEFT_OK);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct value_groups *former, *next, *last;
        struct value_groups_config config = {.context = context,
                                             .comm = weft_world(context),
                                             .device = device,
                                             .ranges = ranges,
                                             .group_count = RANGES,
                                             .elements = RANGES * COUNT,
                                             .zero = cases[i].former,
                                             .activations = true,
                                             .second_moments = true,
                                             .buffers = 1,
                                             .buffer_elements = COUNT};
        CHECK(value_groups_open(&config, &former, &error) == WEFT_OK);
        const struct value_slice slice = value_groups_slice(former, 1);
        first_value(former)[0] = slice.first_moments[0] = slice.second_moments[0] = 7;
        config.zero = cases[i].next;
        config.former = former;
        CHECK(value_groups_open(&config, &next, &error) == WEFT_OK);
        const struct value_slice other = value_groups_slice(next, 1);
        CHECK((first_value(next) == first_value(former)) == cases[i].values);
        CHECK((other.first_moments == slice.first_moments) == cases[i].moments);
        CHECK((other.second_moments == slice.second_moments) == cases[i].moments);
        value_groups_close(former); /* as after a recovery */
        CHECK(first_value(next)[0] == (cases[i].values ? 7 : 0));
        CHECK(other.first_moments[0] == (cases[i].moments ? 7 : 0));
        config.former = next;
        first_value(next)[0] = other.second_moments[0] = 8;
        CHECK(value_groups_open(&config, &last, &error) == WEFT_OK);
        CHECK(first_value(last)[0] == 8);
        value_groups_clear(last);
        CHECK(first_value(next)[0] == 0 && other.second_moments[0] == 0);
        value_groups_close(last); /* as after one that failed */
        first_value(next)[0] = 9;
        value_groups_clear(next); /* it shares nothing any more */
        CHECK(first_value(next)[0] == 9);
        value_groups_close(next);
    }
    device->close(device);
    return 0;
}

static void arrays_that_stay_the_same_are_shared(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 3}, open_after_another, NULL), 0);
}

/* More than the heap has: an error, and nothing stays. */
static int open_too_large(weft_context *context, int rank, void *argument)
{
    static const struct group_range ranges[] = {{.count = (size_t)1 << 40}};
    struct device *device;
    struct value_groups *groups = NULL;
    struct error error = {0};
    CHECK(device_open("cpu-bf16", 1, &device, &error) == WEFT_OK);
    const struct value_groups_config config = {.context = context,
                                               .comm = weft_world(context),
                                               .device = device,
                                               .ranges = ranges,
                                               .group_count = 1,
                                               .elements = ranges[0].count,
                                               .zero = 1,
                                               .activations = true};
    CHECK(value_groups_open(&config, &groups, &error) == WEFT_ERROR_MEMORY);
    CHECK(!groups && error.text[0]);
    value_groups_close(groups);
    device->close(device);
    return 0;
}

static void too_little_memory_is_an_error(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 2}, open_too_large, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_have_the_same_weights), cmocka_unit_test(ranks_may_be_on_several_nodes),
        cmocka_unit_test(memory_is_what_the_header_says),  cmocka_unit_test(arrays_that_stay_the_same_are_shared),
        cmocka_unit_test(too_little_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
