/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Weights and optimizer state, in groups, over the data axis.
 *
 *     ZeRO-0      every rank has all weights and moments
 *     ZeRO-1, 2   all weights, and the moments of its slices; after an update, weights are shared
 *     ZeRO-3      weights and moments of its slices; a group's weights are gathered into a buffer for as long as they
 *                 are used
 *
 * With `activations` there is a copy of the weights as activations for matrix products, wherever they are; under ZeRO-3
 * that is what moves, with those few values that passes read as they are.
 *
 * Not thread-safe. Gathers and shares start in the order of calls, which is the same on all ranks of the data axis.
 */
#ifndef WEFT_TRAINING_PARALLEL_SHARDING_VALUE_GROUPS_H
#define WEFT_TRAINING_PARALLEL_SHARDING_VALUE_GROUPS_H

#include "base/error.h"
#include "training/parallel/sharding/slices.h"

/** A part of a group that passes read as it is, not as activations: gains, biases. */
struct value_part {
    uint32_t group;
    size_t first, count; /**< elements of the group */
};

struct value_groups_config {
    weft_context *context;
    weft_comm *comm;                  /**< of the data axis */
    struct device *device;            /**< of f32; its activations are those of the copies */
    const struct group_range *ranges; /**< of the groups; copied */
    uint32_t group_count;
    size_t elements;                /**< of the flat array */
    uint32_t zero;                  /**< 0 to 3; 0 where there is one rank */
    bool activations;               /**< keep copies as activations, bf16 or f16 */
    const struct value_part *parts; /**< ZeRO-3 with activations: in ascending order; copied */
    uint32_t part_count;
    bool second_moments; /**< the optimizer has them */
    bool no_moments;     /**< there is no optimizer: keep values alone */
    struct value_groups
        *former;            /**< of the same part of the network; arrays that are the same there are shared with it;
                                    NULL: none is */
    uint32_t buffers;       /**< ZeRO-3: for gathered weights */
    size_t buffer_elements; /**< of each */
    double *waited;         /**< where the time of waiting for other ranks is added; NULL: nowhere */
};

struct value_groups;

/**
 * Collective. Everything is 0 at first, but what is shared with config.former: the weights, if both have the same groups
 * whole or in the same slices, and the moments of the same slices. New memory is slow when it is first touched, and most of
 * them stay the same when other ranks are lost. Shared arrays are freed with the last of the two. Errors: MEMORY, and those
 * of weft_comm_duplicate().
 */
weft_status value_groups_open(const struct value_groups_config *config, struct value_groups **groups,
                              struct error *error);
void value_groups_close(struct value_groups *groups);

/** Bytes of a rank, by kind. */
struct value_memory {
    size_t weights;  /**< the flat array, or the slices */
    size_t moments;  /**< of the optimizer */
    size_t copy;     /**< of the weights, as activations */
    size_t gathered; /**< ZeRO-3: buffers for whole groups, for those as activations, and for parts */
};

/** What rank `rank` of `ranks` allocates; context, communicator and device of `config` are not used. */
struct value_memory value_groups_memory(const struct value_groups_config *config, uint32_t rank, uint32_t ranks);

/** Where a whole group is: under ZeRO-3 in a buffer (NULL where that is UINT32_MAX), otherwise in the flat
 * array. NULL for activations that are not kept. */
float *value_groups_values(struct value_groups *groups, uint32_t group, uint32_t buffer, size_t offset);
void *value_groups_activations(struct value_groups *groups, uint32_t group, uint32_t buffer, size_t offset);

/** The flat array; NULL under ZeRO-3. */
float *value_groups_flat(struct value_groups *groups);

/** This rank's slice of a group. */
struct value_slice {
    size_t first, count;   /**< elements of the group */
    float *values;         /**< of its first element, as are the others */
    float *first_moments;  /**< NULL: there are none */
    float *second_moments; /**< NULL: the optimizer has none */
    void *activations;     /**< NULL: none are kept */
};
struct value_slice value_groups_slice(struct value_groups *groups, uint32_t group);

/** Set the values of a group from all of them, on this rank. */
void value_groups_store(struct value_groups *groups, uint32_t group, const float *whole);

/** Set weights and moments that are shared to 0. */
void value_groups_clear(struct value_groups *groups);

/** Values were set by other means: make the copies as activations again. */
void value_groups_changed(struct value_groups *groups);

/**
 * ZeRO-3: gather a group into a buffer, whose earlier contents are lost from the start on. After the end, it holds the
 * whole group until the next one is gathered there. Slices must not change between start and finish.
 *
 * `as_activations`, where they are another type: value_groups_activations() has the whole group and
 * value_groups_values() its parts (value_groups_config.parts). Otherwise value_groups_values() has all of it, and there
 * are no activations. The same between start and finish.
 */
weft_status value_groups_gather_start(struct value_groups *groups, uint32_t group, uint32_t buffer, size_t offset,
                                      bool as_activations, struct error *error);
weft_status value_groups_gather_finish(struct value_groups *groups, uint32_t group, uint32_t buffer, size_t offset,
                                       bool as_activations, struct error *error);

/** The same at once, into an array of the caller's for the whole group, which is not cast. */
weft_status value_groups_gather(struct value_groups *groups, uint32_t group, float *whole, struct error *error);

/** ZeRO-1 and 2: all ranks have new values in their slices: bring them to all ranks. The update has made the copies
 * of this rank's slice as activations (value_slice.activations); the finish makes those of the others. */
weft_status value_groups_share_start(struct value_groups *groups, uint32_t group, struct error *error);
weft_status value_groups_share_finish(struct value_groups *groups, uint32_t group, struct error *error);

#endif
