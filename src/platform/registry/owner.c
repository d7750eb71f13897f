/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry/owner.h"

#include "base/file/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEPTH_MOST 256 /* of directories in a run's directory: more than a path of a snapshot can have parts */
#define ENTRY_MOST ((size_t)1 << 20) /* bytes of an account's entry */

/* ---- accounts ---- */

/* The entry of an account, and the bytes that it points to, which are to be freed. */
static weft_status owner_read_entry(const char *account, struct passwd *entry, char **texts, struct error *error)
{
    struct passwd *found = NULL;
    *texts = NULL;
    for (size_t room = 4096; room <= ENTRY_MOST; room *= 2) {
        char *grown = realloc(*texts, room);
        if (!grown) {
            free(*texts);
            return error_memory(error, room, "an account");
        }
        *texts = grown;
        int code = getpwnam_r(account, entry, *texts, room, &found);
        if (found)
            return WEFT_OK;
        if (code == ERANGE)
            continue;
        free(*texts);
        bool absent = code == 0 || code == ENOENT || code == ESRCH || code == EBADF || code == EPERM;
        return absent ? error_set(error, WEFT_ERROR_ARGUMENT, "this machine has no account '%.80s'", account)
                      : error_set(error, WEFT_ERROR_SYSTEM, "cannot look up the account '%.80s': %s", account,
                                  strerror(code));
    }
    free(*texts);
    return error_set(error, WEFT_ERROR_SYSTEM, "the entry of account '%.80s' is longer than %zu bytes", account,
                     ENTRY_MOST);
}

weft_status run_owner_find(const char *account, struct run_owner *owner, struct error *error)
{
    struct passwd entry;
    char *texts;
    weft_status status = owner_read_entry(account, &entry, &texts, error);
    if (status != WEFT_OK)
        return status;
    if (entry.pw_uid == 0) {
        free(texts);
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the account '%.80s' is root, whose the runs of a user cannot be: choose one of their own",
                         account);
    }
    *owner = (struct run_owner){.user = entry.pw_uid, .group = entry.pw_gid, .group_count = RUN_OWNER_GROUPS_MOST};
    if (getgrouplist(entry.pw_name, entry.pw_gid, owner->groups, &owner->group_count) < 0)
        owner->group_count = RUN_OWNER_GROUPS_MOST; /* it has more: fewer rights, not others */
    free(texts);
    return WEFT_OK;
}

weft_status run_owner_of_user(struct database *registry, const char *user, const char *own_user,
                              char account[REGISTRY_ACCOUNT_BYTES], struct error *error)
{
    struct registry_user found;
    account[0] = '\0';
    if (!own_user)
        return WEFT_OK;
    weft_status status = registry_user_get(registry, user, &found, error);
    if (status != WEFT_OK)
        return status;
    if (!*found.account && strcmp(user, own_user) != 0)
        return error_set(error, WEFT_ERROR_STATE,
                         "'%s' has no account on these machines, and without one their runs would be root's: an "
                         "administrator gives one with 'weft user account %s ACCOUNT'",
                         user, user);
    memcpy(account, found.account, REGISTRY_ACCOUNT_BYTES);
    return WEFT_OK;
}

/* ---- acting as an account ---- */

/* The groups of this thread alone: the C library's setgroups() changes those of all threads. */
static long set_groups(size_t count, const gid_t *groups)
{
    return syscall(SYS_setgroups, count, groups);
}

weft_status run_owner_enter(const struct run_owner *owner, struct run_owner_before *before, struct error *error)
{
    before->group_count = getgroups(RUN_OWNER_GROUPS_MOST, before->groups);
    if (before->group_count < 0 || set_groups((size_t)owner->group_count, owner->groups) != 0)
        return error_system(error, "cannot act as user %u", (unsigned)owner->user);
    setfsgid(owner->group);
    setfsuid(owner->user);
    /* They tell nothing of failures; asked for what cannot be, they tell what is. */
    if ((uid_t)setfsuid((uid_t)-1) == owner->user && (gid_t)setfsgid((gid_t)-1) == owner->group)
        return WEFT_OK;
    run_owner_leave(before);
    errno = EPERM;
    return error_system(error, "cannot act as user %u", (unsigned)owner->user);
}

void run_owner_leave(const struct run_owner_before *before)
{
    setfsuid(geteuid());
    setfsgid(getegid());
    (void)set_groups((size_t)before->group_count, before->groups);
}

weft_status run_owner_reaches(const char *account, const char *directory, struct error *error)
{
    struct run_owner owner;
    struct run_owner_before before;
    char path[FILE_PATH_BYTES];
    weft_status status = run_owner_find(account, &owner, error);
    if (status != WEFT_OK || owner.user == geteuid())
        return status;
    snprintf(path, sizeof path, "%s/", directory);
    status = run_owner_enter(&owner, &before, error);
    if (status != WEFT_OK)
        return status;
    for (char *slash = strchr(path + 1, '/'); slash && status == WEFT_OK; slash = strchr(slash + 1, '/')) {
        char inner[FILE_PATH_BYTES + 4];
        struct stat there;
        *slash = '\0';
        snprintf(inner, sizeof inner, "%s/.", path);
        if (stat(inner, &there) != 0)
            status =
                error_set(error, WEFT_ERROR_STATE,
                          "the account '%s' cannot get to the directories of runs, '%s': '%s' keeps it out (%s); open "
                          "that with 'chmod o+x', or serve with --state in a directory that everybody may pass "
                          "through, such as /var/lib/weft",
                          account, directory, path, strerror(errno));
        *slash = '/';
    }
    run_owner_leave(&before);
    return status;
}

/* ---- directories ---- */

weft_status run_owner_close(const char *directory, struct error *error)
{
    return chmod(directory, 0700) == 0 ? WEFT_OK : error_system(error, "cannot keep others out of '%s'", directory);
}

weft_status run_owner_look(const char *directory, const char *account, bool *given, struct error *error)
{
    struct run_owner owner;
    struct stat there;
    weft_status status = run_owner_find(account, &owner, error);
    if (status == WEFT_OK && lstat(directory, &there) != 0)
        status = error_system(error, "cannot look at the directory '%s'", directory);
    if (status != WEFT_OK)
        return status;
    if (there.st_uid != owner.user && there.st_uid != geteuid())
        return error_set(
            error, WEFT_ERROR_STATE,
            "the directory '%s' belongs to user %u since the run began, and its owner's account is '%s' now: "
            "fork the run",
            directory, (unsigned)there.st_uid, account);
    *given = there.st_uid == owner.user;
    return WEFT_OK;
}

static weft_status give_all(int directory, const char *path, const struct run_owner *owner, int depth,
                            struct error *error);

/* One entry of an open directory. */
static weft_status give_entry(int directory, const char *name, const char *path, const struct run_owner *owner,
                              int depth, struct error *error)
{
    struct stat there;
    if (fstatat(directory, name, &there, AT_SYMLINK_NOFOLLOW) != 0 ||
        fchownat(directory, name, owner->user, owner->group, AT_SYMLINK_NOFOLLOW) != 0)
        return error_system(error, "cannot give '%s' in '%s' to its account", name, path);
    if (!S_ISDIR(there.st_mode))
        return WEFT_OK;
    if (depth == DEPTH_MOST)
        return error_set(error, WEFT_ERROR_DATA, "the directory '%s' has others in it that are more than %d deep", path,
                         DEPTH_MOST);
    int inner = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return inner < 0 ? error_system(error, "cannot open '%s' in '%s'", name, path)
                     : give_all(inner, path, owner, depth + 1, error);
}

/* Everything in an open directory; closes it. */
static weft_status give_all(int directory, const char *path, const struct run_owner *owner, int depth,
                            struct error *error)
{
    DIR *listing = fdopendir(directory);
    weft_status status = WEFT_OK;
    if (!listing) {
        status = error_system(error, "cannot read a directory in '%s'", path);
        close(directory);
        return status;
    }
    for (struct dirent *entry; status == WEFT_OK && (entry = readdir(listing));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = give_entry(directory, entry->d_name, path, owner, depth, error);
    closedir(listing);
    return status;
}

weft_status run_owner_give(const char *directory, const char *account, struct error *error)
{
    struct run_owner owner;
    weft_status status = run_owner_find(account, &owner, error);
    if (status != WEFT_OK)
        return status;
    int opened = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (opened < 0)
        return error_system(error, "cannot open the directory '%s'", directory);
    status = give_all(opened, directory, &owner, 0, error);
    if (status == WEFT_OK && lchown(directory, owner.user, owner.group) != 0)
        status = error_system(error, "cannot give the directory '%s' to account '%s'", directory, account);
    return status;
}
