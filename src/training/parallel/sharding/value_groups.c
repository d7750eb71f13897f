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
};

struct value_groups {
    struct value_groups_config config;
    weft_comm *comm;
    uint32_t rank, ranks;
    struct value_group *groups;
    size_t *numbers;                       /* the lists of all groups */
    float *values;                         /* the flat array; ZeRO-3: all slices */
    uint16_t *activations;                 /* of the flat array; NULL: none, or ZeRO-3 */
    float *first_moments, *second_moments; /* of all slices */
    float *gathered;                       /* ZeRO-3: the buffers */
    uint16_t *gathered_activations;
    weft_request **gathers; /* of each group */
};

/* ---- sizes ---- */

struct value_sizes {
    size_t values, activations, moments, gathered, gathered_activations; /* elements */
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
    sizes.activations = config->activations && !gathers ? config->elements : 0;
    sizes.gathered_activations = config->activations ? sizes.gathered : 0;
    return sizes;
}

struct value_memory value_groups_memory(const struct value_groups_config *config, uint32_t rank, uint32_t ranks)
{
    const struct value_sizes sizes = value_sizes_of(config, rank, ranks);
    return (struct value_memory){
        .weights = sizes.values * sizeof(float),
        .moments = sizes.moments * (config->second_moments ? 2 : 1) * sizeof(float),
        .copy = sizes.activations * sizeof(uint16_t),
        .gathered = sizes.gathered * sizeof(float) + sizes.gathered_activations * sizeof(uint16_t),
    };
}

/* ---- opening ---- */

static weft_status list_slices(struct value_groups *groups, struct error *error)
{
    const struct value_groups_config *config = &groups->config;
    const size_t count = config->group_count, ranks = groups->ranks;
    groups->groups = calloc(count + 1, sizeof *groups->groups);
    groups->numbers = calloc(2 * count * ranks + 1, sizeof *groups->numbers);
    groups->gathers = calloc(count * config->buffers + 1, sizeof *groups->gathers);
    if (!groups->groups || !groups->numbers || !groups->gathers)
        return error_memory(error, count * ranks * sizeof *groups->numbers, "groups of weights");
    size_t offset = 0;
    for (uint32_t g = 0; g < count; g++) {
        struct value_group *group = &groups->groups[g];
        *group = (struct value_group){.range = config->ranges[g],
                                      .slice_offset = offset,
                                      .counts = groups->numbers + 2 * g * ranks,
                                      .firsts = groups->numbers + (2 * g + 1) * ranks};
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

/* A zeroed array that no other rank reads or writes: the room of shared memory may be limited. As shared_array_new(). */
static void *own_array(struct value_groups *groups, size_t elements, size_t element_bytes, weft_status *status,
                       struct error *error)
{
    struct device *device = groups->config.device;
    if (!elements || *status != WEFT_OK)
        return NULL;
    void *array = device->allocate(device, elements * element_bytes, "weights and optimizer state", error);
    if (!array)
        *status = WEFT_ERROR_MEMORY;
    return array;
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
    status = list_slices(groups, error);
    groups->config.ranges = NULL; /* the caller's */
    groups->values = shared_array_new(config->context, sizes.values, sizeof(float), &status, error);
    groups->gathered = shared_array_new(config->context, sizes.gathered, sizeof(float), &status, error);
    groups->activations = own_array(groups, sizes.activations, sizeof(uint16_t), &status, error);
    groups->first_moments = own_array(groups, sizes.moments, sizeof(float), &status, error);
    if (config->second_moments)
        groups->second_moments = own_array(groups, sizes.moments, sizeof(float), &status, error);
    groups->gathered_activations = own_array(groups, sizes.gathered_activations, sizeof(uint16_t), &status, error);
    if (status == WEFT_OK)
        *result = groups;
    else
        value_groups_close(groups);
    return status;
}

/* After a failure collectives may be under way. The job has been aborted, so they end at once. */
static void end_moves(struct value_groups *groups)
{
    const size_t gathers = (size_t)groups->config.group_count * groups->config.buffers;
    for (size_t i = 0; groups->gathers && i < gathers; i++)
        weft_wait(&groups->gathers[i]);
    for (uint32_t g = 0; groups->groups && g < groups->config.group_count; g++)
        weft_wait(&groups->groups[g].share);
}

void value_groups_close(struct value_groups *groups)
{
    if (!groups)
        return;
    end_moves(groups);
    struct device *device = groups->config.device;
    void *const own[] = {groups->activations, groups->first_moments, groups->second_moments,
                         groups->gathered_activations};
    for (size_t i = 0; i < ARRAY_SIZE(own); i++)
        device->release(device, own[i]);
    weft_free(groups->config.context, groups->values);
    weft_free(groups->config.context, groups->gathered);
    free(groups->groups);
    free(groups->numbers);
    free((void *)groups->gathers);
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
    const size_t flat = group->range.offset + group->slice.first;
    return (struct value_slice){
        .first = group->slice.first,
        .count = group->slice.count,
        .values = groups->values + (keeps_slices(groups) ? group->slice_offset : flat),
        .first_moments = groups->first_moments ? groups->first_moments + group->slice_offset : NULL,
        .second_moments = groups->second_moments ? groups->second_moments + group->slice_offset : NULL,
        .activations = groups->activations ? groups->activations + flat : NULL,
    };
}

void value_groups_store(struct value_groups *groups, uint32_t number, const float *whole)
{
    const struct group_range *range = &groups->groups[number].range;
    struct device *device = groups->config.device;
    if (keeps_slices(groups)) {
        const struct value_slice slice = value_groups_slice(groups, number);
        device->copy(device, slice.values, whole + slice.first, slice.count * sizeof *whole);
        return;
    }
    device->copy(device, groups->values + range->offset, whole, range->count * sizeof *whole);
    if (groups->activations)
        device->to_activations(device, range->count, whole, groups->activations + range->offset);
}

void value_groups_changed(struct value_groups *groups)
{
    struct device *device = groups->config.device;
    if (groups->activations)
        device->to_activations(device, groups->config.elements, groups->values, groups->activations);
}

/* ---- ZeRO-3 ---- */

weft_status value_groups_gather_start(struct value_groups *groups, uint32_t number, uint32_t buffer, size_t offset,
                                      struct error *error)
{
    const struct value_group *group = &groups->groups[number];
    return library_error(groups->config.context,
                         weft_allgatherv_start(value_groups_slice(groups, number).values,
                                               value_groups_values(groups, number, buffer, offset), group->counts,
                                               group->firsts, WEFT_F32, groups->comm,
                                               &groups->gathers[number * groups->config.buffers + buffer]),
                         error);
}

weft_status value_groups_gather_finish(struct value_groups *groups, uint32_t number, uint32_t buffer, size_t offset,
                                       struct error *error)
{
    struct device *device = groups->config.device;
    weft_status status = waiting_for(groups->config.context, &groups->gathers[number * groups->config.buffers + buffer],
                                     groups->config.waited, error);
    if (status == WEFT_OK && groups->config.activations)
        device->to_activations(device, groups->groups[number].range.count,
                               value_groups_values(groups, number, buffer, offset),
                               value_groups_activations(groups, number, buffer, offset));
    return status;
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
