/* SPDX-License-Identifier: Apache-2.0 */
/* Names and properties of collectives and steps, the end of a schedule, the levels of a shape. */
#include "core/schedule/format/schedule.h"

#include "base/text.h"
#include "core/schedule/format/shape.h"

#include <stdlib.h>
#include <string.h>

static const char *const collective_names[COLLECTIVES] = {
    [COLLECTIVE_ALLREDUCE] = "allreduce",
    [COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
    [COLLECTIVE_ALLGATHER] = "allgather",
    [COLLECTIVE_BROADCAST] = "broadcast",
    [COLLECTIVE_REDUCE] = "reduce",
    [COLLECTIVE_ALLTOALL] = "alltoall",
    [COLLECTIVE_SCAN] = "scan",
    [COLLECTIVE_EXSCAN] = "exscan",
    [COLLECTIVE_GATHER] = "gather",
    [COLLECTIVE_SCATTER] = "scatter",
    [COLLECTIVE_ALLGATHERV] = "allgatherv",
    [COLLECTIVE_GATHERV] = "gatherv",
    [COLLECTIVE_SCATTERV] = "scatterv",
    [COLLECTIVE_ALLTOALLV] = "alltoallv",
    [COLLECTIVE_BARRIER] = "barrier",
    [COLLECTIVE_SENDRECEIVE] = "sendreceive",
};

static const char *const step_names[STEP_KINDS] = {
    [STEP_SEND] = "send",
    [STEP_RECEIVE] = "receive",
    [STEP_RECEIVE_REDUCE] = "receive-reduce",
    [STEP_COPY] = "copy",
    [STEP_REDUCE] = "reduce",
    [STEP_FINISH] = "finish",
    [STEP_EXPOSE] = "expose",
    [STEP_SIGNAL] = "signal",
    [STEP_AWAIT] = "await",
    [STEP_READ] = "read",
    [STEP_GATHER_REDUCE] = "gather-reduce",
    [STEP_SPREAD] = "spread",
    [STEP_REDUCE_SPREAD] = "reduce-spread",
    [STEP_DELIVER] = "deliver",
    [STEP_EXCHANGE] = "exchange",
};

const char *collective_name(enum collective collective)
{
    return (unsigned)collective < COLLECTIVES ? collective_names[collective] : "unknown";
}

weft_status collective_parse(const char *name, enum collective *collective, struct error *error)
{
    for (unsigned i = 0; i < COLLECTIVES; i++) {
        if (strcmp(name, collective_names[i]) == 0) {
            *collective = (enum collective)i;
            return WEFT_OK;
        }
    }
    const char *nearest = text_nearest(name, collective_names, COLLECTIVES);
    return error_set(error, WEFT_ERROR_ARGUMENT, "there is no collective '%s'%s%s%s", name,
                     nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

bool collective_reduces(enum collective collective)
{
    return collective == COLLECTIVE_ALLREDUCE || collective == COLLECTIVE_REDUCE_SCATTER ||
           collective == COLLECTIVE_REDUCE || collective_is_prefix(collective);
}

bool collective_is_prefix(enum collective collective)
{
    return collective == COLLECTIVE_SCAN || collective == COLLECTIVE_EXSCAN;
}

uint32_t collective_summed(enum collective collective, uint32_t rank, uint32_t ranks)
{
    return collective == COLLECTIVE_SCAN ? rank + 1 : collective == COLLECTIVE_EXSCAN ? rank : ranks;
}

bool collective_is_rooted(enum collective collective)
{
    return collective == COLLECTIVE_BROADCAST || collective == COLLECTIVE_REDUCE || collective == COLLECTIVE_GATHER ||
           collective == COLLECTIVE_SCATTER || collective == COLLECTIVE_GATHERV || collective == COLLECTIVE_SCATTERV;
}

uint32_t collective_widest_input(enum collective collective, uint32_t ranks)
{
    bool many = collective == COLLECTIVE_REDUCE_SCATTER || collective == COLLECTIVE_ALLTOALL ||
                collective == COLLECTIVE_ALLTOALLV || collective == COLLECTIVE_SCATTER ||
                collective == COLLECTIVE_SCATTERV;
    return many ? ranks : 1;
}

bool collective_is_vector(enum collective collective)
{
    return collective == COLLECTIVE_ALLGATHERV || collective_hides_sizes(collective);
}

bool collective_hides_sizes(enum collective collective)
{
    return collective == COLLECTIVE_GATHERV || collective == COLLECTIVE_SCATTERV || collective == COLLECTIVE_ALLTOALLV;
}

const char *step_kind_name(enum step_kind kind)
{
    return (unsigned)kind < STEP_KINDS ? step_names[kind] : "unknown";
}

void schedule_free(struct schedule *schedule)
{
    if (!schedule)
        return;
    free(schedule->groups);
    free(schedule->members);
    free(schedule->steps);
    free(schedule);
}

uint32_t shape_levels(const struct schedule_shape *shape)
{
    uint32_t levels = shape->nodes ? 1 : 0;
    while (levels && levels <= SHAPE_LEVELS && shape->above[levels - 1])
        levels++;
    return levels;
}

uint32_t shape_unit(const struct schedule_shape *shape, uint32_t level, uint32_t rank)
{
    uint32_t unit = shape_node(shape, rank);
    for (uint32_t i = 0; i < level; i++)
        unit = shape->above[i][unit];
    return unit;
}

uint32_t shape_units(const struct schedule_shape *shape, uint32_t level)
{
    uint32_t units = 0;
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        uint32_t unit = shape_unit(shape, level, rank);
        if (unit >= units)
            units = unit + 1;
    }
    return units;
}
