/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/runs/record.h"

#include "base/format/json_put.h"
#include "core/topology/identity.h"

#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT(member, key)                                                                                              \
    {                                                                                                                  \
        key, offsetof(struct run_record, member), sizeof(((struct run_record *)0)->member)                             \
    }
#define INTEGER(member, key)                                                                                           \
    {                                                                                                                  \
        key, offsetof(struct run_record, member), 0                                                                    \
    }

/* What a record file has, in this order, before the state. */
static const struct record_field {
    const char *key;
    size_t offset, size; /* of a string; size 0: an int64_t */
} fields[] = {
    TEXT(id, "id"),           TEXT(project, "project"),    TEXT(user, "user"),      TEXT(directory, "folder"),
    TEXT(command, "command"), TEXT(hosts, "hosts"),        INTEGER(ranks, "ranks"), INTEGER(launcher, "launcher"),
    TEXT(machine, "machine"), INTEGER(started, "started"), INTEGER(ended, "ended"), INTEGER(exit_code, "exit_code"),
    TEXT(reason, "reason"),
};

static const char *const state_names[] = {
    [RUN_RECORD_RUNNING] = "running",
    [RUN_RECORD_SUCCEEDED] = "succeeded",
    [RUN_RECORD_FAILED] = "failed",
    [RUN_RECORD_LOST] = "lost",
};

const char *run_record_state_name(enum run_record_state state)
{
    return state_names[state];
}

weft_status run_records_directory(char directory[FILE_PATH_BYTES], struct error *error)
{
    return file_state_directory(directory, "runs", error);
}

weft_status run_record_begin(struct run_record *record, struct error *error)
{
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    size_t length = strftime(record->id, sizeof record->id, "%Y%m%d-%H%M%S", &utc);
    snprintf(record->id + length, sizeof record->id - length, "-%ld", (long)getpid());
    const struct passwd *user = getpwuid(geteuid());
    if (user)
        snprintf(record->user, sizeof record->user, "%s", user->pw_name);
    else
        snprintf(record->user, sizeof record->user, "%ld", (long)geteuid());
    if (!getcwd(record->directory, sizeof record->directory))
        return error_system(error, "cannot tell the current directory");
    record->launcher = getpid();
    record->started = now;
    record->ended = 0;
    record->state = RUN_RECORD_RUNNING;
    return identity_read(NULL, record->machine, error);
}

void run_record_complete(struct run_record *record, int exit_code, const char *reason)
{
    record->ended = time(NULL);
    record->exit_code = exit_code;
    record->state = exit_code == 0 ? RUN_RECORD_SUCCEEDED : RUN_RECORD_FAILED;
    snprintf(record->reason, sizeof record->reason, "%s", reason ? reason : "");
}

weft_status run_record_save(const struct run_record *record, const char *directory, struct error *error)
{
    char name[RUN_ID_BYTES + 8], path[FILE_PATH_BYTES];
    snprintf(name, sizeof name, "%s.json", record->id);
    weft_status status = file_make_directory(directory, error);
    if (status == WEFT_OK)
        status = file_join(path, directory, name, error);
    if (status != WEFT_OK)
        return status;
    struct json_writer text;
    json_begin(&text, JSON_INDENTED);
    json_open_object(&text, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        const void *value = (const char *)record + fields[i].offset;
        if (fields[i].size)
            json_put_text(&text, fields[i].key, value);
        else
            json_put_integer(&text, fields[i].key, *(const int64_t *)value);
    }
    json_put_text(&text, "state", run_record_state_name(record->state));
    json_close(&text);
    status = json_text(&text) ? file_write(path, json_text(&text), json_size(&text), error)
                              : error_memory(error, sizeof *record, "a run record");
    json_end(&text);
    return status;
}

static weft_status record_parse(const cJSON *object, const char *where, struct run_record *record, struct error *error)
{
    weft_status status = WEFT_OK;
    const char *text = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(fields) && status == WEFT_OK; i++) {
        const struct record_field *field = &fields[i];
        char *value = (char *)record + field->offset;
        status = field->size ? json_get_text(object, field->key, where, &text, error)
                             : json_get_integer(object, field->key, where, -JSON_EXACT, JSON_EXACT,
                                                (int64_t *)(void *)value, error);
        if (status == WEFT_OK && field->size)
            snprintf(value, field->size, "%s", text);
    }
    if (status == WEFT_OK)
        status = json_get_text(object, "state", where, &text, error);
    if (status != WEFT_OK)
        return status;
    for (enum run_record_state s = RUN_RECORD_RUNNING; s <= RUN_RECORD_FAILED; s++)
        if (strcmp(text, state_names[s]) == 0) {
            record->state = s;
            return WEFT_OK;
        }
    return error_set(error, WEFT_ERROR_DATA, "%s: state is '%s', not running, succeeded or failed", where, text);
}

/* Whether the launcher is certainly gone: it ran on this host since its last boot, and has no process any more. */
static bool launcher_is_gone(const struct run_record *record)
{
    char here[IDENTITY_BYTES];
    return identity_read(NULL, here, NULL) == WEFT_OK && strcmp(here, record->machine) == 0 &&
           kill((pid_t)record->launcher, 0) != 0 && errno == ESRCH;
}

weft_status run_record_load(const char *directory, const char *id, struct run_record *record, struct error *error)
{
    char name[RUN_ID_BYTES + 8], path[FILE_PATH_BYTES];
    if (strchr(id, '/') || strlen(id) >= RUN_ID_BYTES)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' is no run; `weft runs` lists them", id);
    snprintf(name, sizeof name, "%s.json", id);
    weft_status status = file_join(path, directory, name, error);
    if (status != WEFT_OK)
        return status;
    if (!file_exists(path))
        return error_set(error, WEFT_ERROR_ARGUMENT, "there is no run '%s' in '%s'; `weft runs` lists them", id,
                         directory);
    cJSON *object;
    if ((status = json_read(path, &object, error)) != WEFT_OK)
        return status;
    struct run_record read = {0};
    status = record_parse(object, path, &read, error);
    cJSON_Delete(object);
    if (status != WEFT_OK)
        return status;
    if (read.state == RUN_RECORD_RUNNING && launcher_is_gone(&read))
        read.state = RUN_RECORD_LOST;
    *record = read;
    return WEFT_OK;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(a, b);
}

weft_status run_records_list(const char *directory, char (**ids)[RUN_ID_BYTES], size_t *count, struct error *error)
{
    char(*list)[RUN_ID_BYTES] = NULL;
    size_t length = 0, room = 0;
    weft_status status = WEFT_OK;
    DIR *listing = opendir(directory);
    if (!listing && errno != ENOENT)
        return error_system(error, "cannot list the runs in '%s'", directory);
    for (const char *name; status == WEFT_OK && (name = file_listing_next(listing));) {
        const size_t size = strlen(name);
        if (size < 6 || strcmp(name + size - 5, ".json") != 0 || size - 5 >= RUN_ID_BYTES || *name == '.')
            continue;
        status = ARRAY_RESERVE(list, room, length + 1, "the list of runs", error);
        if (status == WEFT_OK)
            snprintf(list[length++], sizeof *list, "%.*s", (int)(size - 5), name);
    }
    if (status == WEFT_OK && listing && errno)
        status = error_system(error, "cannot list the runs in '%s'", directory);
    file_listing_close(listing);
    if (status != WEFT_OK) {
        free(list);
        return status;
    }
    if (length)
        qsort(list, length, sizeof *list, compare_ids);
    *ids = list;
    *count = length;
    return WEFT_OK;
}
