/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The interface of engines, which run attempts: on this host (platform/engine/local/local.h), on the nodes of a Slurm cluster
 * (platform/engine/slurm/slurm.h), or simulated (tests).
 *
 * Rules for every engine:
 *
 * - Run and epoch (struct attempt) identify an attempt, not a number of the engine. start() is idempotent; after a crash of
 *   the caller, the same call completes it. An engine on top of a batch system submits both with the job and finds
 *   it by them.
 * - start() with a newer epoch of a run ends older ones; with an older epoch it fails. No program of an attempt starts
 *   on a host before those of older attempts have ended there.
 * - All nodes start or none: if one cannot be started, start() fails, and stop() ends the others.
 * - The events of a node are records (journal.h), numbered from 1 and kept until forget(). poll() returns them from any
 *   number on, repeatedly. A caller that stores the last number together with its own results processes each once.
 * - A node ends once, with JOURNAL_EXITED or JOURNAL_LOST. If the run itself kills the agent, that is an EXITED. LOST
 *   means that nothing of the node runs any more (this host), or that its state is unknown (other hosts, where the
 *   fence stops what may still run).
 * - A node that ends before its command started has no JOURNAL_STARTED and exit code 75 ("run me again"). Only a program
 *   can report success.
 * - Attempts continue without the caller; attempts() lists them.
 * - An engine belongs to one platform (registry). An attempt of another platform is never mistaken for one of this
 *   platform, whatever its run's number. attempts() lists it, so that stop() can end it.
 * - The end of one node does not end the others. The caller stops them.
 *
 * Times are in milliseconds. An engine belongs to one thread at a time. No function waits longer than some milliseconds
 * for a program, a network or a host. Errors unless stated otherwise: SYSTEM if this host refuses something; STATE for
 * an unknown attempt.
 */
#ifndef WEFT_PLATFORM_ENGINE_ENGINE_H
#define WEFT_PLATFORM_ENGINE_ENGINE_H

#include "base/error.h"
#include "platform/agent/journal/journal.h"
#include "platform/agent/link.h"

#include <stdbool.h>
#include <stdint.h>

/** A node of an attempt: slots of a host. */
struct engine_place {
    const char *host;
    const uint32_t *slots; /**< their numbers on the host */
    uint32_t count;
};

/** Where the command of an order is started. */
enum engine_launch {
    ENGINE_EACH_NODE,  /**< once on each node */
    ENGINE_FIRST_NODE, /**< on node 0; the others only wait: for `weft run` on it, or for exec() */
    ENGINE_RANKS,      /**< as ranks, one a slot, by `weft run` on node 0; the others only wait */
};

/** The files of a run, for hosts that have nothing of this machine's disk. */
struct engine_files {
    const char *store;    /**< directory of the store that has the snapshot (platform/snapshot/snapshot.h) */
    const char *snapshot; /**< its id; "": none, and the working directory is empty */
};

/** What to start. The engine copies what it needs. */
struct engine_order {
    struct attempt attempt;
    const struct engine_place *places; /**< by node */
    uint32_t nodes;
    uint32_t min_nodes;       /**< ENGINE_RANKS: so many suffice, and ranks go on without the others; 0: all */
    uint32_t restarts;        /**< and then so many ranks that fail are replaced */
    char *const *command;     /**< ends with NULL; started as `launch` says */
    char *const *environment; /**< "NAME=VALUE", for every node, WEFT_CHECKPOINT_DIR among them; ends with NULL */
    char *const *secrets;     /**< "VARIABLE=PLACE" in the store at `secret_directory` (secret_store.h); NULL: none */
    const char *secret_directory;
    const char
        *directory; /**< absolute, exists on every host: where the command runs. With `files`, hosts use one of their
                                own instead, and for WEFT_CHECKPOINT_DIR, too */
    const struct engine_files *files; /**< for an engine that `sends_files`; NULL: every host has the directory */
    const char *user;                 /**< user of the processes; NULL or "": the engine's */
    bool gpus;                        /**< the slots are GPUs */
    enum engine_launch launch;
    uint64_t grace;        /**< from a stop to SIGKILL; 0: 30 s */
    uint64_t time_limit;   /**< 0: none */
    uint64_t heartbeat;    /**< between two JOURNAL_HEARTBEAT and JOURNAL_USAGE of a node; 0: the engine's */
    uint64_t output_bytes; /**< output kept of each node; 0: 256 MiB */
    uint64_t memory;       /**< bytes that each node may use; 0: what comes with its slots */
    uint32_t processors;   /**< that each node may use; 0: likewise */
    uint64_t processes;    /**< that each node may have, threads included; 0: 1,024 for each slot */
    uint64_t file_bytes;   /**< the largest file that its processes may write; 0: no limit */
    uint64_t lease;        /**< how long the attempt continues without a poll; 0: forever */
    uint64_t duration;     /**< virtual time that it takes; only for the simulation */
};

/** How an attempt is to end. */
enum engine_end {
    ENGINE_STOP,       /**< SIGTERM, the grace period, SIGKILL */
    ENGINE_CHECKPOINT, /**< SIGUSR1 asks for a checkpoint and exit code 75; the grace period, SIGKILL */
    ENGINE_KILL,       /**< SIGKILL */
};

/** A host of the engine. */
struct engine_host {
    const char *name;
    const char *pod; /**< hosts joined by one fast fabric; "": not known */
    uint32_t slots;
    bool gpus;
    bool up;                    /**< false: nothing can start there now */
    const char *reason;         /**< why not; "" while it is up */
    int64_t processors, memory; /**< of all its slots together, memory in bytes; 0: not known */
};

enum engine_node_state {
    ENGINE_NODE_STARTING, /**< ordered; no record yet */
    ENGINE_NODE_RUNNING,
    ENGINE_NODE_ENDED,
};

struct engine_node {
    uint32_t node, nodes;
    const char *host;
    enum engine_node_state state;
};

/** Callbacks; false ends the call early, with WEFT_OK. Pointers are valid until the callback returns. */
typedef bool engine_record_visit(void *context, const struct journal_record *record);
typedef bool engine_attempt_visit(void *context, const struct attempt *attempt, uint32_t nodes, bool own);
typedef bool engine_node_visit(void *context, const struct engine_node *node);
typedef bool engine_host_visit(void *context, const struct engine_host *host);
typedef bool engine_heard_visit(void *context, const struct attempt *attempt, uint32_t node);

struct engine {
    const char *name; /**< "local", "slurm", "simulated" */

    /** start() asks this machine only: if it fails with SYSTEM, it fails for all hosts now. */
    bool refuses_for_all;

    /** Whether its hosts are up changes while it is open: hosts() is asked now and then. */
    bool hosts_change;

    /** Its hosts have nothing of this machine's disk: orders have `files`, which it brings there. */
    bool sends_files;

    /** Upper bound of the time between two records of a live node, unless its order sets one. 0: a node may be silent. */
    uint64_t heartbeat;

    /**
     * A descriptor that is readable when poll() may have more, or -1: then poll regularly (also with a descriptor: once
     * per second). heard() names the nodes, and poll() of these clears the condition.
     */
    int descriptor;

    /** See above. Errors: ARGUMENT for unknown hosts or slots; STATE for an old epoch. */
    weft_status (*start)(struct engine *engine, const struct engine_order *order, struct error *error);

    /**
     * Order all nodes of an attempt to end; does not wait for them. `grace` counts from the call (0: the order's). A
     * later call can only shorten the time.
     */
    weft_status (*stop)(struct engine *engine, const struct attempt *attempt, enum engine_end how, uint64_t grace,
                        struct error *error);

    /** Append a message for people (JOURNAL_NOTE) to the records of an attempt's first node; lost if that has ended. */
    weft_status (*remark)(struct engine *engine, const struct attempt *attempt, const char *message,
                          struct error *error);

    /** Pass the available records of a node after number `after` to `visit`. Errors: DATA if they are damaged: later
     * ones cannot be read, so kill the node with gone() and treat it as lost. */
    weft_status (*poll)(struct engine *engine, const struct attempt *attempt, uint32_t node, uint64_t after,
                        engine_record_visit *visit, void *context, struct error *error);

    /**
     * For a node whose records cannot be read: whether nothing of it runs any more (also if it is unknown). With `kill`
     * the engine ends it: call again until `*gone`; then no poll is needed. Errors: SYSTEM, for now.
     */
    weft_status (*gone)(struct engine *engine, const struct attempt *attempt, uint32_t node, bool kill, bool *gone,
                        struct error *error);

    /** The nodes for which the descriptor is readable. NULL without a descriptor: any may have more. */
    weft_status (*heard)(struct engine *engine, engine_heard_visit *visit, void *context, struct error *error);

    /** All attempts that were started and not forgotten; those of other platforms are not `own`. nodes() and stop() work
     * for all. */
    weft_status (*attempts)(struct engine *engine, engine_attempt_visit *visit, void *context, struct error *error);

    /** The nodes of an attempt. */
    weft_status (*nodes)(struct engine *engine, const struct attempt *attempt, engine_node_visit *visit, void *context,
                         struct error *error);

    /**
     * Run another command in a node's context (node_process_start()). For `exec` see platform/agent/link.h. Errors: STATE
     * if the node does not run; ARGUMENT if the engine does not support it.
     */
    weft_status (*exec)(struct engine *engine, const struct attempt *attempt, uint32_t node,
                        const struct node_exec_order *order, struct node_exec *exec, struct error *error);

    weft_status (*hosts)(struct engine *engine, engine_host_visit *visit, void *context, struct error *error);

    /** Remove all data of an attempt whose nodes have ended; an unknown attempt is fine. Errors: STATE if a node has not
     * ended. */
    weft_status (*forget)(struct engine *engine, const struct attempt *attempt, struct error *error);

    /** Free it; attempts continue. */
    void (*close)(struct engine *engine);
};

#endif
