/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Attempts whose nodes are on other hosts: the part of an engine that is the same however processes get there. The engine
 * on top (platform/engine/slurm/slurm.h) has a process started on each host, by a batch system; that process
 * (host.h) connects to the server, proves by the attempt's token whose it is, gets its order, and from then on everything
 * goes over this connection: records, stops, commands in the node.
 *
 * The directory has for each node what the local engine's has (platform/engine/directory.h): the order, and a copy of the
 * journal that the host keeps. So records are read from files here, and a server that is restarted asks hosts for what
 * followed. Beside them are
 *
 *     ROOT/RUN/EPOCH/NODE/ended       exists when the end of the node is in its journal
 *     ROOT/RUN/EPOCH/token            what the attempt's hosts prove themselves by
 *     ROOT/RUN/EPOCH/NODE/instance    the process that has the node; another one that asks for it is refused, so a
 *                                     batch system that starts a job twice does not start the node twice
 *
 * A host that was connected and has not been heard for REMOTE_LOSS_SECONDS is lost: its node's journal ends here, and it
 * is refused if it comes back; then it kills what it still has. A server that has just begun waits
 * REMOTE_RETURN_SECONDS for the hosts of before.
 *
 * Storage is shared or not. If it is, the directories of runs are below a directory that the hosts have under the same path;
 * a host that does not find there what was written here cannot start its node. If it is not, hosts fetch the snapshot of a
 * run over their connections, object by object. Each keeps a store of them, so that it fetches none twice. Beside the orders is then
 *
 *     ROOT/RUN/EPOCH/files            the id of the snapshot, and the path of the store that has it, a line each
 *
 * A thread of its own speaks to the hosts. The functions below belong to the thread of the engine. Functions named as
 * those of struct engine do what engine.h says.
 */
#ifndef WEFT_PLATFORM_ENGINE_REMOTE_REMOTE_H
#define WEFT_PLATFORM_ENGINE_REMOTE_REMOTE_H

#include "platform/agent/order.h"
#include "platform/engine/engine.h"

#define REMOTE_LOSS_SECONDS   5.0
#define REMOTE_RETURN_SECONDS 30.0

#define REMOTE_FENCES      ".fences" /**< beside the directories of runs, on shared storage: fences, as in order.h */
#define REMOTE_TOKEN_BYTES 65        /**< of a token with its NUL: 32 random bytes in hexadecimal digits */

struct remote;

struct remote_config {
    const char *directory; /**< an absolute path; created if missing */
    const char *platform;  /**< written to each order: NODE_PLATFORM_BYTES. NULL: none */
    const char *host;      /**< the address to listen at; NULL: all of this machine */
    uint16_t port;         /**< 0: the one of the last time if it is free, or any */
    const char *shared;    /**< directory that hosts have under the same path, for messages; NULL: none */
    char *const *run;      /**< `weft run` as it is found on the hosts, for ENGINE_RANKS; ends with NULL */
};

/** Open the directory and listen. Errors: SYSTEM, DATA, MEMORY. */
weft_status remote_open(const struct remote_config *config, struct remote **remote, struct error *error);
void remote_close(struct remote *remote);

/** The port, and the SHA-256 of the certificate (hexadecimal digits), by which hosts find and know this server. */
uint16_t remote_port(const struct remote *remote);
const char *remote_print(const struct remote *remote);

/** Readable while heard() has nodes. */
int remote_descriptor(const struct remote *remote);

/** Write the orders of an attempt and raise the run's fence; idempotent. Its hosts may connect from now on. `token` (65 bytes)
 * receives what they need. Errors: as start(). */
weft_status remote_order(struct remote *remote, const struct engine_order *order, char *token, struct error *error);

/** The token of an attempt (65 bytes); made if there is none. Errors: SYSTEM, DATA. */
weft_status remote_token(const struct remote *remote, const struct attempt *attempt, char *token, struct error *error);

/** Why nodes end for which no host has connected. */
enum remote_end {
    REMOTE_END_STOPPED, /**< they were asked to: exit code 75 */
    REMOTE_END_AGAIN,   /**< the cluster did not start them, for no fault of theirs or of a host's: exit code 75 */
    REMOTE_END_BY_HOST, /**< a host could not start them: exit code 75 */
    REMOTE_END_FAILED,  /**< the cluster will never start them: exit code 1 */
};

/** End the nodes of an attempt for which no host has connected; those that come later are refused. */
weft_status remote_give_up(struct remote *remote, const struct attempt *attempt, enum remote_end how,
                           const char *reason, struct error *error);

weft_status remote_stop(struct remote *remote, const struct attempt *attempt, enum engine_end how, uint64_t grace,
                        struct error *error);
weft_status remote_remark(struct remote *remote, const struct attempt *attempt, const char *message,
                          struct error *error);
weft_status remote_poll(struct remote *remote, const struct attempt *attempt, uint32_t node, uint64_t after,
                        engine_record_visit *visit, void *context, struct error *error);
weft_status remote_gone(struct remote *remote, const struct attempt *attempt, uint32_t node, bool kill, bool *gone,
                        struct error *error);
weft_status remote_heard(struct remote *remote, engine_heard_visit *visit, void *context, struct error *error);
weft_status remote_attempts(struct remote *remote, engine_attempt_visit *visit, void *context, struct error *error);
weft_status remote_nodes(struct remote *remote, const struct attempt *attempt, engine_node_visit *visit, void *context,
                         struct error *error);
weft_status remote_exec(struct remote *remote, const struct attempt *attempt, uint32_t node,
                        const struct node_exec_order *order, struct node_exec *exec, struct error *error);
weft_status remote_forget(struct remote *remote, const struct attempt *attempt, struct error *error);

#endif
