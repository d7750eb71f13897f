/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The layout of an executor: its stages, layers, schedules, rows and groups. It follows from the configuration and the
 * rank's place in the mesh. open.c allocates by it, and memory.c counts what that takes.
 *
 * Local, and without any memory on a device. Functions read the members `config`, `description`, `data`, `pipeline`,
 * `data_rank` and `pipeline_rank` of the executor, and all but the first need executor_lay_out().
 */
#ifndef WEFT_TRAINING_PARALLEL_EXECUTE_INTERNAL_LAYOUT_H
#define WEFT_TRAINING_PARALLEL_EXECUTE_INTERNAL_LAYOUT_H

#include "training/parallel/execute/internal/executor_parts.h"

/**
 * Set the ranks on each axis and the place of this rank. ZeRO is off on a data axis of one rank.
 *
 * `config` is copied; the description becomes the executor's, and is restricted later.
 */
void executor_place(struct executor *executor, const struct executor_config *config, const uint32_t point[MESH_AXES]);

/**
 * Cut the network into stages, restrict the description to this rank's layers, and write its schedules, which are not
 * proved yet. Sets `first_unit`, `row_elements`, `has_layer`, `training` and `evaluation`; executor_layout_free() frees
 * them, whatever this returns. Errors: ARGUMENT if a schedule does not exist; MEMORY.
 */
weft_status executor_lay_out(struct executor *executor, struct error *error);

/** The same for a description that is divided already, with schedules that only count: step_count(). The stages are those
 * of config.description, the whole network. */
weft_status executor_lay_out_memory(struct executor *executor, struct error *error);
void executor_layout_free(struct executor *executor);

/** The options of the rank's model. `layers` is the executor's list. */
struct model_options executor_model_options(const struct executor *executor);

/** Buffers of rows that enter stages, of rows that move on, and of gradients: `bytes` each. */
struct executor_rows {
    size_t bytes;
    size_t inputs, outputs, gradients;
};
struct executor_rows executor_rows_of(const struct executor *executor);

/** The groups of weights and of gradients on this rank, with communicators only where the executor has them. */
struct executor_groups {
    struct group_range *ranges; /**< of the groups, and of the second part of a tied table's gradient */
    struct value_part *parts;
    struct value_groups_config values;
    struct gradient_groups_config gradients;
};

/** executor_groups_free() frees the lists. Errors: MEMORY. */
weft_status executor_groups_of(const struct executor *executor, struct executor_groups *groups, struct error *error);
void executor_groups_free(struct executor_groups *groups);

/** The sparse part of a tied table's gradient; false: this rank has none. */
bool executor_sparse_table_of(const struct executor *executor, struct sparse_gradient_config *table);

/** Bytes for the slice of a tied table's gradient that comes from another pipeline rank; 0: none does, or its rows. */
size_t executor_tied_bytes(const struct executor *executor);

/** Bytes for the two vectors of the widest batch norm of all ranks of the data axis; 0: they are not synchronized. */
size_t executor_norm_bytes(const struct executor *executor);

#endif
