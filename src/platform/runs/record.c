/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/runs/record.h"

#include "base/format/json_put.h"
#include "core/topology/identity.h"

#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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
    JSON_PUT_OBJECT(&text, NULL, "id", record->id, "project", record->project, "user", record->user, "folder",
                    record->directory, "command", record->command, "hosts", record->hosts, "ranks", record->ranks,
                    "launcher", record->launcher, "machine", record->machine, "started", record->started, "ended",
                    record->ended, "exit_code", record->exit_code, "reason", record->reason, "state",
                    run_record_state_name(record->state));
    status = json_text(&text) ? file_write(path, json_text(&text), json_size(&text), error)
                              : error_memory(error, sizeof *record, "a run record");
    json_end(&text);
    return status;
}

static weft_status record_copy_text(const cJSON *object, const char *key, const char *where, char *to, size_t size,
                                    struct error *error)
{
    const char *value;
    weft_status status = json_get_text(object, key, where, &value, error);
    if (status == WEFT_OK)
        snprintf(to, size, "%s", value);
    return status;
}

static weft_status record_parse(const cJSON *object, const char *where, struct run_record *record, struct error *error)
{
    const struct {
        const char *key;
        char *to;
        size_t size;
    } texts[] = {
        {"id", record->id, sizeof record->id},
        {"project", record->project, sizeof record->project},
        {"user", record->user, sizeof record->user},
        {"folder", record->directory, sizeof record->directory},
        {"command", record->command, sizeof record->command},
        {"hosts", record->hosts, sizeof record->hosts},
        {"machine", record->machine, sizeof record->machine},
        {"reason", record->reason, sizeof record->reason},
    };
    const struct {
        const char *key;
        int64_t *to;
    } integers[] = {
        {"ranks", &record->ranks}, {"launcher", &record->launcher},   {"started", &record->started},
        {"ended", &record->ended}, {"exit_code", &record->exit_code},
    };
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < ARRAY_SIZE(texts) && status == WEFT_OK; i++)
        status = record_copy_text(object, texts[i].key, where, texts[i].to, texts[i].size, error);
    for (size_t i = 0; i < ARRAY_SIZE(integers) && status == WEFT_OK; i++)
        status = json_get_integer(object, integers[i].key, where, -JSON_EXACT, JSON_EXACT, integers[i].to, error);
    const char *state = NULL;
    if (status == WEFT_OK)
        status = json_get_text(object, "state", where, &state, error);
    if (status != WEFT_OK)
        return status;
    for (enum run_record_state s = RUN_RECORD_RUNNING; s <= RUN_RECORD_FAILED; s++)
        if (strcmp(state, state_names[s]) == 0) {
            record->state = s;
            return WEFT_OK;
        }
    return error_set(error, WEFT_ERROR_DATA, "%s: state is '%s', not running, succeeded or failed", where, state);
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
    DIR *entries = opendir(directory);
    if (!entries && errno != ENOENT)
        return error_system(error, "cannot list the runs in '%s'", directory);
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        size_t stem = strlen(entry->d_name);
        if (stem < 6 || strcmp(entry->d_name + stem - 5, ".json") != 0 || stem - 5 >= RUN_ID_BYTES ||
            *entry->d_name == '.')
            continue;
        if (ARRAY_RESERVE(list, room, length + 1, "the list of runs", error) != WEFT_OK) {
            free(list);
            closedir(entries);
            return WEFT_ERROR_MEMORY;
        }
        snprintf(list[length++], sizeof *list, "%.*s", (int)(stem - 5), entry->d_name);
    }
    if (entries)
        closedir(entries);
    if (length)
        qsort(list, length, sizeof *list, compare_ids);
    *ids = list;
    *count = length;
    return WEFT_OK;
}
