/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a node uses, and what its program writes to event files of TensorBoard, looked at every few seconds by a thread
 * of its own: the kernel, a GPU that fails and a shared file system may all take seconds to answer, and the agent has
 * no time to wait. What is found are records for the journal:
 *
 *     JOURNAL_USAGE                         processor time, memory and number of the node's processes, without the
 *                                           agent's own memory and number
 *     JOURNAL_METRICS, JOURNAL_MEASURED     a line of (units as in the headers of insight that are named):
 *         system/node/cpu, .../memory/group     machine_metrics.h
 *         system/node/energy                    joules since the node began: its GPUs', and its part of the processors'
 *                                               by processor time (energy.h); only where something of it is known
 *         system/gpu/SLOT/used, .../memory/used, .../memory/total, .../power, .../temperature
 *                                               gpu_metrics.h; of the GPUs of the node's slots, by their numbers
 *         system/machine/...                    the whole machine: machine_metrics.h, cpu_power.h
 *     JOURNAL_METRICS, JOURNAL_EVENTS       lines of the scalars of event files (platform/metrics/read/events_directory.h); of node 0 alone, as
 *                                           all nodes of an attempt share the directory. WEFT_TENSORBOARD_DIR in the run's
 *                                           environment says where they are
 *     JOURNAL_NOTE                          what cannot be measured or found, once
 *
 * Slot n is GPU n in the order of the places on the bus, which is what platform/agent/internal/process.h has CUDA count by.
 *
 * Agents that begin at one moment take their samples at different ones: the first at some point of the second half of
 * the time between two, which is chosen by the agent's process number, so that a thousand of them do not all wake
 * together.
 *
 * A struct belongs to the agent's thread; the thread inside is its own business.
 */
#ifndef WEFT_PLATFORM_AGENT_INTERNAL_SAMPLER_H
#define WEFT_PLATFORM_AGENT_INTERNAL_SAMPLER_H

#include "platform/agent/order.h"

struct node_sampler;

struct node_sampler_config {
    const struct node_order *order; /**< outlives it */
    const char *cgroup;             /**< of the node, as cgroup_in_tree() tells it; NULL: none */
    int32_t ancestor;               /**< the process that all of the node's are below: the agent */
    double seconds;                 /**< from one sample to the next */
    const char *root;               /**< NULL: "/"; for tests, see machine_metrics.h */
    const char *nvml;               /**< NULL: NVIDIA's; for tests, see gpu_metrics.h */
};

/** Event files that are there are of earlier attempts; start the thread. Errors: SYSTEM, MEMORY. */
weft_status node_sampler_start(const struct node_sampler_config *config, struct node_sampler **sampler,
                               struct error *error);

/** Becomes readable when there are records. */
int node_sampler_descriptor(const struct node_sampler *sampler);

/** Pass on the records that there are, in their order; they are valid until the call of `take` returns. */
typedef void node_sampler_record(void *context, struct journal_record *record);
void node_sampler_take(struct node_sampler *sampler, node_sampler_record *take, void *context);

/** Have a last sample and a last look taken, pass on what they find, and end. If the thread does not answer within
 * `seconds`, it is left to itself. NULL is allowed. */
void node_sampler_stop(struct node_sampler *sampler, double seconds, node_sampler_record *take, void *context);

#endif
