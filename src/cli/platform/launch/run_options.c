/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/launch/run_options.h"

#include "base/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE_BYTES 256

const char *const run_option_launches[] = {"ranks", "nodes", "first", NULL};

/* The length of the variable's name at the beginning of `word`; 0: there is none. */
static size_t variable_name(const char *word)
{
    size_t length = 0;
    while (isalnum((unsigned char)word[length]) || word[length] == '_')
        length++;
    bool ends = word[length] == '=' || word[length] == '\0';
    return isdigit((unsigned char)*word) || !ends || length >= VARIABLE_BYTES ? 0 : length;
}

/* Whether a variable of this name usually holds a secret. */
static bool looks_secret(const char *word, size_t length)
{
    static const char *const parts[] = {"TOKEN",  "SECRET",     "PASSWORD",    "PASSWD",    "API_KEY",
                                        "APIKEY", "CREDENTIAL", "PRIVATE_KEY", "ACCESS_KEY"};
    char name[VARIABLE_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcasestr(name, parts[i]))
            return true;
    return false;
}

static weft_status check_environment(const char *command, const struct cli_list *list, struct error *error)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *word = list->items[i];
        size_t length = variable_name(word);
        if (length == 0)
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "%s: --env is '%s', but has the form NAME=VALUE, with a name of letters, digits and _",
                             command, word);
        if (!word[length] && !getenv(word))
            return error_set(error, WEFT_ERROR_ARGUMENT, "%s: --env is '%s', which is not set here; write %s=VALUE",
                             command, word, word);
        if (looks_secret(word, length))
            fprintf(stderr,
                    "weft: warning: every member of the project can read the value of --env %.*s; keep it secret with "
                    "'weft secret set %.*s' and --secret %.*s\n",
                    (int)length, word, (int)length, word, (int)length, word);
    }
    return WEFT_OK;
}

weft_status run_options_check(const char *command, const struct run_options *chosen, struct error *error)
{
    const struct {
        const char *name, *text;
        int64_t least, most; /* both 0: a duration */
    } texts[] = {{"time", chosen->time, 0, 0},
                 {"slice", chosen->slice, 0, 0},
                 {"retries", chosen->retries, 0, 100},
                 {"priority", chosen->priority, -100, 100}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char what[96];
        int64_t value;
        if (!texts[i].text)
            continue;
        snprintf(what, sizeof what, "%s: --%s", command, texts[i].name);
        weft_status status = texts[i].most
                                 ? text_parse_integer(texts[i].text, what, texts[i].least, texts[i].most, &value, error)
                                 : text_parse_duration(texts[i].text, what, &value, error);
        if (status != WEFT_OK)
            return status;
    }
    if (chosen->gpus && chosen->slots)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%s: --gpus and --slots both say how many slots a node has; give one", command);
    if (chosen->nodes && chosen->min_nodes > chosen->nodes)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%s: --min-nodes %" PRId64 " is more than --nodes %" PRId64 "; give at most as many", command,
                         chosen->min_nodes, chosen->nodes);
    if ((chosen->preemptible && chosen->no_preemptible) || (chosen->span_pods && chosen->no_span_pods)) {
        const char *name = chosen->preemptible && chosen->no_preemptible ? "preemptible" : "span-pods";
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s: --%s and --no-%s contradict each other; give one", command,
                         name, name);
    }
    return check_environment(command, &chosen->environment, error);
}

/* Whether the list has the variable at index `from` or later. */
static bool has_variable(const struct cli_list *list, size_t from, const char *name, size_t length)
{
    for (size_t i = from; i < list->count; i++)
        if (variable_name(list->items[i]) == length && strncmp(list->items[i], name, length) == 0)
            return true;
    return false;
}

static void write_environment(const struct cli_list *list, const cJSON *parent, struct json_writer *body)
{
    const cJSON *kept;
    if (list->count == 0)
        return;
    json_open_object(body, "environment");
    cJSON_ArrayForEach(kept, parent)
        if (!has_variable(list, 0, kept->string, strlen(kept->string)))
            json_put_text(body, kept->string, cJSON_GetStringValue(kept));
    for (size_t i = 0; i < list->count; i++) {
        char name[VARIABLE_BYTES];
        size_t length = variable_name(list->items[i]);
        snprintf(name, sizeof name, "%.*s", (int)length, list->items[i]);
        if (has_variable(list, i + 1, name, length)) /* the last one counts */
            continue;
        json_put_text(body, name, list->items[i][length] ? list->items[i] + length + 1 : getenv(name));
    }
    json_close(body);
}

static void run_options_put_number(struct json_writer *body, const char *key, const char *text)
{
    if (text)
        json_put_integer(body, key, strtoll(text, NULL, 10));
}

static void run_options_put_text(struct json_writer *body, const char *key, const char *text)
{
    if (text)
        json_put_text(body, key, text);
}

void run_options_write(const struct run_options *chosen, const cJSON *parent, struct json_writer *body)
{
    run_options_put_text(body, "name", chosen->name);
    run_options_put_text(body, "class", chosen->class_name);
    run_options_put_text(body, "launch", chosen->launch);
    run_options_put_text(body, "time_limit", chosen->time);
    run_options_put_text(body, "time_slice", chosen->slice);
    run_options_put_number(body, "retries", chosen->retries);
    run_options_put_number(body, "priority", chosen->priority);
    if (chosen->nodes)
        json_put_integer(body, "nodes", chosen->nodes);
    if (chosen->min_nodes >= 0)
        json_put_integer(body, "min_nodes", chosen->min_nodes);
    if (chosen->gpus || chosen->slots)
        json_put_integer(body, "slots", chosen->gpus ? chosen->gpus : chosen->slots);
    if (chosen->gpus)
        json_put_text(body, "slot_kind", "gpu");
    if (chosen->processors)
        json_put_integer(body, "processors", chosen->processors);
    if (chosen->memory)
        json_put_unsigned(body, "memory", chosen->memory);
    if (chosen->processes)
        json_put_integer(body, "processes", chosen->processes);
    if (chosen->disk)
        json_put_unsigned(body, "disk", chosen->disk);
    if (chosen->preemptible || chosen->no_preemptible)
        json_put_bool(body, "preemptible", chosen->preemptible);
    if (chosen->span_pods || chosen->no_span_pods)
        json_put_bool(body, "may_span_pods", chosen->span_pods);
    if (chosen->interactive)
        json_put_bool(body, "interactive", true);
    write_environment(&chosen->environment, parent, body);
    if (chosen->secrets.count == 0)
        return;
    json_open_array(body, "secrets");
    for (size_t i = 0; i < chosen->secrets.count; i++)
        json_put_text(body, NULL, chosen->secrets.items[i]);
    json_close(body);
}
