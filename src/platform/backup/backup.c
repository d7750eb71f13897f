/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/backup/backup.h"

#include "base/clock.h"
#include "base/format/json_put.h"
#include "base/string_list.h"
#include "platform/backup/internal/tree.h"
#include "platform/store/database.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/weft.h>

#define SUMMARY_NAME "backup.json"
#define SUMS_NAME    "SHA256SUMS"
#define SUMS_MOST    ((size_t)4 << 30)
#define MAIN_NAME    "platform.db"
#define RUNS_NAME    "runs"

/* What a state consists of, in the order of names. */
static const struct {
    const char *name;
    bool database;
} parts[] = {
    {"access.db", true}, {"engine", false},  {"metrics.db", true}, {MAIN_NAME, true},
    {RUNS_NAME, false},  {"secrets", false}, {"snapshots", false},
};

/* ---- directories that appear when they are complete ---- */

/* Without slashes at its end; through a link to a directory that is there. */
static weft_status plain_path(const char *path, char plain[FILE_PATH_BYTES], struct error *error)
{
    char real[PATH_MAX];
    if (strlen(path) >= FILE_PATH_BYTES)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%.80s...' is too long to be the path of a directory", path);
    snprintf(plain, FILE_PATH_BYTES, "%s", realpath(path, real) ? real : path);
    for (size_t length = strlen(plain); length > 1 && plain[length - 1] == '/'; length--)
        plain[length - 1] = '\0';
    return WEFT_OK;
}

static void parent_of(const char *path, char parent[FILE_PATH_BYTES])
{
    snprintf(parent, FILE_PATH_BYTES, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash == parent)
        slash[1] = '\0';
    else if (slash)
        *slash = '\0';
    else
        snprintf(parent, FILE_PATH_BYTES, ".");
}

static weft_status draft_begin(const char *path, char draft[FILE_PATH_BYTES], struct error *error)
{
    char parent[FILE_PATH_BYTES], name[NAME_MAX + 32];
    const char *last = file_name(path);
    if (!*last || strlen(last) > NAME_MAX - 20)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' cannot be the name of a new directory", path);
    parent_of(path, parent);
    snprintf(name, sizeof name, ".%s.partial-XXXXXX", last);
    weft_status status = file_make_directory(parent, error);
    if (status == WEFT_OK)
        status = file_join(draft, parent, name, error);
    if (status == WEFT_OK && !mkdtemp(draft))
        status = error_system(error, "cannot make a directory in '%s'", parent);
    return status;
}

/* The owner of `original`, and this mode. */
static weft_status draft_take_after(const char *draft, const char *original, mode_t mode, struct error *error)
{
    struct stat there;
    if (stat(original, &there) != 0 || (geteuid() == 0 && chown(draft, there.st_uid, there.st_gid) != 0) ||
        chmod(draft, mode) != 0)
        return error_system(error, "cannot give '%s' the owner of '%s' and its mode", draft, original);
    return WEFT_OK;
}

/* All on disk, then the name. An empty directory of that name is replaced. */
static weft_status draft_complete(const char *draft, const char *path, struct error *error)
{
    char parent[FILE_PATH_BYTES];
    parent_of(path, parent);
    const int directory = open(draft, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool synced = directory >= 0 && syncfs(directory) == 0;
    weft_status status = synced ? WEFT_OK : error_system(error, "cannot write '%s' to disk", draft);
    file_close(directory);
    if (status == WEFT_OK && rename(draft, path) != 0)
        status = error_system(error, "cannot rename '%s' to '%s'", draft, path);
    return status == WEFT_OK ? file_sync_directory(parent, error) : status;
}

/* ---- making a backup ---- */

static weft_status copy_databases(const char *state, const char *draft, struct error *error)
{
    char from[FILE_PATH_BYTES], to[FILE_PATH_BYTES];
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < ARRAY_SIZE(parts) && status == WEFT_OK; i++) {
        if (!parts[i].database)
            continue;
        status = file_join(from, state, parts[i].name, error);
        if (status == WEFT_OK)
            status = file_join(to, draft, parts[i].name, error);
        if (status != WEFT_OK || !file_exists(from))
            continue;
        status = database_copy(from, to, error);
        if (status == WEFT_OK)
            status = draft_take_after(to, from, 0600, error);
    }
    return status;
}

static weft_status copy_parts(struct tree_copy *copy, bool run_files, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < ARRAY_SIZE(parts) && status == WEFT_OK; i++) {
        char path[FILE_PATH_BYTES];
        if (!run_files && strcmp(parts[i].name, RUNS_NAME) == 0)
            continue;
        if (!parts[i].database)
            status = tree_copy(copy, parts[i].name, error);
        else if (file_join(path, copy->to, parts[i].name, NULL) == WEFT_OK && file_exists(path))
            status = tree_copy_count(copy, parts[i].name, error);
    }
    return status;
}

static weft_status write_summary(const char *draft, struct tree_copy *copy, const struct backup_summary *summary,
                                 mode_t mode, struct error *error)
{
    char path[FILE_PATH_BYTES];
    struct json_writer text;
    weft_status status = file_join(path, draft, SUMS_NAME, error);
    if (status == WEFT_OK)
        status = file_write(path, buffer_begin(&copy->sums), buffer_size(&copy->sums), error);
    if (status == WEFT_OK)
        status = file_join(path, draft, SUMMARY_NAME, error);
    if (status != WEFT_OK)
        return status;
    json_begin_line(&text);
    JSON_PUT(&text, "weft", weft_version(), "made", summary->made, "files", summary->files, "bytes", summary->bytes,
             "run_files", (bool)summary->run_files, "left_out", summary->left_out, "mode", (int64_t)mode);
    json_close(&text);
    const char *line = json_text(&text);
    status = line ? file_write(path, line, strlen(line), error)
                  : error_memory(error, json_size(&text), "the summary of a backup");
    json_end(&text);
    return status;
}

/* `*mode`: of the state. */
static weft_status check_directories(const char *state, const char *backup, mode_t *mode, struct error *error)
{
    char path[FILE_PATH_BYTES], inner[FILE_PATH_BYTES], real[PATH_MAX];
    struct stat there;
    const size_t length = strlen(state);
    weft_status status = file_join(path, state, MAIN_NAME, error);
    if (status != WEFT_OK)
        return status;
    if (stat(path, &there) != 0 && errno != ENOENT && errno != ENOTDIR)
        return error_system(error, "cannot look at '%s'", path);
    if (!file_exists(path) || stat(state, &there) != 0)
        return error_set(error, WEFT_ERROR_STATE, "'%s' holds no state of a server: it has no %s", state, MAIN_NAME);
    *mode = there.st_mode & 07777;
    if (file_exists(backup))
        return error_set(error, WEFT_ERROR_STATE, "'%s' is there already; name a new directory", backup);
    parent_of(backup, inner);
    if (realpath(inner, real) && strncmp(real, state, length) == 0 && (real[length] == '/' || !real[length]))
        return error_set(error, WEFT_ERROR_STATE, "'%s' would be inside the state '%s'; name a directory elsewhere",
                         backup, state);
    return WEFT_OK;
}

/* Everything, into the draft. */
static weft_status copy_state(const char *state, const char *draft, mode_t mode, struct backup_summary *summary,
                              struct error *error)
{
    struct tree_copy copy = {.from = state, .to = draft, .living = true, .lenient = RUNS_NAME "/"};
    weft_status status = copy_databases(state, draft, error);
    if (status == WEFT_OK)
        status = copy_parts(&copy, summary->run_files, error);
    summary->files = copy.files;
    summary->bytes = copy.bytes;
    summary->left_out = copy.left_out;
    snprintf(summary->first_left_out, sizeof summary->first_left_out, "%s", copy.first_left_out);
    if (status == WEFT_OK)
        status = write_summary(draft, &copy, summary, mode, error);
    tree_copy_free(&copy);
    /* Accounts may pass through a state to their runs, but not through its copies, where their files are theirs too. */
    return status == WEFT_OK ? draft_take_after(draft, state, 0700, error) : status;
}

weft_status backup_make(const char *state, const char *backup, bool run_files, struct backup_summary *summary,
                        struct error *error)
{
    char draft[FILE_PATH_BYTES], from[FILE_PATH_BYTES], to[FILE_PATH_BYTES];
    struct timespec now;
    mode_t mode = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    *summary = (struct backup_summary){.run_files = run_files, .made = clock_to_milliseconds(&now)};
    weft_status status = plain_path(state, from, error);
    if (status == WEFT_OK)
        status = plain_path(backup, to, error);
    if (status == WEFT_OK)
        status = check_directories(from, to, &mode, error);
    if (status == WEFT_OK)
        status = draft_begin(to, draft, error);
    if (status != WEFT_OK)
        return status;
    status = copy_state(from, draft, mode, summary, error);
    if (status == WEFT_OK)
        status = draft_complete(draft, to, error);
    if (status != WEFT_OK)
        file_remove_tree(draft, NULL);
    return status;
}

/* ---- a state from a backup ---- */

static weft_status read_summary(const char *backup, struct backup_summary *summary, mode_t *mode, struct error *error)
{
    char path[FILE_PATH_BYTES];
    int64_t files = 0, bytes = 0, left_out = 0, bits = 0;
    cJSON *root = NULL;
    weft_status status = file_join(path, backup, SUMMARY_NAME, error);
    if (status != WEFT_OK)
        return status;
    if (!file_exists(path))
        return error_set(error, WEFT_ERROR_DATA, "'%s' is no backup: it has no %s", backup, SUMMARY_NAME);
    status = json_read(path, &root, error);
    if (status == WEFT_OK)
        status = json_get_integer(root, "files", path, 0, JSON_EXACT, &files, error);
    if (status == WEFT_OK)
        status = json_get_integer(root, "bytes", path, 0, JSON_EXACT, &bytes, error);
    if (status == WEFT_OK)
        status = json_get_integer(root, "made", path, 0, JSON_EXACT, &summary->made, error);
    if (status == WEFT_OK)
        status = json_get_bool(root, "run_files", path, &summary->run_files, error);
    if (status == WEFT_OK)
        status = json_get_integer(root, "left_out", path, 0, JSON_EXACT, &left_out, error);
    if (status == WEFT_OK)
        status = json_get_integer(root, "mode", path, 0, 07777, &bits, error);
    summary->files = (uint64_t)files;
    summary->bytes = (uint64_t)bytes;
    summary->left_out = (uint64_t)left_out;
    *mode = (mode_t)bits;
    cJSON_Delete(root);
    return status;
}

static weft_status check_target(const char *state, struct error *error)
{
    char parent[FILE_PATH_BYTES];
    struct stat there, above;
    const char *name = NULL;
    if (!file_exists(state))
        return WEFT_OK;
    parent_of(state, parent);
    if (stat(state, &there) == 0 && stat(parent, &above) == 0 && there.st_dev != above.st_dev)
        return error_set(error, WEFT_ERROR_STATE, "'%s' is a mount point; name a directory below it with --state",
                         state);
    DIR *listing = file_listing_open(AT_FDCWD, state, 0);
    if (!listing)
        return error_system(error, "cannot look into '%s'", state);
    name = file_listing_next(listing);
    weft_status status = WEFT_OK;
    if (name)
        status = error_set(error, WEFT_ERROR_STATE,
                           "'%s' is not empty (it has '%.80s'), and nothing is replaced; move it away first, or name "
                           "another directory with --state",
                           state, name);
    else if (errno)
        status = error_system(error, "cannot look into '%s'", state);
    file_listing_close(listing);
    return status;
}

static weft_status copy_backup(struct tree_copy *copy, struct error *error)
{
    struct string_list names = {0};
    DIR *listing = file_listing_open(AT_FDCWD, copy->from, 0);
    weft_status status = listing ? WEFT_OK : error_system(error, "cannot look into '%s'", copy->from);
    for (const char *name; status == WEFT_OK && (name = file_listing_next(listing));)
        if (strcmp(name, SUMS_NAME) != 0 && strcmp(name, SUMMARY_NAME) != 0)
            status = string_list_add(&names, name, error);
    if (status == WEFT_OK && errno)
        status = error_system(error, "cannot look into '%s'", copy->from);
    string_list_sort(&names);
    for (size_t i = 0; status == WEFT_OK && i < names.count; i++)
        status = tree_copy(copy, names.items[i], error);
    file_listing_close(listing);
    string_list_free(&names);
    return status;
}

/* The path of a line of a list, of `*length` bytes. */
static const char *path_of_line(const char *line, int *length)
{
    const char *space = strstr(line, "  "), *path = space ? space + 2 : "";
    *length = (int)strcspn(path, "\n");
    return path;
}

static bool lists_path(const char *list, const char *path, int length)
{
    int other;
    for (const char *line = list; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *its = path_of_line(line, &other);
        if (other == length && strncmp(its, path, (size_t)length) == 0)
            return true;
    }
    return false;
}

/* Name the file of the first line that differs. */
static weft_status compare_sums(const char *backup, const char *expected, const char *found, struct error *error)
{
    size_t line = 0;
    int length = 0, other = 0;
    if (strcmp(expected, found) == 0)
        return WEFT_OK;
    for (size_t i = 0; expected[i] && expected[i] == found[i]; i++)
        if (expected[i] == '\n')
            line = i + 1;
    const char *wanted = path_of_line(expected + line, &length), *there = path_of_line(found + line, &other);
    const char *what = "is not as it was when the backup was made";
    if (!lists_path(found, wanted, length) && length) {
        what = "is missing";
    } else if (!lists_path(expected, there, other)) {
        what = "was added after the backup was made";
        wanted = there;
        length = other;
    }
    return error_set(error, WEFT_ERROR_DATA, "the backup '%s' is damaged: '%.*s' %s; nothing was restored from it",
                     backup, length, wanted, what);
}

static weft_status check_listed(const char *backup, struct tree_copy *copy, struct error *error)
{
    char path[FILE_PATH_BYTES], *expected = NULL;
    size_t size = 0;
    const char *found = buffer_string(&copy->sums);
    weft_status status =
        found ? file_join(path, backup, SUMS_NAME, error) : error_memory(error, copy->sums.room, "the list of files");
    if (status == WEFT_OK)
        status = file_read(path, SUMS_MOST, &expected, &size, error);
    if (status == WEFT_OK)
        status = compare_sums(backup, expected, found, error);
    free(expected);
    return status;
}

weft_status backup_restore(const char *backup, const char *state, struct backup_summary *summary, struct error *error)
{
    char draft[FILE_PATH_BYTES], from[FILE_PATH_BYTES], to[FILE_PATH_BYTES];
    mode_t mode = 0;
    *summary = (struct backup_summary){0};
    weft_status status = plain_path(backup, from, error);
    if (status == WEFT_OK)
        status = plain_path(state, to, error);
    if (status == WEFT_OK)
        status = read_summary(from, summary, &mode, error);
    if (status == WEFT_OK)
        status = check_target(to, error);
    if (status == WEFT_OK)
        status = draft_begin(to, draft, error);
    if (status != WEFT_OK)
        return status;
    struct tree_copy copy = {.from = from, .to = draft};
    status = copy_backup(&copy, error);
    if (status == WEFT_OK)
        status = check_listed(from, &copy, error);
    if (status == WEFT_OK)
        status = draft_take_after(draft, from, mode, error);
    if (status == WEFT_OK)
        status = draft_complete(draft, to, error);
    tree_copy_free(&copy);
    if (status != WEFT_OK)
        file_remove_tree(draft, NULL);
    return status;
}
