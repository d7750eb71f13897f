/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The owner of a run's processes and files, if a server that is root runs it under an account of the machine.
 *
 * Accounts are those of the machine's user database (getpwnam_r()); user ID 0 is not accepted. Files of an account are
 * untrusted: a server that is root accesses them as that account (run_owner_enter()), or by paths that do not follow
 * links. Thread-safe.
 */
#ifndef WEFT_PLATFORM_REGISTRY_OWNER_H
#define WEFT_PLATFORM_REGISTRY_OWNER_H

#include "base/error.h"
#include "platform/registry/projects.h"

#include <sys/types.h>

#define RUN_OWNER_GROUPS_MOST 256 /**< of an account that are taken to run_owner_enter() */

/** An account. */
struct run_owner {
    uid_t user;
    gid_t group;
    gid_t groups[RUN_OWNER_GROUPS_MOST]; /**< all of them */
    int group_count;
};

/** Look an account up. Errors: ARGUMENT where the machine has none of that name, or it is root. */
weft_status run_owner_find(const char *account, struct run_owner *owner, struct error *error);

/**
 * The account that the runs of `user` belong to; "": this process's own. `own_user` is who needs none on a server that
 * is root; NULL: this process is not root, all runs are its own whatever is in the registry. Errors: STATE where the
 * user has none, with who can mend that.
 */
weft_status run_owner_of_user(struct database *registry, const char *user, const char *own_user,
                              char account[REGISTRY_ACCOUNT_BYTES], struct error *error);

/** Whether the account can walk to `directory`, an absolute path. Errors: STATE, naming the first directory on the way that
 * keeps it out; those of run_owner_find(). */
weft_status run_owner_reaches(const char *account, const char *directory, struct error *error);

/** Keep others than its owner out of a run's directory, which is there. */
weft_status run_owner_close(const char *directory, struct error *error);

/**
 * Whose a run's directory is: `*given` if it is the account's, which is so once all in it was. Errors: STATE if it is
 * neither the account's nor this process's; SYSTEM.
 */
weft_status run_owner_look(const char *directory, const char *account, bool *given, struct error *error);

/**
 * Give a run's directory, closed and with all in it whole, to an account: what is in it first and the directory last, so that
 * nobody but this process can change what is being given away, and what was begun is known to be unfinished. No link is
 * followed. Errors: SYSTEM, ARGUMENT; DATA for directories deeper than any snapshot's.
 */
weft_status run_owner_give(const char *directory, const char *account, struct error *error);

/** What a thread was before. */
struct run_owner_before {
    gid_t groups[RUN_OWNER_GROUPS_MOST];
    int group_count;
};

/**
 * From here on, what the calling thread does with files it does as `owner`: it can read and write what that account
 * can, no more. For a process that is root. run_owner_leave() ends it. Errors: SYSTEM, and nothing has changed.
 */
weft_status run_owner_enter(const struct run_owner *owner, struct run_owner_before *before, struct error *error);
void run_owner_leave(const struct run_owner_before *before);

#endif
