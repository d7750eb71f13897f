/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_child.h"

#include "base/text.h"
#include "cli/arguments.h"
#include "cli/run_reference.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_MISUSED 2

#define SHOWN_MOST 5 /* checkpoints in a sentence */

/* The name of the checkpoint that is wanted: by its name, the newest, or the one that the run called its best. NULL:
 * there is none. */
static const char *choose(const cJSON *checkpoints, const char *wanted)
{
    const cJSON *item, *chosen = NULL;
    bool newest = strcmp(wanted, "newest") == 0, best = strcmp(wanted, "best") == 0;
    cJSON_ArrayForEach(item, checkpoints)
    {
        bool fits = newest ? !chosen || field_number(item, "time") > field_number(chosen, "time")
                    : best ? field_true(item, "best")
                           : false;
        if (fits || strcmp(field_text(item, "name"), wanted) == 0)
            chosen = item;
    }
    return chosen ? field_text(chosen, "name") : NULL;
}

static weft_status no_checkpoint(int64_t run, const cJSON *checkpoints, const char *wanted, struct error *error)
{
    char names[256] = "";
    int count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, checkpoints)
    {
        size_t length = strlen(names);
        if (count++ < SHOWN_MOST)
            snprintf(names + length, sizeof names - length, "%s%s", length ? ", " : "", field_text(item, "name"));
    }
    if (count == 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "run %" PRId64 " has no checkpoint; without --checkpoint the new run begins from the start",
                         run);
    return error_set(error, WEFT_ERROR_ARGUMENT, "run %" PRId64 " has no checkpoint '%.80s'; it has %s%s", run, wanted,
                     text_printable(names), count > SHOWN_MOST ? " ..." : "");
}

weft_status run_child_write_checkpoint(struct platform *platform, const struct run_parent *parent, const char *wanted,
                                       struct json_writer *body, bool *found, struct error *error)
{
    struct platform_path path;
    cJSON *reply = NULL;
    platform_path_begin(&path, "runs");
    platform_path_number(&path, parent->run);
    platform_path_part(&path, "checkpoints");
    weft_status status = platform_get(platform, &path, &reply, error);
    if (status != WEFT_OK)
        return status;
    const cJSON *checkpoints = field(reply, "checkpoints");
    const char *name = choose(checkpoints, wanted ? wanted : "newest");
    if (name)
        json_put_text(body, "checkpoint", name);
    else if (wanted)
        status = no_checkpoint(parent->run, checkpoints, wanted, error);
    *found = name != NULL;
    cJSON_Delete(reply);
    return status;
}

weft_status run_child_write_command(const struct command_call *call, const struct run_parent *parent,
                                    struct json_writer *body, struct error *error)
{
    const cJSON *command = field(parent->specification, "command"), *word;
    size_t count = 0;
    const char **changed = NULL;
    if (call->program_count == 0)
        return WEFT_OK;
    if (call->program[0][0] != '-') {
        run_submit_words(call->program, body);
        return WEFT_OK;
    }
    const char **words = calloc((size_t)cJSON_GetArraySize(command) + 1, sizeof *words);
    if (!words)
        return error_memory(error, sizeof *words, "arguments");
    cJSON_ArrayForEach(word, command)
    {
        words[count++] = cJSON_IsString(word) ? word->valuestring : "";
    }
    weft_status status =
        arguments_change(words, count, (const char *const *)call->program, call->program_count, &changed, error);
    if (status == WEFT_OK)
        run_submit_words((char *const *)changed, body);
    free(changed);
    free(words);
    return status;
}

static weft_status make(struct command_call *call, struct platform *platform, const struct run_child *child,
                        struct run_parent *parent, struct json_writer *body, struct error *error)
{
    struct platform_path path;
    char done[RUN_CHILD_DONE_BYTES] = "";
    weft_status status = run_reference_get(platform, call->words[0], &parent->run, &parent->object, error);
    if (status != WEFT_OK)
        return status;
    parent->project = field_text(parent->object, "project");
    parent->state = field_text(parent->object, "state");
    parent->specification = field(parent->object, "specification");
    json_open_object(body, NULL);
    if (child->options)
        run_options_write(child->options, field(parent->specification, "environment"), body);
    status = child->write(call, platform, parent, body, done, error);
    json_close(body);
    platform_path_begin(&path, "runs");
    platform_path_number(&path, parent->run);
    platform_path_part(&path, child->route);
    return status == WEFT_OK ? run_submit_send(call, platform, &path, body, done, child->shown, error) : status;
}

weft_status run_child_make(struct command_call *call, const struct run_child *child, struct error *error)
{
    struct platform platform;
    struct run_parent parent = {0};
    struct json_writer body;
    weft_status status = child->options ? run_options_check(call->name, child->options, error) : WEFT_OK;
    if (status != WEFT_OK) {
        call->exit_code = EXIT_MISUSED;
        return status;
    }
    status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    json_begin(&body, JSON_LINE);
    status = make(call, &platform, child, &parent, &body, error);
    json_end(&body);
    cJSON_Delete(parent.object);
    platform_close(&platform);
    return status;
}
