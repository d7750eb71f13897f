/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/read/events_directory.h"

#include "base/file/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HOMES_MOST 200 /* directories of the program's directory in which a "runs" is looked for */

static const char *const homes[] = {"runs", "logs", "tensorboard", "lightning_logs"};
static const char *const plain_names[] = {"train", "training", "val", "valid", "validation", "test", "eval"};

/* An event file. A file is open only while it is read. */
struct events_directory_file {
    char *path;
    char *prefix;    /* of its names; "" or it ends with a slash */
    uint64_t offset; /* of what is to be read next; beyond the end where that is the rest of a large record */
    uint64_t seen;   /* the most bytes that it was seen to have */
    uint64_t size;   /* when all of it was read last */
};

/* A directory that has event files, and whose parents have none. */
struct run_directory {
    char *path;
    char *prefix;
};

struct events_directory {
    char *directory, *chosen; /* chosen: NULL or absolute */
    struct events_directory_file *files;
    uint32_t count;
    struct run_directory *runs;
    uint32_t run_count;
    size_t room, run_room;
    bool first;    /* what is there is passed by */
    bool named;    /* a run directory has given no name */
    uint32_t left; /* entries of this look */
    char trouble[160];
    /* Of the reading that goes on: */
    events_take *take;
    void *state;
    const char *prefix;
};

const char *events_directory_trouble(const struct events_directory *directory)
{
    return directory->trouble;
}

static weft_status no_memory(struct error *error)
{
    return error_memory(error, FILE_PATH_BYTES, "the event files of a directory");
}

/* ---- names ---- */

static bool is_one_of(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

/* "path/" without what comes before `from`; "" if nothing is left. */
static char *prefix_behind(const char *path, size_t from, const char *before)
{
    char *prefix = NULL;
    while (path[from] == '/')
        from++;
    if (asprintf(&prefix, "%s%s%s", before, path + from, path[from] ? "/" : "") < 0)
        return NULL;
    return prefix;
}

/* The prefix for files in the directory `path`, found below `home`; NULL: memory ran out. */
static char *events_directory_prefix_of(struct events_directory *directory, const char *path, size_t home)
{
    for (uint32_t i = 0; i < directory->run_count; i++) {
        const struct run_directory *run = &directory->runs[i];
        const size_t length = strlen(run->path);
        if (strncmp(path, run->path, length) == 0 && (path[length] == '/' || path[length] == 0))
            return prefix_behind(path, length, run->prefix);
    }
    if (ARRAY_RESERVE(directory->runs, directory->run_room, directory->run_count + 1, "a list", NULL) != WEFT_OK)
        return NULL;
    const char *name = file_name(path);
    struct run_directory run = {.path = strdup(path)};
    if (is_one_of(name, plain_names, ARRAY_SIZE(plain_names)))
        run.prefix = prefix_behind(name, 0, "");
    else
        run.prefix = directory->named ? prefix_behind(path, home, "") : strdup("");
    char *prefix = run.path && run.prefix ? strdup(run.prefix) : NULL;
    if (!prefix) {
        free(run.path);
        free(run.prefix);
        return NULL;
    }
    directory->named = directory->named || !*run.prefix;
    directory->runs[directory->run_count++] = run;
    return prefix;
}

/* ---- finding ---- */

static weft_status add_file(struct events_directory *directory, const char *parent, size_t home, const char *name,
                            struct error *error)
{
    char path[FILE_PATH_BYTES];
    struct stat found;
    if (file_join(path, parent, name, NULL) != WEFT_OK || lstat(path, &found) != 0 || !S_ISREG(found.st_mode))
        return WEFT_OK;
    for (uint32_t i = 0; i < directory->count; i++)
        if (strcmp(directory->files[i].path, path) == 0)
            return WEFT_OK;
    if (directory->count == EVENTS_DIRECTORY_FILES) {
        snprintf(directory->trouble, sizeof directory->trouble, "it has more than %d event files: the rest is not read",
                 EVENTS_DIRECTORY_FILES);
        return WEFT_OK;
    }
    if (ARRAY_RESERVE(directory->files, directory->room, directory->count + 1, "a list", NULL) != WEFT_OK)
        return no_memory(error);
    /* What is there already says nothing about which names the program will give. */
    struct events_directory_file file = {
        .path = strdup(path), .prefix = directory->first ? NULL : events_directory_prefix_of(directory, parent, home)};
    if (!file.path || (!file.prefix && !directory->first)) {
        free(file.path);
        free(file.prefix);
        return no_memory(error);
    }
    if (directory->first)
        file.offset = file.seen = file.size = (uint64_t)found.st_size;
    directory->files[directory->count++] = file;
    return WEFT_OK;
}

static bool is_directory(const char *parent, const struct dirent *entry)
{
    char path[FILE_PATH_BYTES];
    struct stat found;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return file_join(path, parent, entry->d_name, NULL) == WEFT_OK && lstat(path, &found) == 0 &&
           S_ISDIR(found.st_mode);
}

static int events_directory_by_name(const struct dirent **left, const struct dirent **right)
{
    return strcmp((*left)->d_name, (*right)->d_name);
}

/* The entries of a directory in the order of the alphabet, as far as this look may go; free_entries() frees them. */
static int events_directory_read_entries(struct events_directory *directory, const char *path, struct dirent ***entries)
{
    *entries = NULL;
    const int count = scandir(path, entries, NULL, events_directory_by_name);
    if (count < 0)
        return 0;
    if ((uint32_t)count > directory->left)
        snprintf(directory->trouble, sizeof directory->trouble,
                 "there are more than %d entries in the directories of its event files: not all were found; say in "
                 "WEFT_TENSORBOARD_DIR where they are",
                 EVENTS_DIRECTORY_ENTRIES);
    directory->left -= (uint32_t)count < directory->left ? (uint32_t)count : directory->left;
    return count;
}

static void free_entries(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
}

/* The files of a directory, then those of the directories in it. */
static weft_status events_directory_search(struct events_directory *directory, const char *path, size_t home, int depth,
                                           struct error *error)
{
    struct dirent **entries;
    weft_status status = WEFT_OK;
    const int count = directory->left > 0 ? events_directory_read_entries(directory, path, &entries) : 0;
    if (count == 0)
        return WEFT_OK;
    for (int i = 0; i < count && status == WEFT_OK; i++)
        if (events_is_file(entries[i]->d_name))
            status = add_file(directory, path, home, entries[i]->d_name, error);
    for (int i = 0; i < count && status == WEFT_OK && depth > 0; i++) {
        char below[FILE_PATH_BYTES];
        if (entries[i]->d_name[0] != '.' && is_directory(path, entries[i]) &&
            file_join(below, path, entries[i]->d_name, NULL) == WEFT_OK)
            status = events_directory_search(directory, below, home, depth - 1, error);
    }
    free_entries(entries, count);
    return status;
}

static weft_status search_home(struct events_directory *directory, const char *path, struct error *error)
{
    struct stat found;
    if (lstat(path, &found) != 0 || !S_ISDIR(found.st_mode))
        return WEFT_OK;
    return events_directory_search(directory, path, strlen(path), EVENTS_DIRECTORY_DEPTH, error);
}

static weft_status search_homes_in(struct events_directory *directory, const char *parent, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < ARRAY_SIZE(homes) && status == WEFT_OK; i++) {
        char path[FILE_PATH_BYTES];
        if (file_join(path, parent, homes[i], NULL) == WEFT_OK)
            status = search_home(directory, path, error);
    }
    return status;
}

static weft_status search_all(struct events_directory *directory, struct error *error)
{
    struct dirent **entries;
    directory->left = EVENTS_DIRECTORY_ENTRIES;
    if (directory->chosen)
        return search_home(directory, directory->chosen, error);
    weft_status status = search_homes_in(directory, directory->directory, error);
    const int count = events_directory_read_entries(directory, directory->directory, &entries);
    int looked = 0;
    for (int i = 0; i < count && status == WEFT_OK && looked < HOMES_MOST && directory->left > 0; i++) {
        char below[FILE_PATH_BYTES];
        const char *name = entries[i]->d_name;
        if (name[0] == '.' || is_one_of(name, homes, ARRAY_SIZE(homes)) ||
            !is_directory(directory->directory, entries[i]) ||
            file_join(below, directory->directory, name, NULL) != WEFT_OK)
            continue;
        looked++;
        status = search_homes_in(directory, below, error);
    }
    free_entries(entries, count);
    return status;
}

/* ---- life ---- */

weft_status events_directory_open(const char *path, const char *chosen, struct events_directory **opened,
                                  struct error *error)
{
    struct events_directory *directory = calloc(1, sizeof *directory);
    char whole[FILE_PATH_BYTES];
    if (!directory)
        return no_memory(error);
    directory->directory = strdup(path);
    weft_status status = directory->directory ? WEFT_OK : no_memory(error);
    if (status == WEFT_OK && chosen) {
        status = *chosen == '/' ? WEFT_OK : file_join(whole, path, chosen, error);
        if (status == WEFT_OK && !(directory->chosen = strdup(*chosen == '/' ? chosen : whole)))
            status = no_memory(error);
    }
    directory->first = true;
    if (status == WEFT_OK)
        status = search_all(directory, error);
    directory->first = false;
    if (status != WEFT_OK) {
        events_directory_close(directory);
        return status;
    }
    *opened = directory;
    return WEFT_OK;
}

void events_directory_close(struct events_directory *directory)
{
    if (!directory)
        return;
    for (uint32_t i = 0; i < directory->count; i++) {
        free(directory->files[i].path);
        free(directory->files[i].prefix);
    }
    for (uint32_t i = 0; i < directory->run_count; i++) {
        free(directory->runs[i].path);
        free(directory->runs[i].prefix);
    }
    free(directory->files);
    free(directory->runs);
    free(directory->directory);
    free(directory->chosen);
    free(directory);
}

/* ---- reading ---- */

static weft_status events_directory_take_scalar(void *state, const struct events_scalar *scalar, struct error *error)
{
    const struct events_directory *directory = state;
    char name[EVENTS_NAME_MOST + 1];
    struct events_scalar named = *scalar;
    if (snprintf(name, sizeof name, "%s%s", directory->prefix, scalar->name) >= (int)sizeof name)
        return WEFT_OK; /* too long, as a tag may be */
    named.name = name;
    return directory->take(directory->state, &named, error);
}

/* An earlier file that grows after all: of a program that goes on with its directory. */
static weft_status name_file(struct events_directory *directory, struct events_directory_file *file,
                             struct error *error)
{
    char parent[FILE_PATH_BYTES];
    if (file->prefix)
        return WEFT_OK;
    snprintf(parent, sizeof parent, "%.*s", (int)(file_name(file->path) - file->path - 1), file->path);
    file->prefix = events_directory_prefix_of(directory, parent,
                                              strlen(directory->chosen ? directory->chosen : directory->directory));
    return file->prefix ? WEFT_OK : no_memory(error);
}

static weft_status events_directory_read_file(struct events_directory *directory, struct events_directory_file *file,
                                              struct error *error)
{
    struct stat found;
    struct events_reader reader;
    if (lstat(file->path, &found) != 0 || !S_ISREG(found.st_mode) || (uint64_t)found.st_size == file->size)
        return WEFT_OK;
    if ((uint64_t)found.st_size < file->seen) /* another one of that name */
        file->offset = file->seen = 0;
    weft_status status = name_file(directory, file, error);
    if (status != WEFT_OK || events_open(&reader, file->path, file->offset, NULL) != WEFT_OK)
        return status;
    struct error failure = {0};
    directory->prefix = file->prefix;
    status = events_read(&reader, events_directory_take_scalar, directory, &failure);
    file->offset = reader.offset;
    file->seen = reader.seen > (uint64_t)found.st_size ? reader.seen : (uint64_t)found.st_size;
    if (status == WEFT_OK)
        file->size = (uint64_t)found.st_size;
    events_close(&reader);
    return status == WEFT_OK || status == WEFT_ERROR_SYSTEM || status == WEFT_ERROR_DATA
               ? WEFT_OK
               : error_set(error, status, "%s", failure.text);
}

weft_status events_directory_look(struct events_directory *directory, events_take *take, void *state,
                                  struct error *error)
{
    directory->take = take;
    directory->state = state;
    weft_status status = search_all(directory, error);
    for (uint32_t i = 0; i < directory->count && status == WEFT_OK; i++)
        status = events_directory_read_file(directory, &directory->files[i], error);
    return status;
}
