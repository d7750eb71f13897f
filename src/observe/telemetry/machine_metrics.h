/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What this machine does, and what the nodes of runs on it use, sampled every few seconds from /proc and /sys.
 *
 * Values of the machine:
 *
 *     machine/cpu/used                share of all processors' time, 0 to 1: neither idle nor waiting nor stolen
 *     machine/cpu/waiting             share in which a processor had nothing to do but something waited for a disk
 *     machine/cpu/stolen              share that a hypervisor gave to others
 *     machine/memory/used             bytes: all of it, less what can be had without swapping
 *     machine/memory/total            bytes
 *     machine/swap/used               bytes; where there is swap
 *     machine/network/NAME/received   bytes a second, for each interface that has ever had traffic; the loopback is one
 *     machine/network/NAME/sent       of them, by its name: nothing is summed over interfaces
 *     machine/disk/NAME/read          bytes a second, for each whole disk that was ever used, no partitions, no disks
 *     machine/disk/NAME/written       made of files or memory; one on top of others (dm, md) is reported besides them
 *
 * Values of a node, the part of a run's attempt on this machine: a first process with its descendants, a control
 * group, or both (time and memory are then the control group's):
 *
 *     node/cpu                        processors' worth of time: 2.5 is two and a half of them; not above what there
 * are node/memory/group               bytes of the control group, less file cache that can be taken back
 *     node/memory/resident            bytes of its processes (RSS); memory that several share counts once for each
 *     node/memory/proportional        bytes of its processes, shared ones divided among those that share them (PSS);
 *                                     only in samples that ask for it
 *     node/processes                  how many it has, where processes are given
 *
 * What cannot be read or is not known yet is left out: rates come from counters (observe/telemetry/internal/counter.h), so that they begin
 * at the second sample, and leave out one in which a counter was begun again. Not thread-safe; no global state; no
 * values are made up.
 */
#ifndef WEFT_OBSERVE_TELEMETRY_MACHINE_METRICS_H
#define WEFT_OBSERVE_TELEMETRY_MACHINE_METRICS_H

#include "observe/telemetry/internal/measured_values.h"

#include <stdbool.h>
#include <stdint.h>

struct machine_metrics;

/** Sample the machine whose /proc and /sys are below the directory `root`: "/" for this one. Errors: SYSTEM if there is no
 * such directory; MEMORY. */
weft_status machine_metrics_open(const char *root, struct machine_metrics **metrics, struct error *error);
void machine_metrics_close(struct machine_metrics *metrics);

/** A node to be looked at. */
struct machine_node {
    uint64_t id;               /**< the caller's; no two nodes have the same */
    int32_t ancestor;          /**< its first process; all descendants count (observe/proc/process_times.h); or 0 */
    const char *control_group; /**< its path in the tree, as /proc/PID/cgroup tells it ("/weft/run-7"), or NULL */
};

/** Look at `node` from the next sample on. Errors: ARGUMENT if nothing says what it is, or its id is known;
 * MEMORY. */
weft_status machine_metrics_watch(struct machine_metrics *metrics, const struct machine_node *node,
                                  struct error *error);

/**
 * Take a sample at the moment `now` (clock_now()). `proportional`: with the nodes' PSS, too, which takes the kernel up
 * to milliseconds a process: now and then. Errors: MEMORY; what was measured before it ran out is there.
 */
weft_status machine_metrics_sample(struct machine_metrics *metrics, uint64_t now, bool proportional,
                                   struct error *error);

/** What a sample has found. */
struct machine_use {
    struct measured_values values; /**< as above */
    double seconds;                /**< of processor time used; grows from one sample to the next; never falls */
    uint32_t processors;           /**< of the machine; 0: not known */
};

/** Of the machine, and of the node `id` (NULL: not known); until the next sample, or the node is forgotten. */
const struct machine_use *machine_metrics_machine(const struct machine_metrics *metrics);
const struct machine_use *machine_metrics_node(const struct machine_metrics *metrics, uint64_t id);

#endif
