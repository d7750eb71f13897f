/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The engine of a Slurm cluster: one job for each attempt, on the nodes that the scheduler has chosen, or one for each Pod, in
 * which attempts are steps (internal/pods.h). The job starts a
 * process on each node (platform/engine/remote/host.h), and everything about the node goes over its connection to this server;
 * Slurm is asked for jobs and nodes only. Its queue has no jobs but those of attempts that have their place.
 *
 * - A job is known by its comment, "weft:PLATFORM:RUN:EPOCH:MARK", with digits of the attempt's token as the mark, never by
 *   its number: slurmctld may forget a job that it has acknowledged, and give the number to another one. A job that is
 *   forgotten before its processes have begun is submitted again; the server knows the processes of both apart.
 * - Jobs of this platform whose attempts are over are canceled.
 * - While Slurm does not answer, attempts go on and those that are to start wait.
 * - A node that Slurm has down or drained, or that others use, takes nothing new (`up` of hosts(), with the reason).
 * - The job's time limit is longer than the attempt's, which Weft itself keeps.
 *
 * Slots are the GPUs of a node (GRES "gpu"), or its processors where it has none, at most 64. Which of them an attempt gets Slurm decides;
 * CUDA_VISIBLE_DEVICES says so. Pods are the lowest switches of Slurm's topology; without one, all nodes are one Pod.
 *
 * Nodes have the directories of runs under the same path as this server, on storage that is shared; or they have nothing of its
 * disk, and each run's files are brought to its nodes' own disks (platform/engine/remote/remote.h). Checkpoints stay there
 * then: an attempt on other nodes does not find those of the attempt before. Processes are those of the order's user, if this
 * server is root, or of the server's.
 */
#ifndef WEFT_PLATFORM_ENGINE_SLURM_SLURM_H
#define WEFT_PLATFORM_ENGINE_SLURM_SLURM_H

#include "platform/engine/engine.h"

struct engine_slurm_config {
    const char *directory; /**< an absolute path; created if missing */
    const char *platform;  /**< its name */
    const char *login;     /**< "user@host": Slurm's commands run there over ssh; NULL: here */
    const char *partition; /**< NULL: Slurm's default one */
    const char *address;   /**< by which nodes reach this server; NULL: this machine's name */
    uint16_t port;         /**< that nodes connect to; 0: a free one */
    const char *weft;      /**< the command as it is found on the nodes: an absolute path */
    const char *shared;    /**< the directory that nodes share with this server, which has those of runs; NULL: none */
    const char *scratch;   /**< directory on each node's own disk; an absolute path */
    uint64_t hold;         /**< seconds for which a job holds each Pod; 0: each attempt has a job of its own */
};

/** engine->close() frees it; jobs go on. Errors: those of slurm_commands_open(), slurm_nodes() and remote_open(); ARGUMENT if
 * there is no node. */
weft_status engine_slurm_open(const struct engine_slurm_config *config, struct engine **engine, struct error *error);

#endif
