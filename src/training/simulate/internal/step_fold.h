/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Ranks folded into classes, and what connects the classes: channels and the resources that they share.
 *
 * A *channel* carries asynchronous activities, or the collectives within passes, one after the other: messages to one
 * neighbor of the pipeline, the collectives of a group. A *resource* is one direction of a unit of a level of links: a
 * rank, an interface of a host, a leaf, a pod. One channel stands for all channels between the same classes, one resource
 * for all of a class of units; `weight` says how much of the traffic of the former passes one of the latter.
 *
 * Messages of different pipelines that leave the same interface *take turns* there (step_network.h), so their ranks are
 * not alike: each pipeline of an interface has a number, its turn, which several share where there are more than four.
 * Ranks of a tensor group send at the same time, and have one turn together.
 */
#ifndef WEFT_TRAINING_SIMULATE_INTERNAL_STEP_FOLD_H
#define WEFT_TRAINING_SIMULATE_INTERNAL_STEP_FOLD_H

#include "training/simulate/step_prices.h"
#include "training/simulate/step_simulate.h"

enum step_channel_kind {
    CHANNEL_TO_NEXT, /**< from the class channel->classes[0] to classes[1] */
    CHANNEL_TO_PREVIOUS,
    CHANNEL_TIE,    /**< of the first and the last pipeline rank, both ways */
    CHANNEL_DATA,   /**< of a group of the data axis */
    CHANNEL_TENSOR, /**< of a group of the tensor axis */
    CHANNEL_KINDS
};

/** What a channel takes of a resource: `weight` times the bytes that leave the busiest unit of the resource's level. */
struct step_use {
    uint32_t resource;
    uint32_t level;
    double weight;
};

struct step_channel {
    enum step_channel_kind kind;
    uint32_t first_class, class_count; /**< of its ranks: channel_classes[first_class ...] */
    uint32_t group_class;              /**< of a group: that of its prices */
    uint32_t level;                    /**< of messages: where their ends differ */
    struct step_use *uses;
    uint32_t use_count;
    uint32_t turn_resource; /**< of messages: the way out of the sender's interface, if they leave it; STEP_NONE */
    uint32_t turn;          /**< among those of that interface */
};

struct step_fold {
    uint32_t class_count;
    uint32_t *class_of;        /**< of each rank */
    uint32_t *representative;  /**< of each class: its first rank */
    uint32_t *size;            /**< of each class */
    uint32_t *next, *previous; /**< of each class: those of its neighbors in the pipeline, around the end */
    struct step_channel *channels;
    uint32_t channel_count;
    uint32_t *channel_classes, channel_class_count;
    uint32_t *channel_of[CHANNEL_KINDS]; /**< of each class, the channel that it sends on or belongs to; STEP_NONE */
    uint32_t resource_count;
    double *capacity; /**< of each resource, bytes/s; INFINITY: it is never shared */
    uint32_t *resource_level;
    uint32_t *resource_units; /**< how many it stands for; resources 2 i and 2 i + 1 are the two directions of a unit:
                                 out and in */
};

/** Fold the ranks of `costs`; step_fold_free() frees the fold, also after an error. Errors: ARGUMENT, MEMORY. */
weft_status step_fold_open(const struct step_costs *costs, const struct step_options *options, struct step_fold *fold,
                           struct error *error);
void step_fold_free(struct step_fold *fold);

#endif
