/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The builder: generators write a schedule with it, one step at a time, lane by lane.
 *
 *     struct builder builder;
 *     builder_open(&builder, shape, rank, "ring", error);
 *     builder_add(&builder, lane, (struct step){.kind = STEP_SEND, ...});
 *     return builder_close(&builder, schedule, error);
 *
 * builder_close() reports memory that ran out on the way. Not thread-safe; a builder belongs to one call.
 */
#ifndef WEFT_CORE_SCHEDULE_GENERATORS_BUILDER_H
#define WEFT_CORE_SCHEDULE_GENERATORS_BUILDER_H

#include "core/schedule/generators/generate.h"

/** In step.wait_steps while building: all the steps the lane will have when the schedule is closed. */
#define BUILDER_ALL UINT16_MAX

struct builder {
    struct schedule *schedule; /**< the frame: blocks, parts, segments, slots may be set until builder_close() */
    const struct schedule_shape *shape;
    struct {
        struct step *steps;
        uint32_t count;
        size_t room;
    } lanes[SCHEDULE_LANES];
    uint64_t text_hash; /**< of the text that the schedule is read from; 0: written by a generator */
    struct step excess; /**< overwritten by the steps that are too many */
    bool exhausted;     /**< memory ran out, or the schedule exceeds the range of a step's fields */
};

/** A dependency of a step: `steps` completed steps of `lane`; steps 0: none. */
struct dependency {
    uint8_t lane;
    uint8_t lag;
    uint16_t steps;
};

/**
 * Begin the schedule of `rank`: input and output blocks by the collective, 1 part, 1 slot, not segmented. `algorithm`
 * is static text.
 */
weft_status builder_open(struct builder *builder, const struct schedule_shape *shape, uint32_t rank,
                         const char *algorithm, struct error *error);

/**
 * Append an empty step to a lane, to begin only after `after`; returns it, to be filled in before the next is appended.
 */
struct step *builder_append(struct builder *builder, uint32_t lane, struct dependency after);

/** Append a step to a lane; returns the dependency on its completion. */
struct dependency builder_add(struct builder *builder, uint32_t lane, struct step step);

/** The same, beginning only after `after`. */
struct dependency builder_add_after(struct builder *builder, uint32_t lane, struct dependency after, struct step step);

/**
 * Hold `lane` until `after` with an empty copy (nothing is added when there is nothing to wait for). In a schedule that
 * is not segmented, waits for earlier iterations are left out; call builder_segment() first.
 */
void builder_hold(struct builder *builder, uint32_t lane, struct dependency after);

/** The same to protect staging: a rank whose buffers are registered is not held. */
void builder_hold_staging(struct builder *builder, uint32_t lane, struct dependency after);

/** The dependency on all steps added to `lane` so far. */
struct dependency builder_now(const struct builder *builder, uint32_t lane);

/** All steps of `lane`, also those added later, `lag` iterations back. */
struct dependency builder_all(uint32_t lane, uint32_t lag);

/** The index of the group of these ranks, in this order; equal groups are one. */
uint32_t builder_group(struct builder *builder, const uint32_t *members, uint32_t count);

/** The group of all ranks of the communicator, and of its first `count`. */
uint32_t builder_group_of_all(struct builder *builder);
uint32_t builder_group_of_first(struct builder *builder, uint32_t count);

/**
 * Loop over segments of `bytes` bytes when the blocks to schedule for are larger, with `slots` copies of scratch and
 * staging. Returns whether the schedule is segmented.
 */
bool builder_segment(struct builder *builder, uint64_t bytes, uint32_t slots);

/** Have at least `chunks` chunks of scratch. */
void builder_scratch(struct builder *builder, uint32_t chunks);

/** Free everything without making a schedule. */
void builder_discard(struct builder *builder);

/** Lay out the steps, compute the hash, hand over the schedule. Frees everything on failure. */
weft_status builder_close(struct builder *builder, struct schedule **schedule, struct error *error);

#endif
