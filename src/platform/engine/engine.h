/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What runs attempts: this machine (platform/engine/local/local.h) and others that can fill in this table of functions, such as the
 * simulated engine of the tests.
 *
 * The rules that every engine keeps, and that a caller may build on:
 *
 * - An attempt is known by run and epoch (attempt.h), never by a number of the engine's own. start() with the same
 *   attempt again does nothing that was done before; after a crash of the caller in the midst of it, the same call
 *   completes it. An engine on top of a batch system writes attempt_token() to what it submits, and finds it by that.
 * - start() with a newer epoch of a run ends older ones; with an older epoch it fails. No program of an attempt begins
 *   on a host before those of older ones there have ended.
 * - All nodes are started or none: where some cannot be, start() fails, and stop() ends those that were.
 * - What happens on a node is a sequence of records (journal.h), numbered from 1, kept by the engine until forget().
 *   poll() gives them from any number on, as often as asked. A caller that keeps the number of the last one together
 *   with what it has made of it takes each exactly once.
 * - A node ends once, with JOURNAL_EXITED or JOURNAL_LOST. What the run itself does to the agent is an EXITED. LOST
 *   means that nothing of the node runs any more (on this machine), or that nobody can know (elsewhere: the fence holds
 *   back what may still run).
 * - A node that is ended before its command began has no JOURNAL_STARTED, and the exit code 75 ("run me again"):
 *   nothing but a program says that it has ended well.
 * - Attempts go on without the caller, and attempts() names them to one that returns.
 * - An engine belongs to one platform, a registry: an attempt that another one has left is not known here, whatever its
 *   run's number, and never taken for one of this platform. attempts() tells of it, so that it can be ended by stop().
 * - An engine does not judge: that one node has ended does not end the others. Its caller stops them.
 *
 * Times are in milliseconds. An engine belongs to one thread at a time; no function waits for a program, a network or a
 * host for longer than some milliseconds. Errors, unless said otherwise: SYSTEM where this machine refuses something;
 * STATE for an attempt that the engine does not know.
 */
#ifndef WEFT_PLATFORM_ENGINE_ENGINE_H
#define WEFT_PLATFORM_ENGINE_ENGINE_H

#include "base/error.h"
#include "platform/agent/journal/attempt.h"
#include "platform/agent/journal/journal.h"
#include "platform/agent/link.h"

#include <stdbool.h>
#include <stdint.h>

/** One node of an attempt: so many slots of a host. */
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

/** What to start. Nothing of it is kept by the caller's pointers. */
struct engine_order {
    struct attempt attempt;
    const struct engine_place *places; /**< by node */
    uint32_t nodes;
    char *const *command;     /**< ends with NULL; started as `launch` says */
    char *const *environment; /**< "NAME=VALUE", for every node, WEFT_CHECKPOINT_DIR among them; ends with NULL */
    char *const *secrets;     /**< "VARIABLE=PLACE" in the store at `secret_directory` (secret_store.h); NULL: none */
    const char *secret_directory;
    const char *directory; /**< absolute, and there on every host: where the command runs */
    const char *user;      /**< whose processes they are; NULL or "": the engine's */
    bool gpus;             /**< the slots are GPUs */
    enum engine_launch launch;
    uint64_t grace;        /**< from a wish to end to its enforcement; 0: 30 s */
    uint64_t time_limit;   /**< 0: none */
    uint64_t heartbeat;    /**< between two JOURNAL_HEARTBEAT and JOURNAL_USAGE of a node; 0: the engine's */
    uint64_t output_bytes; /**< of output that is kept of each node; 0: 256 MiB */
    uint64_t memory;       /**< bytes that each node may use; 0: what comes with its slots */
    uint32_t processors;   /**< that each node may use; 0: likewise */
    uint64_t processes;    /**< that each node may have, threads included; 0: 1,024 for each slot */
    uint64_t file_bytes;   /**< the largest file that its processes may write; 0: no limit */
    uint64_t lease;        /**< how long the attempt goes on if nobody polls it; 0: for ever */
    uint64_t duration;     /**< what it takes in virtual time; the simulation alone reads it */
};

/** How an attempt is to end. */
enum engine_end {
    ENGINE_STOP,       /**< SIGTERM, the grace period, SIGKILL */
    ENGINE_CHECKPOINT, /**< SIGUSR1: a checkpoint and exit code 75 are wanted; the grace period, SIGKILL */
    ENGINE_KILL,       /**< SIGKILL */
};

/** A host that the engine has. */
struct engine_host {
    const char *name;
    const char *pod; /**< the hosts that are joined by one fast fabric with it; "": those of which nothing is known */
    uint32_t slots;
    bool gpus;
    bool up;                    /**< false: nothing can be started there now */
    const char *reason;         /**< why not; "" while it is up */
    int64_t processors, memory; /**< of all its slots together, memory in bytes; 0: not known */
};

enum engine_node_state {
    ENGINE_NODE_STARTING, /**< asked for; nothing was heard of it yet */
    ENGINE_NODE_RUNNING,
    ENGINE_NODE_ENDED,
};

struct engine_node {
    uint32_t node, nodes;
    const char *host;
    enum engine_node_state state;
};

/** What is given out of a call; false ends the call early, with WEFT_OK. Pointers are valid until it returns. */
typedef bool engine_record_visit(void *context, const struct journal_record *record);
typedef bool engine_attempt_visit(void *context, const struct attempt *attempt, uint32_t nodes, bool own);
typedef bool engine_node_visit(void *context, const struct engine_node *node);
typedef bool engine_host_visit(void *context, const struct engine_host *host);
typedef bool engine_heard_visit(void *context, const struct attempt *attempt, uint32_t node);

struct engine {
    const char *name; /**< "local", "simulated" */

    /** All hosts are this machine: what start() cannot do (SYSTEM) it can do on none of them at the moment. */
    bool one_machine;

    /** Milliseconds between two records of a node that lives, at the most, where its order says nothing else. 0: a node
     * may be silent. */
    uint64_t heartbeat;

    /**
     * A descriptor that becomes readable when poll() may have more to give, or -1 if there is none: then poll from time
     * to time (and with one, too: once a second). heard() names what has more, and poll() of that makes it quiet again.
     */
    int descriptor;

    /** See above. Errors: ARGUMENT for hosts or slots that there are not; STATE for an old epoch. */
    weft_status (*start)(struct engine *engine, const struct engine_order *order, struct error *error);

    /**
     * Have all nodes of an attempt end; done once it was asked for, however long they take. A later call can only
     * shorten the time: `grace` counts from the call (0: the order's).
     */
    weft_status (*stop)(struct engine *engine, const struct attempt *attempt, enum engine_end how, uint64_t grace,
                        struct error *error);

    /** Put a message for people into the records of an attempt's first node, as JOURNAL_NOTE; lost where that has
     * ended.
     */
    weft_status (*remark)(struct engine *engine, const struct attempt *attempt, const char *message,
                          struct error *error);

    /** Give the records of a node behind number `after`, those that are there by now, to `visit`. Errors: DATA
     * where what was written is damaged: what lies behind that will not be known, so kill the node and take it as lost,
     * by gone().
     */
    weft_status (*poll)(struct engine *engine, const struct attempt *attempt, uint32_t node, uint64_t after,
                        engine_record_visit *visit, void *context, struct error *error);

    /**
     * Of a node whose records cannot be had: `*gone` tells whether nothing of it runs any more. With `kill` it is seen
     * to that nothing will: ask again until that is so, and nobody need poll it again. Nothing of one that the engine
     * does not know runs. Errors: SYSTEM where it cannot be found out, or done, at the moment.
     */
    weft_status (*gone)(struct engine *engine, const struct attempt *attempt, uint32_t node, bool kill, bool *gone,
                        struct error *error);

    /** The nodes because of which the descriptor is readable. NULL where there is no descriptor: any may have more. */
    weft_status (*heard)(struct engine *engine, engine_heard_visit *visit, void *context, struct error *error);

    /** Every attempt that was started and not forgotten; those of other platforms are not `own`. nodes() and stop() may
     * be called of each. */
    weft_status (*attempts)(struct engine *engine, engine_attempt_visit *visit, void *context, struct error *error);

    /** The nodes of an attempt. */
    weft_status (*nodes)(struct engine *engine, const struct attempt *attempt, engine_node_visit *visit, void *context,
                         struct error *error);

    /**
     * Run a command beside what a node runs, in its context (platform/agent/internal/process.h). `exec` is heard and closed as platform/agent/link.h
     * says. Errors: STATE if the node does not run; ARGUMENT where the engine cannot do it at all.
     */
    weft_status (*exec)(struct engine *engine, const struct attempt *attempt, uint32_t node,
                        const struct node_exec_order *order, struct node_exec *exec, struct error *error);

    weft_status (*hosts)(struct engine *engine, engine_host_visit *visit, void *context, struct error *error);

    /** Remove what is kept of an attempt whose nodes have all ended; of one that is not known nothing is kept. Errors:
     * STATE if one has not ended. */
    weft_status (*forget)(struct engine *engine, const struct attempt *attempt, struct error *error);

    /** Free it; what runs goes on. */
    void (*close)(struct engine *engine);
};

#endif
