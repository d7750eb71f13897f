/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/runs/ssh_keys.h"

#include "base/buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEY_MOST     ((size_t)16 << 10)
#define LIFE_SECONDS (30 * 86400)

weft_status ssh_keys_directory(char path[FILE_PATH_BYTES], struct error *error)
{
    const char *configuration = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (configuration && *configuration == '/')
        return file_join(path, configuration, "weft/ssh", error);
    if (home && *home == '/')
        return file_join(path, home, ".config/weft/ssh", error);
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "HOME is not the absolute path of a directory, so there is no place for keys of ssh");
}

/* ---- making them ---- */

static weft_status generate(const char *directory, const char *file, const char *name, struct error *error)
{
    char path[FILE_PATH_BYTES], program[] = "ssh-keygen", quiet[] = "-q", type[] = "-t", kind[] = "ed25519",
                                password[] = "-N", none[] = "", comment[] = "-C", where[] = "-f", said[256];
    posix_spawn_file_actions_t descriptors; /* standard input and output are the connection's */
    pid_t child;
    int end = 0;
    snprintf(said, sizeof said, "%s", name);
    weft_status status = file_join(path, directory, file, error);
    if (status != WEFT_OK)
        return status;
    char *words[] = {program, quiet, type, kind, password, none, comment, said, where, path, NULL};
    posix_spawn_file_actions_init(&descriptors);
    posix_spawn_file_actions_addopen(&descriptors, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&descriptors, STDERR_FILENO, STDOUT_FILENO);
    const int code = posix_spawnp(&child, program, &descriptors, NULL, words, environ);
    posix_spawn_file_actions_destroy(&descriptors);
    errno = code;
    if (code != 0)
        return error_system(error,
                            "cannot run ssh-keygen, which makes keys for the connection; install openssh-client");
    while (waitpid(child, &end, 0) < 0 && errno == EINTR)
        ;
    return end == 0 ? WEFT_OK
                    : error_set(error, WEFT_ERROR_SYSTEM, "ssh-keygen could not make the key '%s' (see above)", path);
}

static weft_status read_key(const char *directory, const char *file, char **text, struct error *error)
{
    char path[FILE_PATH_BYTES];
    size_t size;
    const weft_status status = file_join(path, directory, file, error);
    return status == WEFT_OK ? file_read(path, KEY_MOST, text, &size, error) : status;
}

static weft_status write_known_hosts(const char *directory, const char *name, struct error *error)
{
    char path[FILE_PATH_BYTES], *key = NULL;
    struct buffer line = {0};
    weft_status status = read_key(directory, "host.pub", &key, error);
    if (status == WEFT_OK)
        status = file_join(path, directory, "known_hosts", error);
    if (status == WEFT_OK) {
        buffer_print(&line, "%s %s", name, key);
        status = line.failed ? error_memory(error, line.room, "a key")
                             : file_write(path, buffer_begin(&line), buffer_size(&line), error);
    }
    buffer_free(&line);
    free(key);
    return status;
}

/* All or nothing: another process may make the same keys meanwhile, and the first one wins. */
static weft_status make_keys(const char *parent, const char *name, const char *directory, struct error *error)
{
    char draft[FILE_PATH_BYTES];
    weft_status status = file_make_directory(parent, error);
    if (status == WEFT_OK && chmod(parent, 0700) != 0)
        status = error_system(error, "cannot keep others out of '%s'", parent);
    if (status == WEFT_OK)
        status = file_join(draft, parent, ".new-XXXXXX", error);
    if (status != WEFT_OK)
        return status;
    if (!mkdtemp(draft))
        return error_system(error, "cannot make the directory '%s'", draft);
    status = generate(draft, "key", name, error);
    if (status == WEFT_OK)
        status = generate(draft, "host", name, error);
    if (status == WEFT_OK)
        status = write_known_hosts(draft, name, error);
    if (status == WEFT_OK && rename(draft, directory) != 0 && errno != EEXIST && errno != ENOTEMPTY)
        status = error_system(error, "cannot rename '%s' to '%s'", draft, directory);
    file_remove_tree(draft, NULL);
    return status;
}

/* Keys of runs that are long over, and what a process that was killed has left. */
static void remove_old(const char *parent)
{
    const char *name;
    DIR *listing = file_listing_open(AT_FDCWD, parent, 0);
    while ((name = file_listing_next(listing))) {
        char path[FILE_PATH_BYTES];
        struct stat kind;
        if (file_join(path, parent, name, NULL) == WEFT_OK && lstat(path, &kind) == 0 &&
            time(NULL) - kind.st_mtime > LIFE_SECONDS)
            file_remove_tree(path, NULL);
    }
    file_listing_close(listing);
}

weft_status ssh_keys_get(const char *name, struct ssh_keys *keys, struct error *error)
{
    char parent[FILE_PATH_BYTES], directory[FILE_PATH_BYTES];
    *keys = (struct ssh_keys){0};
    weft_status status = ssh_keys_directory(parent, error);
    if (status == WEFT_OK)
        status = file_join(directory, parent, name, error);
    if (status == WEFT_OK && !file_is_directory(directory))
        status = make_keys(parent, name, directory, error);
    if (status != WEFT_OK)
        return status;
    utimensat(AT_FDCWD, directory, NULL, 0);
    remove_old(parent);
    status = read_key(directory, "host", &keys->host, error);
    if (status == WEFT_OK)
        status = read_key(directory, "key.pub", &keys->user, error);
    if (status != WEFT_OK)
        ssh_keys_free(keys);
    return status;
}

void ssh_keys_free(struct ssh_keys *keys)
{
    free(keys->host);
    free(keys->user);
    *keys = (struct ssh_keys){0};
}
