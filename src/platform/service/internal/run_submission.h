/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A run that is asked for, from the call to the registry: what submit, fork and promote (platform/service/routes/run_order.c) have in
 * common.
 *
 *     HTTP thread    run_order_begin()        the key's run, if there is one, is the answer
 *     writer         run_submission_enter()   checked and kept in one transaction
 *                    run_submission_put()     the answer
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_RUN_SUBMISSION_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_RUN_SUBMISSION_H

#include "platform/registry/run/runs.h"
#include "platform/runs/checkpoints.h"
#include "platform/service/internal/service_state.h"
#include "platform/snapshot/snapshot.h"

/** What a submission is about: its specification as JSON, and what it has led to. */
struct run_submission {
    cJSON *wanted; /**< of the caller; project, owner and kind of slots are set in it */
    const char *project, *owner;
    int64_t run;
    int64_t resumes; /**< the run that it goes on with: one at a time may; 0: none */
    bool again, project_made;
    bool on_nodes;                       /**< hosts share no storage: its checkpoints are on their own disks */
    uint64_t secrets;                    /**< files that the code of a promoted run is without */
    char limited[REGISTRY_DETAIL_BYTES]; /**< to less time than it asks for: a message; "" if it is not */
};

/** What a call brings along that asks for a run: call->kept. */
struct run_order {
    struct registry_key key;                    /**< text: NULL where there is none */
    char snapshot[RUN_SNAPSHOT_BYTES];          /**< of the code that was tried by hand; "" */
    char checkpoint[RUN_CHECKPOINT_NAME_BYTES]; /**< of the parent, by its own name; "" */
    uint64_t secrets;                           /**< that were left out of it */
    char owner[PLATFORM_NAME_BYTES];            /**< of the parent that is promoted; "" */
    char used[200];                             /**< names of secrets, for the audit log */
};

/** Make the order of a call. False: it is answered, with an error or with the run that the same key has made. */
bool run_order_begin(struct route_call *call);

/** Put a text into what is wanted, in place of what was there; false: there is no memory. */
bool run_wanted_set(cJSON *wanted, const char *key, const char *value);

/** Keep the run that is wanted, or find the one of the same key. On the writer's thread. */
weft_status run_submission_enter(struct route_call *call, struct run_submission *submission, struct error *error);

/** The answer to who has asked. */
void run_submission_put(struct json_writer *answer, const struct run_submission *submission);

/* ---- what a run begins from ---- */

/**
 * The checkpoint of `parent` by its own name ("best" may mean another one later). For a thread of its own: it looks
 * through a directory that belongs to a program. Errors: ARGUMENT, with a message for the user.
 */
weft_status run_origin_find(const struct controller_directories *directories, int64_t parent, const char *checkpoint,
                            char found[RUN_CHECKPOINT_NAME_BYTES], struct error *error);

/**
 * Keep the working directory of `owner`'s run as it is now, with all that was changed in it by hand, as a snapshot of
 * the project for `user`; its id is "" where the run has no directory. For a thread of its own: it reads and writes
 * files. Errors: those of snapshot_take(); STATE where `user` is another one and it has files that only the owner
 * may read.
 */
weft_status run_origin_take(const struct controller_directories *directories, const char *project, int64_t run,
                            const char *owner, const char *user, struct snapshot *taken, struct error *error);

#endif
