/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/launch/run_child.h"

#include "base/text.h"
#include "cli/frame/arguments.h"
#include "cli/platform/client/run_reference.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_MISUSED 2

#define SHOWN_MOST 5 /* checkpoints in a message */

/* The checkpoint called `wanted`, the newest, or the one that the run marked as its best. NULL: there is none. */
static const cJSON *run_child_choose(const cJSON *checkpoints, const char *wanted)
{
    const cJSON *item, *chosen = NULL;
    bool newest = strcmp(wanted, "newest") == 0, best = strcmp(wanted, "best") == 0;
    cJSON_ArrayForEach(item, checkpoints) {
        bool fits = newest ? !chosen || field_number(item, "time") > field_number(chosen, "time")
                    : best ? field_true(item, "best")
                           : false;
        if (fits || strcmp(field_text(item, "name"), wanted) == 0)
            chosen = item;
    }
    return chosen;
}

static weft_status no_checkpoint(int64_t run, const cJSON *checkpoints, const char *wanted, struct error *error)
{
    char names[256] = "";
    int count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, checkpoints) {
        size_t length = strlen(names);
        if (count++ < SHOWN_MOST)
            snprintf(names + length, sizeof names - length, "%s%s", length ? ", " : "", field_text(item, "name"));
    }
    if (count == 0)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "run %" PRId64 " has no checkpoint; without --checkpoint the new run starts from the beginning", run);
    return error_set(error, WEFT_ERROR_ARGUMENT, "run %" PRId64 " has no checkpoint '%.80s'; it has %s%s", run, wanted,
                     text_printable(names), count > SHOWN_MOST ? " ..." : "");
}

weft_status run_child_write_checkpoint(struct platform *platform, const struct run_parent *parent, const char *wanted,
                                       struct json_writer *body, int64_t *step, struct error *error)
{
    struct platform_path path;
    cJSON *reply = NULL;
    platform_path_run(&path, parent->run, "checkpoints");
    weft_status status = platform_get(platform, &path, &reply, error);
    if (status != WEFT_OK)
        return status;
    const cJSON *checkpoints = field(reply, "checkpoints");
    const cJSON *found = run_child_choose(checkpoints, wanted ? wanted : "newest");
    if (found)
        json_put_text(body, "checkpoint", field_text(found, "name"));
    else if (wanted)
        status = no_checkpoint(parent->run, checkpoints, wanted, error);
    *step = found ? field_integer(found, "step") : -1;
    cJSON_Delete(reply);
    return status;
}

/* "sh" of "/bin/sh". */
static bool is_program(const char *word, const char *name)
{
    const char *slash = strrchr(word, '/');
    return strcmp(slash ? slash + 1 : word, name) == 0;
}

/* Whether the words are exactly "sh -c SCRIPT", with any of the usual shells. Words after the script are its arguments
 * ("sh -c SCRIPT sh --rate 1") and can be changed. */
static bool is_script(const char *const *words, size_t count)
{
    static const char *const shells[] = {"sh", "bash", "dash", "ksh", "zsh"};
    bool shell = false;
    for (size_t i = 0; count > 0 && i < sizeof shells / sizeof *shells; i++)
        shell = shell || is_program(words[0], shells[i]);
    size_t script = 1;
    bool reads = false;
    for (; shell && script < count && words[script][0] == '-'; script++)
        reads = reads || (words[script][1] != '-' && strchr(words[script], 'c'));
    return reads && script + 1 == count;
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
        words[count++] = cJSON_IsString(word) ? word->valuestring : "";
    if (is_script(words, count)) {
        char script[64];
        snprintf(script, sizeof script, "%s", words[0]);
        free(words);
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "run %" PRId64
                         " runs a script ('%s -c ...'), which '%.60s' after -- would not reach: give the "
                         "whole command after --",
                         parent->run, text_printable(script), call->program[0]);
    }
    weft_status status =
        arguments_change(words, count, (const char *const *)call->program, call->program_count, &changed, error);
    if (status == WEFT_OK)
        run_submit_words((char *const *)changed, body);
    free(changed);
    free(words);
    return status;
}

/* Whether these two words are "weft" (any path) and "train". */
static bool trains(const char *word, const char *next)
{
    return word && next && is_program(word, "weft") && strcmp(next, "train") == 0;
}

/* The value of --steps or -s after "--"; -1: there is none, or it is not a number. */
static weft_status steps_given(const struct command_call *call, int64_t *steps, struct error *error)
{
    struct argument *list;
    size_t count;
    *steps = -1;
    weft_status status =
        arguments_divide((const char *const *)call->program, call->program_count, &list, &count, error);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        const char *name = list[i].words[0];
        bool named = (list[i].name_length == 7 && strncmp(name, "--steps", 7) == 0) ||
                     (list[i].name_length == 2 && strncmp(name, "-s", 2) == 0);
        int64_t value;
        if (named && list[i].value &&
            text_parse_integer(list[i].value, "--steps", 0, INT64_MAX, &value, NULL) == WEFT_OK)
            *steps = value;
    }
    free(list);
    return WEFT_OK;
}

weft_status run_child_check_steps(const struct command_call *call, const struct run_parent *parent, int64_t step,
                                  struct error *error)
{
    const cJSON *word;
    int64_t steps;
    bool training = false;
    if (call->program_count == 0)
        return WEFT_OK;
    for (size_t i = 0; call->program[0][0] != '-' && i < call->program_count; i++)
        training = training || trains(call->program[i], call->program[i + 1]);
    if (call->program[0][0] == '-')
        cJSON_ArrayForEach(word, field(parent->specification, "command"))
            training = training || trains(cJSON_GetStringValue(word), cJSON_GetStringValue(word->next));
    weft_status status = training ? steps_given(call, &steps, error) : WEFT_OK;
    if (status != WEFT_OK || !training || steps < 0 || steps >= step)
        return status;
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "the checkpoint of run %" PRId64 " is of step %" PRId64
                     ", and --steps counts from the first step: "
                     "--steps %" PRId64 " leaves nothing to do; for %" PRId64 " more give --steps %" PRId64,
                     parent->run, step, steps, steps, step + steps);
}

static weft_status launch_run_child_make(struct command_call *call, struct platform *platform,
                                         const struct run_child *child, struct run_parent *parent,
                                         struct json_writer *body, struct error *error)
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
    platform_path_run(&path, parent->run, child->route);
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
    status = launch_run_child_make(call, &platform, child, &parent, &body, error);
    json_end(&body);
    cJSON_Delete(parent.object);
    platform_close(&platform);
    return status;
}
