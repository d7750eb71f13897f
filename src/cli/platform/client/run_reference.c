/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/client/run_reference.h"

#include "base/text.h"
#include "cli/platform/client/list.h"
#include "platform/registry/run/state.h"
#include "platform/registry/run_specification.h"

#include <inttypes.h>
#include <string.h>

#define NEAR_MOST  1000 /* runs among whose names the nearest is sought */
#define SHOWN_MOST 5    /* numbers in the message about a name that several runs have */

int64_t run_reference_number(const char *word)
{
    int64_t number = 0;
    if (*word < '1' || *word > '9' || strspn(word, "0123456789") != strlen(word) ||
        text_parse_integer(word, "RUN", 1, JSON_EXACT, &number, NULL) != WEFT_OK)
        return 0;
    return number;
}

/* Choose from `runs`, newest first, the one called `name`: the only one, or the only one that is not over. */
static weft_status run_reference_choose(const cJSON *runs, const char *name, int64_t *run, struct error *error)
{
    char numbers[128] = "";
    size_t count = 0, live = 0;
    int64_t any = 0, alive = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, runs) {
        enum run_state state;
        if (strcmp(field_text(item, "name"), name) != 0)
            continue;
        any = field_integer(item, "run");
        if (run_state_find(field_text(item, "state"), &state) && !run_state_is_final(state)) {
            alive = any;
            live++;
        }
        if (++count <= SHOWN_MOST) {
            size_t length = strlen(numbers);
            snprintf(numbers + length, sizeof numbers - length, "%s%" PRId64, length ? ", " : "", any);
        }
    }
    if (count == 0)
        return platform_unknown("run", name, runs, "name", error);
    if (count > 1 && live != 1)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%zu runs are called '%.80s': %s%s; name one by its number", count,
                         name, numbers, count > SHOWN_MOST ? " ..." : "");
    *run = count == 1 ? any : alive;
    return WEFT_OK;
}

weft_status run_reference_find(struct platform *platform, const char *word, int64_t *run, struct error *error)
{
    struct platform_path path;
    struct platform_listed found = {0};
    int64_t number = run_reference_number(word);
    if (number > 0) {
        *run = number;
        return WEFT_OK;
    }
    if (!*word || strlen(word) >= RUN_NAME_BYTES)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%.40s%s' is neither a number nor a name of a run", word,
                         *word ? "..." : "");
    platform_path_begin(&path, "runs");
    platform_path_query(&path, "search", word);
    weft_status status = platform_list_get(platform, &path, &platform_list_runs, 0, &found, error);
    if (status == WEFT_OK && cJSON_GetArraySize(found.items) == 0) {
        /* No run matches: one of the newest runs may have a name that is near. */
        platform_listed_free(&found);
        platform_path_begin(&path, "runs");
        status = platform_list_get(platform, &path, &platform_list_runs, NEAR_MOST, &found, error);
    }
    if (status == WEFT_OK)
        status = run_reference_choose(found.items, word, run, error);
    platform_listed_free(&found);
    return status;
}

weft_status run_reference_get(struct platform *platform, const char *word, int64_t *run, cJSON **object,
                              struct error *error)
{
    struct platform_path path;
    weft_status status = run_reference_find(platform, word, run, error);
    if (status != WEFT_OK)
        return status;
    platform_path_run(&path, *run, NULL);
    status = platform_get(platform, &path, object, error);
    return status == WEFT_OK ? WEFT_OK : platform_run_unknown(platform, *run, error);
}

weft_status run_reference_divide(const char *word, char *run, size_t room, int64_t *node, struct error *error)
{
    static const char prefix[] = "node-";
    const char *slash = strrchr(word, '/');
    size_t length = slash ? (size_t)(slash - word) : strlen(word);
    bool named = slash && strncmp(slash + 1, prefix, sizeof prefix - 1) == 0;
    if (length == 0 || length >= room || (slash && !named))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%.80s' is neither a run nor a node of one, such as 12 and 12/node-0", word);
    int64_t number = RUN_NODE_NONE;
    if (named) {
        weft_status status =
            text_parse_integer(slash + sizeof prefix, "the node of a run", 0, RUN_NODES_MOST - 1, &number, error);
        if (status != WEFT_OK)
            return status;
    }
    memcpy(run, word, length);
    run[length] = '\0';
    *node = number;
    return WEFT_OK;
}
