/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The directories that engines keep of attempts, one for each node, with its order and journal (platform/agent/order.h):
 *
 *     ROOT/RUN/EPOCH/NODE
 *
 * The local engine's agents write there; an engine of other hosts keeps copies. Output is read from them
 * (platform/runs/output.h). Thread-safe.
 */
#ifndef WEFT_PLATFORM_ENGINE_DIRECTORY_H
#define WEFT_PLATFORM_ENGINE_DIRECTORY_H

#include "platform/agent/journal/file.h"
#include "platform/engine/engine.h"

/** Whose orders an engine takes for its own. */
struct engine_owner {
    const char *root;     /**< the directory of the engine */
    const char *platform; /**< its platform's name; "": none */
    bool adopts;          /**< orders without a platform are its own, too */
};

/** "there is no attempt 3 of run 12"; returns STATE. */
weft_status engine_directory_unknown(const struct attempt *attempt, struct error *error);

/** The number of nodes of an attempt, from any of its orders. Errors: STATE if there is none; SYSTEM if that cannot be read. */
weft_status engine_directory_nodes(const char *root, const struct attempt *attempt, uint32_t *nodes,
                                   struct error *error);

/** The directory of a node if it has an order, of any platform. */
bool engine_directory_find(const char *root, const struct attempt *attempt, uint32_t number,
                           char directory[FILE_PATH_BYTES]);

/** Whether the order in a node's directory is of this platform; so is one that cannot be read, as it is damaged. */
bool engine_directory_is_own(const struct engine_owner *owner, const char *directory);

/** The same by the name that is in an order. */
bool engine_directory_owns(const struct engine_owner *owner, const char *platform);

/** All attempts. Errors: SYSTEM. */
weft_status engine_directory_attempts(const struct engine_owner *owner, engine_attempt_visit *visit, void *context,
                                      struct error *error);

/** Fence an attempt whose nodes have ended, so that it cannot be started again, and remove its directory. Errors: SYSTEM. */
weft_status engine_directory_remove(const char *root, const struct attempt *attempt, struct error *error);

/** Make the directories of a node, readable by this user alone. Errors: SYSTEM. */
weft_status engine_directory_make(const char *directory, struct error *error);

/** Visit the records that a node's journal has after number `after`. `*stopped`: `visit` returned false; `*ended`: the last
 * one was visited. `reader` is zeroed at first, but for file = -1. Errors: SYSTEM, DATA, MEMORY. */
weft_status engine_directory_read(struct journal_reader *reader, const char *directory, uint64_t after,
                                  engine_record_visit *visit, void *context, bool *stopped, bool *ended,
                                  struct error *error);

#endif
