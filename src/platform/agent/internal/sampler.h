/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Samples what a node uses, and reads event files of TensorBoard, every few seconds in a thread: the kernel, a failing
 * GPU and a shared file system may all block for seconds, and the agent cannot wait. Results are records for the
 * journal:
 *
 *     JOURNAL_USAGE                         processor time, memory and number of the node's processes, without the agent
 *     JOURNAL_METRICS, JOURNAL_MEASURED     a line with (units as in the named headers of observe/telemetry)
 *         system/node/cpu, .../memory/group     machine_metrics.h
 *         system/node/energy                    joules since the node began: its GPUs', and its share of the processors'
 *                                               by processor time (energy.h); only if some of it is known
 *         system/gpu/SLOT/used, .../memory/used, .../memory/total, .../power, .../temperature
 *                                               gpu_metrics.h; GPUs of the node's slots, by slot number
 *         system/machine/...                    the whole host: machine_metrics.h, cpu_power.h
 *     JOURNAL_METRICS, JOURNAL_EVENTS       lines with the scalars of event files (platform/metrics/read/events_directory.h).
 *                                           Only node 0 reads them, because all nodes of an attempt share the directory.
 *                                           WEFT_TENSORBOARD_DIR in the run's environment names it
 *     JOURNAL_NOTE                          what cannot be measured or found, once
 *     JOURNAL_UNFIT                         a GPU of the node's slots is ill (observe/telemetry/gpu_health.h): at most one
 *                                           record for each, whatever becomes of it later
 *
 * GPUs of other slots are not examined: other nodes report theirs.
 *
 * Slot n is GPU n in PCI bus order, the order that platform/agent/internal/process.h sets for CUDA.
 *
 * The first sample comes at a point in the second half of the period that depends on the agent's process id, so that a
 * thousand agents started together do not wake together.
 *
 * A struct belongs to the agent's thread.
 */
#ifndef WEFT_PLATFORM_AGENT_INTERNAL_SAMPLER_H
#define WEFT_PLATFORM_AGENT_INTERNAL_SAMPLER_H

#include "platform/agent/order.h"

struct node_sampler;

struct node_sampler_config {
    const struct node_order *order; /**< outlives it */
    const char *cgroup;             /**< of the node, from cgroup_in_tree(); NULL: none */
    int32_t ancestor;               /**< the ancestor of all of the node's processes: the agent */
    double seconds;                 /**< from one sample to the next */
    const char *root;               /**< NULL: "/"; for tests, see machine_metrics.h */
    const char *nvml;               /**< NULL: NVIDIA's; for tests, see gpu_metrics.h */
};

/** Start the thread. Event files that exist already belong to earlier attempts and are skipped. Errors: SYSTEM, MEMORY. */
weft_status node_sampler_start(const struct node_sampler_config *config, struct node_sampler **sampler,
                               struct error *error);

/** Readable when there are records. */
int node_sampler_descriptor(const struct node_sampler *sampler);

/** Pass pending records to `take`, in order; they are valid until it returns. */
typedef void node_sampler_record(void *context, struct journal_record *record);
void node_sampler_take(struct node_sampler *sampler, node_sampler_record *take, void *context);

/** Take a last sample, pass on its records, and end the thread. A thread that does not answer within `seconds` is
 * abandoned. NULL is allowed. */
void node_sampler_stop(struct node_sampler *sampler, double seconds, node_sampler_record *take, void *context);

#endif
