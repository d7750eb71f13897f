/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Accounts of the machine and users of the platform: what keeps the runs of different users apart.
 *
 * Where the server is root, every user has an account that their runs belong to: processes (program, commands beside
 * it, shells) and files. The user whose the server itself is, root's own, needs none. Where it is not, all runs are the
 * server's own user's, and no other account can be named.
 *
 * The directories of the state are for root then, but for the way of accounts to their own runs:
 *
 *     STATE                to be walked through; what is in it is 0600 or 0700, but for
 *     STATE/runs           (or in the directory that hosts share, which is then to be walked through, too) 0711: to be walked through, not to be listed
 *     STATE/runs/12        0700, of the account
 *     STATE/engine         0711: likewise, for what platform/engine/local/local.h says of a run's user
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_ACCOUNTS_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_ACCOUNTS_H

#include "platform/service/internal/service_state.h"

/** The user who needs no account where the server is root; NULL: it is not, and nobody needs one. */
const char *accounts_own_user(const struct service *service);

/** Keep others out of what is in the directory of a server, but for the accounts that were let through. Errors: SYSTEM. */
weft_status accounts_close_directory(const struct service *service, struct error *error);

/** Whether runs of `user` can belong to `account`; "" can be set always. If they can, and this server is root, the way
 * to the directories of runs is open. Errors: ARGUMENT, STATE, SYSTEM. */
weft_status accounts_check(const struct service *service, const char *user, const char *account, struct error *error);

/** A message: what keeps the runs of different users apart. */
const char *accounts_isolation(void);

/** Let the account of a run open the ends that are given to a command in it by their names (/dev/tty, /dev/stderr). */
void accounts_give_ends(const char *runs, int64_t run, const int *descriptors, size_t count);

#endif
