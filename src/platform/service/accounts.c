/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/accounts.h"

#include "platform/registry/owner.h"
#include "platform/runs/directory.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *accounts_own_user(const struct service *service)
{
    return geteuid() == 0 ? service->user : NULL;
}

/* Make the directory where it is missing, and change what others may do with it; `shut` is taken from its mode, and `open`
 * added. */
static weft_status set_mode(const char *directory, const char *name, mode_t shut, mode_t open, struct error *error)
{
    char path[FILE_PATH_BYTES];
    struct stat there;
    weft_status status = file_join(path, directory, name, error);
    if (status == WEFT_OK)
        status = file_make_directory(path, error);
    if (status != WEFT_OK)
        return status;
    if (stat(path, &there) != 0)
        return error_system(error, "cannot look at the directory '%s'", path);
    mode_t mode = ((there.st_mode & 07777) & ~shut) | open;
    if (mode == (there.st_mode & 07777) || chmod(path, mode) == 0)
        return WEFT_OK;
    return error_system(error, "cannot change who may enter the directory '%s'", path);
}

weft_status accounts_close_directory(const struct service *service, struct error *error)
{
    /* Where this is root, accounts may have been let through to theirs. */
    weft_status status = set_mode(service->shared, "runs", geteuid() == 0 ? 0066 : 0077, 0, error);
    return status == WEFT_OK ? set_mode(service->directory, "snapshots", 0077, 0, error) : status;
}

weft_status accounts_check(const struct service *service, const char *user, const char *account, struct error *error)
{
    char runs[FILE_PATH_BYTES];
    struct run_owner owner;
    if (!*account)
        return WEFT_OK;
    weft_status status = run_owner_find(account, &owner, error);
    if (status != WEFT_OK)
        return status;
    if (geteuid() != 0) {
        const struct passwd *own = owner.user == geteuid() ? NULL : getpwuid(geteuid());
        return owner.user == geteuid()
                   ? WEFT_OK
                   : error_set(error, WEFT_ERROR_STATE,
                               "the runs of '%s' cannot be of the account '%s': this server is not root, so all runs "
                               "are processes of its own user, '%s'",
                               user, account, own ? own->pw_name : "?");
    }
    status = set_mode(service->directory, ".", 0, 0011, error);
    if (status == WEFT_OK)
        status = set_mode(service->shared, ".", 0, 0011, error);
    if (status == WEFT_OK)
        status = set_mode(service->shared, "runs", 0066, 0011, error);
    if (status == WEFT_OK)
        status = file_join(runs, service->shared, "runs", error);
    return status == WEFT_OK ? run_owner_reaches(account, runs, error) : status;
}

const char *accounts_isolation(void)
{
    return geteuid() == 0 ? "the processes and files of a run belong to the account of this machine that its owner has "
                            "been given, and those of the server's own user to root: the machine keeps users apart"
                          : "the processes of all runs belong to the user that the server runs as: projects are kept "
                            "apart by this interface, not by the machine";
}

void accounts_give_ends(const char *runs, int64_t run, const int *descriptors, size_t count)
{
    char directory[FILE_PATH_BYTES];
    struct stat there;
    if (geteuid() != 0 || run_directory_path(runs, run, ".", directory, NULL) != WEFT_OK ||
        stat(directory, &there) != 0 || there.st_uid == geteuid())
        return;
    for (size_t i = 0; i < count; i++)
        if (descriptors[i] >= 0)
            (void)!fchown(descriptors[i], there.st_uid, (gid_t)-1);
}
