/* SPDX-License-Identifier: Apache-2.0 */
/* Where this process may make control groups: its own groups in the mounted trees, and their controllers. */
#include "platform/agent/cgroup/cgroup.h"

#include "platform/agent/cgroup/internal/file.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MOST ((size_t)1 << 20)
#define MOUNT     "/sys/fs/cgroup"
#define SERVER    "weft-server"

static const char *const controllers[CGROUP_CONTROLLERS] = {"cpu", "cpuset", "memory", "pids"};

/* Whether `word` is one of the words of a text divided by `separators`. */
static bool has_word(const char *text, const char *word, const char *separators)
{
    const size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at += length)
        if ((at == text || strchr(separators, at[-1])) && strchr(separators, at[length]))
            return true;
    return false;
}

static bool file_has_word(const char *directory, const char *name, const char *word)
{
    char *text = cgroup_file_read(directory, name);
    const bool found = text && has_word(text, word, " \n");
    free(text);
    return found;
}

/* MOUNT/TREE/GROUP if groups can be made in it; a container may see a path that is not below its mount. */
static bool own_directory(const char *root, const char *tree, const char *group, char directory[FILE_PATH_BYTES])
{
    const char *const groups[] = {group, ""};
    for (int i = 0; i < 2; i++) {
        const int length = snprintf(directory, FILE_PATH_BYTES, "%s" MOUNT "%s%s", root, tree, groups[i]);
        if (length >= FILE_PATH_BYTES)
            continue;
        for (char *end = directory + length; end > directory + 1 && end[-1] == '/';)
            *--end = '\0';
        if (cgroup_file_is_writable(directory, "cgroup.procs") && access(directory, W_OK) == 0)
            return true;
    }
    directory[0] = '\0';
    return false;
}

static char *read_own_groups(const char *root)
{
    return cgroup_file_read(*root ? root : "/", "proc/self/cgroup");
}

/* The next of the groups of this process: `*names` is its trees, "" for version 2's, as in "5:cpu,cpuacct:/a" and
 * "0::/a" of /proc/self/cgroup. NULL: there are no more. `*text` is the rest of that file. */
static char *next_group(char **text, char **names)
{
    for (char *line; (line = strsep(text, "\n"));) {
        char *number = strsep(&line, ":");
        *names = number ? strsep(&line, ":") : NULL;
        if (line)
            return line;
    }
    return NULL;
}

static void cgroup_place_take_group(const char *root, const char *names, const char *group, struct cgroup_place *place)
{
    char tree[64];
    if (!*names && !own_directory(root, "", group, place->directories[CGROUP_UNIFIED]))
        own_directory(root, "/unified", group, place->directories[CGROUP_UNIFIED]);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (has_word(names, controllers[i], ",")) {
            snprintf(tree, sizeof tree, "/%s", controllers[i]);
            own_directory(root, tree, group, place->directories[i]);
        }
}

/* Fill in the directories. In version 2's tree it is the parent if this process is in SERVER. */
static void find_directories(const char *root, struct cgroup_place *place, bool *in_server)
{
    char *text = read_own_groups(root), *rest = text, *names;
    *place = (struct cgroup_place){0};
    for (const char *group; (group = next_group(&rest, &names));)
        cgroup_place_take_group(root, names, group, place);
    free(text);
    char *last = strrchr(place->directories[CGROUP_UNIFIED], '/');
    *in_server = last && strcmp(last + 1, SERVER) == 0;
    if (*in_server)
        *last = '\0';
}

void cgroup_find(const char *root, struct cgroup_place *place)
{
    bool in_server;
    find_directories(root, place, &in_server);
    const char *unified = place->directories[CGROUP_UNIFIED];
    for (int i = 0; *unified && i < CGROUP_CONTROLLERS; i++)
        if (!*place->directories[i] && file_has_word(unified, "cgroup.subtree_control", controllers[i])) {
            place->version_2[i] = true;
            memcpy(place->directories[i], unified, FILE_PATH_BYTES);
        }
}

bool cgroup_kills_read(struct cgroup_kills *kills)
{
    char *text;
    size_t size;
    if (!*kills->file || file_read(kills->file, TEXT_MOST, &text, &size, NULL) != WEFT_OK)
        return false;
    const char *found = strstr(text, "oom_kill ");
    if (found)
        kills->count = strtoull(found + strlen("oom_kill "), NULL, 10);
    free(text);
    return found != NULL;
}

bool cgroup_kills_find(const char *root, struct cgroup_kills *kills)
{
    char *text = read_own_groups(root), *rest = text, *names;
    bool found = false;
    *kills = (struct cgroup_kills){0};
    for (const char *group; !found && (group = next_group(&rest, &names));) {
        const bool unified = !*names;
        if (unified || has_word(names, "memory", ","))
            found = snprintf(kills->file, sizeof kills->file, "%s" MOUNT "%s%s/%s", root, unified ? "" : "/memory",
                             group, unified ? "memory.events.local" : "memory.oom_control") < FILE_PATH_BYTES &&
                    cgroup_kills_read(kills);
    }
    free(text);
    return found;
}

/* Enable the available controllers for subgroups. False: the group must not have processes. */
static bool give_controllers(const char *directory)
{
    bool given = true;
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        char word[16];
        snprintf(word, sizeof word, "+%s", controllers[i]);
        if (file_has_word(directory, "cgroup.controllers", controllers[i]) &&
            !file_has_word(directory, "cgroup.subtree_control", controllers[i]) &&
            !cgroup_file_write(directory, "cgroup.subtree_control", word) && errno == EBUSY)
            given = false;
    }
    return given;
}

static bool is_alone(const char *directory)
{
    char *text = cgroup_file_read(directory, "cgroup.procs"), *end;
    const bool alone = text && strtol(text, &end, 10) == (long)getpid() && (!*end || !end[1]);
    free(text);
    return alone;
}

void cgroup_prepare(const char *root)
{
    struct cgroup_place place;
    char server[FILE_PATH_BYTES];
    bool in_server;
    find_directories(root, &place, &in_server);
    const char *own = place.directories[CGROUP_UNIFIED];
    if (!*own || give_controllers(own) || in_server || !is_alone(own) ||
        file_join(server, own, SERVER, NULL) != WEFT_OK || (mkdir(server, 0755) != 0 && errno != EEXIST))
        return;
    if (cgroup_file_write(server, "cgroup.procs", "0"))
        give_controllers(own);
}

const char *cgroup_in_tree(const struct cgroup *group)
{
    static const char *const mounts[] = {MOUNT "/unified", MOUNT};
    const char *path = group->directories[CGROUP_UNIFIED];
    for (int i = 0; i < 2; i++)
        if (strncmp(path, mounts[i], strlen(mounts[i])) == 0 && path[strlen(mounts[i])] == '/')
            return path + strlen(mounts[i]);
    return NULL;
}
