/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/sharding/value_groups.h"

#include "base/waiting.h"
#include "training/parallel/sharding/internal/shared_array.h"

#include <stdlib.h>
#include <string.h>

struct value_group {
    struct group_range range;
    struct group_slice slice;
    size_t slice_offset;     /* of it in arrays of all slices of this rank */
    size_t *counts, *firsts; /* of each rank's slice */
    weft_request *share;

    /* ZeRO-3 with activations: the elements of the group's parts, one after the other. */
    const struct value_part *parts;
    uint32_t part_count;
    size_t packed_offset;                  /* of them among those of all groups */
    size_t *packed_counts, *packed_firsts; /* of those in each rank's slice */
};

/* What another object of the same rank may share. */
struct value_array {
    void *elements;
    size_t bytes;
    unsigned users;
    bool moves; /* other ranks read it: it is in shared memory */
};

enum { ARRAY_VALUES, ARRAY_ACTIVATIONS, ARRAY_FIRST_MOMENTS, ARRAY_SECOND_MOMENTS, VALUE_ARRAYS };

struct value_groups {
    struct value_groups_config config;
    weft_comm *comm;
    uint32_t rank, ranks;
    struct value_group *groups;
    size_t *numbers;                          /* the lists of all groups */
    struct value_array *arrays[VALUE_ARRAYS]; /* the memory of the next four */
    float *values;                            /* the flat array; ZeRO-3: all slices */
    size_t value_count;
    uint16_t *activations;                 /* of `values`; NULL: none */
    float *first_moments, *second_moments; /* of all slices */
    float *gathered;                       /* ZeRO-3: the buffers */
    uint16_t *gathered_activations;
    struct value_part *parts;
    float *packed;                          /* for each buffer, the parts of all groups */
    size_t packed_elements;                 /* of one */
    weft_request **gathers, **part_gathers; /* of each group and buffer */
};

/* ---- sizes ---- */

struct value_sizes {
    size_t values, activations, moments, gathered, gathered_activations, packed; /* elements */
};

static struct value_sizes value_sizes_of(const struct value_groups_config *config, uint32_t rank, uint32_t ranks)
{
    struct value_sizes sizes = {0};
    const bool gathers = config->zero == 3;
    for (uint32_t g = 0; g < config->group_count; g++)
        sizes.moments += config->zero ? group_slice_of(&config->ranges[g], rank, ranks).count : config->ranges[g].count;
    sizes.values = gathers ? sizes.moments : config->elements;
    sizes.moments = config->no_moments ? 0 : sizes.moments;
    sizes.gathered = gathers ? config->buffers * config->buffer_elements : 0;
    sizes.activations = config->activations ? sizes.values : 0;
    sizes.gathered_activations = config->activations ? sizes.gathered : 0;
    for (uint32_t i = 0; config->activations && gathers && i < config->part_count; i++)
        sizes.packed += config->buffers * config->parts[i].count;
    return sizes;
}

struct value_memory value_groups_memory(const struct value_groups_config *config, uint32_t rank, uint32_t ranks)
{
    const struct value_sizes sizes = value_sizes_of(config, rank, ranks);
    return (struct value_memory){
        .weights = sizes.values * sizeof(float),
        .moments = sizes.moments * (config->second_moments ? 2 : 1) * sizeof(float),
        .copy = sizes.activations * sizeof(uint16_t),
        .gathered = (sizes.gathered + sizes.packed) * sizeof(float) + sizes.gathered_activations * sizeof(uint16_t),
    };
}

/* ---- opening ---- */

/* The elements of a part that lie in a slice. */
static struct group_slice part_in_slice(const struct value_part *part, size_t first, size_t count)
{
    const size_t part_end = part->first + part->count, slice_end = first + count,
                 begin = part->first > first ? part->first : first, end = part_end < slice_end ? part_end : slice_end;
    return begin < end ? (struct group_slice){.first = begin, .count = end - begin} : (struct group_slice){0};
}

static weft_status list_slices(struct value_groups *groups, struct error *error)
{
    const struct value_groups_config *config = &groups->config;
    const size_t count = config->group_count, ranks = groups->ranks;
    groups->groups = calloc(count + 1, sizeof *groups->groups);
    groups->numbers = calloc(4 * count * ranks + 1, sizeof *groups->numbers);
    groups->gathers = calloc(count * config->buffers + 1, sizeof *groups->gathers);
    groups->part_gathers = calloc(count * config->buffers + 1, sizeof *groups->part_gathers);
    if (!groups->groups || !groups->numbers || !groups->gathers || !groups->part_gathers)
        return error_memory(error, count * ranks * sizeof *groups->numbers, "groups of weights");
    size_t offset = 0;
    for (uint32_t g = 0; g < count; g++) {
        struct value_group *group = &groups->groups[g];
        *group = (struct value_group){.range = config->ranges[g],
                                      .slice_offset = offset,
                                      .counts = groups->numbers + 4 * g * ranks,
                                      .firsts = groups->numbers + (4 * g + 1) * ranks,
                                      .packed_counts = groups->numbers + (4 * g + 2) * ranks,
                                      .packed_firsts = groups->numbers + (4 * g + 3) * ranks};
        for (uint32_t r = 0; r < ranks; r++) {
            const struct group_slice slice = group_slice_of(&group->range, r, groups->ranks);
            group->counts[r] = slice.count;
            group->firsts[r] = slice.first;
        }
        group->slice = config->zero ? (struct group_slice){.first = group->firsts[groups->rank],
                                                           .count = group->counts[groups->rank]}
                                    : (struct group_slice){.count = group->range.count};
        offset += group->slice.count;
    }
    return WEFT_OK;
}

/* Where the parts of groups lie in the packed arrays; a slice may have some of a part. */
static weft_status list_parts(struct value_groups *groups, struct error *error)
{
    const struct value_groups_config *config = &groups->config;
    if (!config->activations || config->zero < 3)
        return WEFT_OK;
    groups->parts = calloc((size_t)config->part_count + 1, sizeof *groups->parts);
    if (!groups->parts)
        return error_memory(error, config->part_count * sizeof *groups->parts, "parts of weights");
    for (uint32_t i = 0; i < config->part_count; i++) {
        struct value_group *group = &groups->groups[config->parts[i].group];
        groups->parts[i] = config->parts[i];
        if (!group->part_count++) {
            group->parts = &groups->parts[i];
            group->packed_offset = groups->packed_elements;
        }
        groups->packed_elements += config->parts[i].count;
        for (uint32_t r = 0; r < groups->ranks; r++)
            group->packed_counts[r] += part_in_slice(&groups->parts[i], group->firsts[r], group->counts[r]).count;
    }
    for (uint32_t g = 0; g < config->group_count; g++)
        for (uint32_t r = 1; r < groups->ranks; r++)
            groups->groups[g].packed_firsts[r] =
                groups->groups[g].packed_firsts[r - 1] + groups->groups[g].packed_counts[r - 1];
    return WEFT_OK;
}

/* A zeroed array: in shared memory, whose room may be limited, only if other ranks read or write it. */
static weft_status value_array_new(struct value_groups *groups, int kind, size_t bytes, bool moves, struct error *error)
{
    struct device *device = groups->config.device;
    struct value_array *array = calloc(1, sizeof *array);
    weft_status status = WEFT_OK;
    if (!array)
        return error_memory(error, sizeof *array, "an array of weights");
    *array = (struct value_array){.bytes = bytes, .users = 1, .moves = moves};
    groups->arrays[kind] = array;
    if (moves)
        array->elements = shared_array_new(groups->config.context, bytes, 1, &status, error);
    else if (!(array->elements = device->allocate(device, bytes, "weights and optimizer state", error)))
        status = WEFT_ERROR_MEMORY;
    return status;
}

static void value_array_leave(const struct value_groups *groups, struct value_array *array)
{
    struct device *device = groups->config.device;
    if (!array || --array->users > 0)
        return;
    if (array->moves)
        weft_free(groups->config.context, array->elements);
    else
        device->release(device, array->elements);
    free(array);
}

/* The former's array if it has the same elements at the same places, otherwise a new one. */
static weft_status open_array(struct value_groups *groups, int kind, size_t bytes, bool moves, bool is_same,
                              struct error *error)
{
    struct value_array *former = is_same ? groups->config.former->arrays[kind] : NULL;
    if (!bytes)
        return WEFT_OK;
    if (!former || former->bytes != bytes || former->moves != moves)
        return value_array_new(groups, kind, bytes, moves, error);
    former->users++;
    groups->arrays[kind] = former;
    return WEFT_OK;
}

static bool same_ranges(const struct value_groups *former, const struct value_groups_config *config)
{
    if (former->config.group_count != config->group_count || former->config.elements != config->elements)
        return false;
    for (uint32_t g = 0; g < config->group_count; g++) {
        const struct group_range *one = &former->groups[g].range, *other = &config->ranges[g];
        if (one->offset != other->offset || one->count != other->count)
            return false;
    }
    return true;
}

static bool same_slices(const struct value_groups *former, const struct value_groups *groups)
{
    for (uint32_t g = 0; g < groups->config.group_count; g++) {
        const struct group_slice *one = &former->groups[g].slice, *other = &groups->groups[g].slice;
        if (one->first != other->first || one->count != other->count)
            return false;
    }
    return true;
}

static weft_status open_arrays(struct value_groups *groups, const struct value_sizes *sizes, struct error *error)
{
    const struct value_groups_config *config = &groups->config;
    const struct value_groups *former = config->former;
    const bool in_slices = config->zero == 3; /* then activations move, too */
    const bool same = former && same_ranges(former, config), same_moments = same && same_slices(former, groups),
               same_values = same && (former->config.zero == 3) == in_slices && (!in_slices || same_moments);
    const size_t activations = sizes->activations * sizeof(uint16_t), moments = sizes->moments * sizeof(float),
                 second = config->second_moments ? moments : 0;
    weft_status status = open_array(groups, ARRAY_VALUES, sizes->values * sizeof(float), true, same_values, error);
    if (status == WEFT_OK)
        status = open_array(groups, ARRAY_ACTIVATIONS, activations, in_slices, same_values, error);
    if (status == WEFT_OK)
        status = open_array(groups, ARRAY_FIRST_MOMENTS, moments, false, same_moments, error);
    return status == WEFT_OK ? open_array(groups, ARRAY_SECOND_MOMENTS, second, false, same_moments, error) : status;
}

static void *array_elements(const struct value_groups *groups, int kind)
{
    return groups->arrays[kind] ? groups->arrays[kind]->elements : NULL;
}

/* Shares that nobody has waited for; after a failure, when the job has been aborted and all end at once, others too. */
static void end_moves(struct value_groups *groups)
{
    const size_t gathers = (size_t)groups->config.group_count * groups->config.buffers;
    for (size_t i = 0; groups->gathers && i < gathers; i++)
        weft_wait(&groups->gathers[i]);
    for (size_t i = 0; groups->part_gathers && i < gathers; i++)
        weft_wait(&groups->part_gathers[i]);
    for (uint32_t g = 0; groups->groups && g < groups->config.group_count; g++)
        weft_wait(&groups->groups[g].share);
}

weft_status value_groups_open(const struct value_groups_config *config, struct value_groups **result,
                              struct error *error)
{
    struct value_groups *groups = calloc(1, sizeof *groups);
    weft_comm *comm = NULL;
    weft_status status = library_error(config->context, weft_comm_duplicate(config->comm, &comm), error);
    if (status == WEFT_OK && !groups)
        status = error_memory(error, sizeof *groups, "groups of weights");
    if (status != WEFT_OK) {
        if (comm)
            weft_comm_free(comm);
        free(groups);
        return status;
    }
    *groups = (struct value_groups){.config = *config,
                                    .comm = comm,
                                    .rank = (uint32_t)weft_comm_rank(comm),
                                    .ranks = (uint32_t)weft_comm_size(comm)};
    const struct value_sizes sizes = value_sizes_of(config, groups->rank, groups->ranks);
    if (config->former)
        end_moves(config->former);
    status = list_slices(groups, error);
    if (status == WEFT_OK)
        status = list_parts(groups, error);
    if (status == WEFT_OK)
        status = open_arrays(groups, &sizes, error);
    groups->config.ranges = NULL; /* the caller's */
    groups->config.parts = NULL;
    groups->config.former = NULL;
    groups->value_count = sizes.values;
    groups->values = array_elements(groups, ARRAY_VALUES);
    groups->activations = array_elements(groups, ARRAY_ACTIVATIONS);
    groups->first_moments = array_elements(groups, ARRAY_FIRST_MOMENTS);
    groups->second_moments = array_elements(groups, ARRAY_SECOND_MOMENTS);
    groups->gathered = shared_array_new(config->context, sizes.gathered, sizeof(float), &status, error);
    groups->packed = shared_array_new(config->context, sizes.packed, sizeof(float), &status, error);
    groups->gathered_activations =
        shared_array_new(config->context, sizes.gathered_activations, sizeof(uint16_t), &status, error);
    if (status == WEFT_OK)
        *result = groups;
    else
        value_groups_close(groups);
    return status;
}

void value_groups_close(struct value_groups *groups)
{
    if (!groups)
        return;
    end_moves(groups);
    void *const buffers[] = {groups->gathered, groups->gathered_activations, groups->packed};
    for (size_t i = 0; i < ARRAY_SIZE(buffers); i++)
        weft_free(groups->config.context, buffers[i]);
    for (int kind = 0; kind < VALUE_ARRAYS; kind++)
        value_array_leave(groups, groups->arrays[kind]);
    free(groups->groups);
    free(groups->numbers);
    free(groups->parts);
    free((void *)groups->gathers);
    free((void *)groups->part_gathers);
    weft_comm_free(groups->comm);
    free(groups);
}

/* ---- where values are ---- */

static bool keeps_slices(const struct value_groups *groups)
{
    return groups->config.zero == 3;
}

float *value_groups_values(struct value_groups *groups, uint32_t group, uint32_t buffer, size_t offset)
{
    if (!keeps_slices(groups))
        return groups->values + groups->groups[group].range.offset;
    return buffer == UINT32_MAX ? NULL : groups->gathered + buffer * groups->config.buffer_elements + offset;
}

float *value_groups_flat(struct value_groups *groups)
{
    return keeps_slices(groups) ? NULL : groups->values;
}

void *value_groups_activations(struct value_groups *groups, uint32_t group, uint32_t buffer, size_t offset)
{
    if (!groups->config.activations)
        return NULL;
    if (!keeps_slices(groups))
        return groups->activations + groups->groups[group].range.offset;
    return buffer == UINT32_MAX ? NULL
                                : groups->gathered_activations + buffer * groups->config.buffer_elements + offset;
}

struct value_slice value_groups_slice(struct value_groups *groups, uint32_t number)
{
    const struct value_group *group = &groups->groups[number];
    const size_t at = keeps_slices(groups) ? group->slice_offset : group->range.offset + group->slice.first;
    return (struct value_slice){
        .first = group->slice.first,
        .count = group->slice.count,
        .values = groups->values + at,
        .first_moments = groups->first_moments ? groups->first_moments + group->slice_offset : NULL,
        .second_moments = groups->second_moments ? groups->second_moments + group->slice_offset : NULL,
        .activations = groups->activations ? groups->activations + at : NULL,
    };
}

void value_groups_store(struct value_groups *groups, uint32_t number, const float *whole)
{
    const struct group_range *range = &groups->groups[number].range;
    const struct value_slice own = value_groups_slice(groups, number);
    const bool slices = keeps_slices(groups);
    const size_t first = slices ? own.first : 0, count = slices ? own.count : range->count,
                 at = slices ? groups->groups[number].slice_offset : range->offset;
    struct device *device = groups->config.device;
    device->copy(device, groups->values + at, whole + first, count * sizeof *whole);
    if (groups->activations)
        device->to_activations(device, count, whole + first, groups->activations + at);
}

void value_groups_clear(struct value_groups *groups)
{
    for (int kind = 0; kind < VALUE_ARRAYS; kind++)
        if (groups->arrays[kind] && groups->arrays[kind]->users > 1)
            memset(groups->arrays[kind]->elements, 0, groups->arrays[kind]->bytes);
}

void value_groups_changed(struct value_groups *groups)
{
    struct device *device = groups->config.device;
    if (groups->activations)
        device->to_activations(device, groups->value_count, groups->values, groups->activations);
}

/* ---- ZeRO-3 ---- */

static size_t gather_index(const struct value_groups *groups, uint32_t number, uint32_t buffer)
{
    return number * (size_t)groups->config.buffers + buffer;
}

static bool moves_activations(const struct value_groups *groups, bool as_activations)
{
    return as_activations && groups->config.activations;
}

static float *packed_parts(const struct value_groups *groups, const struct value_group *group, uint32_t buffer)
{
    return groups->packed + buffer * groups->packed_elements + group->packed_offset;
}

/* The parts of a group, as they are: its slices' elements are packed, and move together. */
static weft_status start_parts(struct value_groups *groups, uint32_t number, uint32_t buffer, struct error *error)
{
    const struct value_group *group = &groups->groups[number];
    const struct value_slice slice = value_groups_slice(groups, number);
    float *packed = packed_parts(groups, group, buffer), *own = packed + group->packed_firsts[groups->rank], *to = own;
    if (!group->part_count)
        return WEFT_OK;
    for (uint32_t i = 0; i < group->part_count; i++) {
        const struct group_slice part = part_in_slice(&group->parts[i], slice.first, slice.count);
        if (part.count)
            memcpy(to, slice.values + (part.first - slice.first), part.count * sizeof *to);
        to += part.count;
    }
    return library_error(groups->config.context,
                         weft_allgatherv_start(own, packed, group->packed_counts, group->packed_firsts, WEFT_F32,
                                               groups->comm,
                                               &groups->part_gathers[gather_index(groups, number, buffer)]),
                         error);
}

static weft_status finish_parts(struct value_groups *groups, uint32_t number, uint32_t buffer, float *whole,
                                struct error *error)
{
    const struct value_group *group = &groups->groups[number];
    const float *from = packed_parts(groups, group, buffer);
    const weft_status status =
        waiting_for(groups->config.context, &groups->part_gathers[gather_index(groups, number, buffer)],
                    groups->config.waited, error);
    for (uint32_t i = 0; status == WEFT_OK && i < group->part_count; i++) {
        memcpy(whole + group->parts[i].first, from, group->parts[i].count * sizeof *from);
        from += group->parts[i].count;
    }
    return status;
}

weft_status value_groups_gather_start(struct value_groups *groups, uint32_t number, uint32_t buffer, size_t offset,
                                      bool as_activations, struct error *error)
{
    const struct value_group *group = &groups->groups[number];
    const struct value_slice slice = value_groups_slice(groups, number);
    const bool moved = moves_activations(groups, as_activations); /* any type of 2 bytes will do */
    const weft_status status =
        library_error(groups->config.context,
                      weft_allgatherv_start(moved ? slice.activations : (void *)slice.values,
                                            moved ? value_groups_activations(groups, number, buffer, offset)
                                                  : (void *)value_groups_values(groups, number, buffer, offset),
                                            group->counts, group->firsts, moved ? WEFT_BF16 : WEFT_F32, groups->comm,
                                            &groups->gathers[gather_index(groups, number, buffer)]),
                      error);
    return status == WEFT_OK && moved ? start_parts(groups, number, buffer, error) : status;
}

weft_status value_groups_gather_finish(struct value_groups *groups, uint32_t number, uint32_t buffer, size_t offset,
                                       bool as_activations, struct error *error)
{
    const weft_status status = waiting_for(
        groups->config.context, &groups->gathers[gather_index(groups, number, buffer)], groups->config.waited, error);
    return status == WEFT_OK && moves_activations(groups, as_activations)
               ? finish_parts(groups, number, buffer, value_groups_values(groups, number, buffer, offset), error)
               : status;
}

weft_status value_groups_gather(struct value_groups *groups, uint32_t number, float *whole, struct error *error)
{
    const struct value_group *group = &groups->groups[number];
    return library_error(groups->config.context,
                         weft_allgatherv(value_groups_slice(groups, number).values, whole, group->counts, group->firsts,
                                         WEFT_F32, groups->comm),
                         error);
}

/* ---- ZeRO-1 and 2 ---- */

weft_status value_groups_share_start(struct value_groups *groups, uint32_t number, struct error *error)
{
    struct value_group *group = &groups->groups[number];
    float *whole = groups->values + group->range.offset;
    return library_error(groups->config.context,
                         weft_allgatherv_start(whole + group->slice.first, whole, group->counts, group->firsts,
                                               WEFT_F32, groups->comm, &group->share),
                         error);
}

/* The update has cast this rank's own slice. */
weft_status value_groups_share_finish(struct value_groups *groups, uint32_t number, struct error *error)
{
    struct value_group *group = &groups->groups[number];
    const size_t offset = group->range.offset, end = group->slice.first + group->slice.count;
    struct device *device = groups->config.device;
    weft_status status = waiting_for(groups->config.context, &group->share, groups->config.waited, error);
    if (status != WEFT_OK || !groups->activations)
        return status;
    device->to_activations(device, group->slice.first, groups->values + offset, groups->activations + offset);
    device->to_activations(device, group->range.count - end, groups->values + offset + end,
                           groups->activations + offset + end);
    return WEFT_OK;
}
