/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/place.h"

#include "base/file/file.h"
#include "platform/snapshot/internal/secret_files.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHAT_TO_DO                                                                                                     \
    "a run gets a copy of the working directory, and here that would include keys and private files. Change to the "   \
    "project's directory (cd PROJECT) and submit from there, or send no code with --no-snapshot"

/* Whether `directory` is `home` or a directory above it; `*above` tells which. Both without links. */
static bool holds(const char *directory, const char *home, bool *above)
{
    char real[FILE_PATH_BYTES];
    if (!home || *home != '/' || !realpath(home, real))
        return false;
    size_t size = strcmp(directory, "/") == 0 ? 0 : strlen(directory);
    if (strcmp(directory, real) != 0 && (strncmp(directory, real, size) != 0 || real[size] != '/'))
        return false;
    *above = strcmp(directory, real) != 0;
    return true;
}

static bool holds_home_of(const char *directory, uid_t user, bool *above)
{
    char strings[16384];
    struct passwd entry, *found = NULL;
    return getpwuid_r(user, &entry, strings, sizeof strings, &found) == 0 && found &&
           holds(directory, found->pw_dir, above);
}

/* Refuse a directory that is all secrets, such as ~/.ssh, and those in it. */
static weft_status snapshot_place_check_secrets(const char *real, struct error *error)
{
    struct secret_names names;
    char path[FILE_PATH_BYTES];
    weft_status status = secret_names_open(&names, error);
    for (size_t end = 1; status == WEFT_OK && real[end]; end += real[end] == '/') {
        end += strcspn(real + end, "/");
        snprintf(path, sizeof path, "%.*s", (int)end - 1, real + 1);
        const struct secret_kind *kind = secret_names_find(&names, path, true);
        if (kind)
            status = error_set(error, WEFT_ERROR_ARGUMENT, "'%s' contains secrets (%s): " WHAT_TO_DO, real, kind->what);
    }
    secret_names_close(&names);
    return status;
}

weft_status snapshot_place_check(const char *directory, struct error *error)
{
    static const char *const others[] = {"/",    "/root", "/home", "/tmp", "/var", "/var/tmp", "/etc",
                                         "/usr", "/opt",  "/srv",  "/mnt", "/dev", "/proc",    "/sys"};
    char real[FILE_PATH_BYTES];
    struct stat there;
    bool above = false;
    if (!realpath(directory, real) || stat(real, &there) != 0)
        return error_system(error, "cannot look at the directory '%s'", directory);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(real, others[i]) == 0)
            return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' is not a project's directory: " WHAT_TO_DO, real);
    bool home = holds(real, getenv("HOME"), &above) || holds_home_of(real, getuid(), &above);
    if (!home && holds_home_of(real, there.st_uid, &above))
        home = !above; /* the home of whose it is; what is above it may be anything */
    if (home)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' %s a home directory: " WHAT_TO_DO, real,
                         above ? "contains" : "is");
    return snapshot_place_check_secrets(real, error);
}
