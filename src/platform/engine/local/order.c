/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of nodes from an engine's order, and checks of existing ones. */
#include "platform/engine/local/internal/state.h"

#include "base/text.h"
#include "launch/agent.h"
#include "platform/agent/agent.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct local_host *local_order_find_host(const struct engine_local *local, const char *name)
{
    for (uint32_t i = 0; i < local->host_count; i++)
        if (strcmp(local->hosts[i].name, name) == 0)
            return &local->hosts[i];
    return NULL;
}

weft_status local_order_check(const struct engine_local *local, const struct engine_order *order, struct error *error)
{
    if (!attempt_is_valid(&order->attempt))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%.63s' is no name of a run: it may have letters, digits, -, _ and dots", order->attempt.run);
    if (order->nodes == 0 || order->nodes > ATTEMPT_NODES_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "an attempt has from 1 to %d nodes, not %" PRIu32,
                         ATTEMPT_NODES_MOST, order->nodes);
    if (!order->directory || order->directory[0] != '/')
        return error_set(error, WEFT_ERROR_ARGUMENT, "the directory of a run must be an absolute path");
    if (order->launch == ENGINE_RANKS && !local->run.count)
        return error_set(error, WEFT_ERROR_ARGUMENT, "this engine cannot start ranks: it was not told how");
    for (uint32_t i = 0; i < order->nodes; i++) {
        const struct engine_place *place = &order->places[i];
        const struct local_host *host = local_order_find_host(local, place->host);
        if (!host)
            return error_set(error, WEFT_ERROR_ARGUMENT, "there is no host '%.80s' here", place->host);
        for (uint32_t j = 0; j < place->count; j++)
            if (place->slots[j] >= host->slots)
                return error_set(error, WEFT_ERROR_ARGUMENT,
                                 "host %s has %" PRIu32 " slots, counted from 0; there is none with number %" PRIu32,
                                 host->name, host->slots, place->slots[j]);
    }
    return WEFT_OK;
}

/* "0,1,2" for a place, "a:8,b:8" for all; the caller frees it. NULL: memory ran out. */
static char *write_slots(const struct engine_place *place)
{
    size_t room = 12 * ((size_t)place->count + 1), at = 0;
    char *text = calloc(1, room);
    for (uint32_t i = 0; text && i < place->count; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%" PRIu32, i ? "," : "", place->slots[i]);
    return text;
}

static char *local_order_write_hosts(const struct engine_order *order)
{
    size_t room = 1, at = 0;
    for (uint32_t i = 0; i < order->nodes; i++)
        room += strlen(order->places[i].host) + 16;
    char *text = calloc(1, room);
    for (uint32_t i = 0; text && i < order->nodes; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%s:%" PRIu32, i ? "," : "", order->places[i].host,
                               order->places[i].count);
    return text;
}

/* The command of a node; empty if it only waits. string_list_free() frees it. */
static weft_status node_command(const struct engine_local *local, const struct engine_order *order, uint32_t number,
                                const char *hosts, struct string_list *command, struct error *error)
{
    char least[24], restarts[24];
    char *const options[] = {"--no-record", "--hosts", (char *)hosts, NULL};
    char *const survive[] = {"--min-ranks", least, "--restarts", restarts, NULL};
    char *const end_of_options[] = {"--", NULL};
    bool spares = order->min_nodes && order->min_nodes < order->nodes;
    bool ranks = order->launch == ENGINE_RANKS && (order->nodes > 1 || order->places[0].count > 1);
    char *const *const parts[] = {ranks ? local->run.items : NULL, ranks ? options : NULL,
                                  ranks && spares ? survive : NULL, ranks ? end_of_options : NULL, order->command};
    snprintf(least, sizeof least, "%" PRIu32, order->min_nodes * order->places[0].count);
    snprintf(restarts, sizeof restarts, "%" PRIu32, order->restarts);
    weft_status status = WEFT_OK;
    *command = (struct string_list){0};
    if (number > 0 && order->launch != ENGINE_EACH_NODE)
        return WEFT_OK;
    for (size_t i = 0; i < ARRAY_SIZE(parts) && status == WEFT_OK; i++)
        status = string_list_add_all(command, parts[i], error);
    if (status != WEFT_OK)
        string_list_free(command);
    return status;
}

/* Add to the environment how `weft run` on the node in `directory` reaches the others. */
static weft_status write_reach(const struct engine_local *local, const char *directory, struct string_list *environment,
                               struct error *error)
{
    struct buffer words = {0}, variable = {0};
    for (uint32_t i = 0; i < local->reach.count; i++)
        agent_put_word(&words, local->reach.items[i]);
    agent_put_word(&words, directory);
    buffer_put(&variable, "WEFT_AGENT=", strlen("WEFT_AGENT="));
    buffer_put(&variable, buffer_begin(&words), buffer_size(&words));
    buffer_put(&variable, "", 1);
    weft_status status = words.failed || variable.failed
                             ? error_memory(error, strlen(directory), "an order")
                             : string_list_add(environment, (const char *)buffer_begin(&variable), error);
    buffer_free(&words);
    buffer_free(&variable);
    return status;
}

/* The environment of a node: how `weft run` reaches other nodes, then what was ordered. string_list_free() frees it. */
static weft_status node_environment(const struct engine_local *local, const struct engine_order *order,
                                    const char *directory, struct string_list *environment, struct error *error)
{
    *environment = (struct string_list){0};
    weft_status status = local->reach.count > 0 ? write_reach(local, directory, environment, error) : WEFT_OK;
    return status == WEFT_OK ? string_list_add_all(environment, order->environment, error) : status;
}

/* Make the directories of a node, readable by this user alone. */
static weft_status make_node_directory(const char *directory, struct error *error)
{
    char journal[FILE_PATH_BYTES];
    weft_status status = file_make_directory(directory, error);
    if (status == WEFT_OK && chmod(directory, 0700) != 0)
        status = error_system(error, "cannot keep others out of '%s'", directory);
    if (status == WEFT_OK)
        status = file_join(journal, directory, "journal", error);
    if (status == WEFT_OK && mkdir(journal, 0700) != 0 && errno != EEXIST)
        status = error_system(error, "cannot make the directory '%s'", journal);
    return status;
}

/* Let the run's user reach the file of metrics and the socket without listing the directories above. */
static weft_status let_user_in(const struct engine_local *local, const char *directory, struct error *error)
{
    char path[FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s", directory);
    while (strlen(path) >= strlen(local->directory)) {
        if (chmod(path, 0711) != 0)
            return error_system(error, "cannot let a run's user into '%s'", path);
        *strrchr(path, '/') = '\0';
    }
    return WEFT_OK;
}

/* Nobody else may read a node's files; the run's user may only pass through its directory. */
static weft_status open_node(const struct engine_local *local, const struct engine_order *order, const char *directory,
                             const char *path, struct error *error)
{
    if (chmod(path, 0600) != 0)
        return error_system(error, "cannot keep others from reading '%s'", path);
    return order->user && *order->user ? let_user_in(local, directory, error) : WEFT_OK;
}

/* Write the order of a node if it is missing. */
static weft_status write_order(struct engine_local *local, const struct engine_order *order, uint32_t number,
                               char *hosts, struct error *error)
{
    char directory[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
    weft_status status = node_directory(directory, local->directory, &order->attempt, number, error);
    if (status == WEFT_OK)
        status = file_join(path, directory, "order", error);
    if (status == WEFT_OK && file_exists(path)) /* its writer may have died right after */
        return open_node(local, order, directory, path, error);
    if (status == WEFT_OK)
        status = make_node_directory(directory, error);
    if (status != WEFT_OK)
        return status;
    struct node_order own = {
        .attempt = order->attempt,
        .node = number,
        .nodes = order->nodes,
        .gpus = order->gpus,
        .grace = order->grace,
        .time_limit = order->time_limit,
        .lease = order->lease,
        .heartbeat = order->heartbeat,
        .output_bytes = order->output_bytes,
        .directory = (char *)order->directory,
        .host = (char *)order->places[number].host,
        .slots = write_slots(&order->places[number]),
        .hosts = hosts,
        .user = (char *)(order->user ? order->user : ""),
        .secret_directory = (char *)(order->secret_directory ? order->secret_directory : ""),
    };
    status = local_limits_of_node(local, order, number, local_order_find_host(local, own.host), &own.limits, error);
    own.limits.file_bytes = order->file_bytes;
    memcpy(own.boot, local->boot, sizeof own.boot);
    memcpy(own.platform, local->platform, sizeof own.platform);
    if (status == WEFT_OK)
        status = string_list_add_all(&own.secrets, order->secrets, error);
    if (status == WEFT_OK)
        status = own.slots ? node_environment(local, order, directory, &own.environment, error)
                           : error_memory(error, 12, "an order");
    if (status == WEFT_OK)
        status = node_command(local, order, number, hosts, &own.command, error);
    if (status == WEFT_OK)
        status = node_stop_reserve(directory, error);
    if (status == WEFT_OK)
        status = node_order_save(&own, directory, error);
    string_list_free(&own.command);
    string_list_free(&own.environment);
    string_list_free(&own.secrets);
    free(own.slots);
    free(own.limits.processors);
    return status == WEFT_OK ? open_node(local, order, directory, path, error) : status;
}

weft_status local_order_write(struct engine_local *local, const struct engine_order *order, struct error *error)
{
    char *hosts = local_order_write_hosts(order);
    if (!hosts)
        return error_memory(error, order->nodes, "an order");
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && i < order->nodes; i++)
        status = write_order(local, order, i, hosts, error);
    free(hosts);
    return status;
}

/* ---- whose they are ---- */

static bool local_local_order_is_own(const struct engine_local *local, const char *platform)
{
    return *platform ? strcmp(platform, local->platform) == 0 : local->adopts || !*local->platform;
}

bool local_order_is_own(const struct engine_local *local, const char *directory)
{
    char platform[NODE_PLATFORM_BYTES];
    return node_order_platform(directory, platform, NULL) != WEFT_OK || local_local_order_is_own(local, platform);
}

/* Contents of a run's directory. */
struct local_order_found {
    bool others; /* orders of another platform, */
    char platform[NODE_PLATFORM_BYTES];
    bool runs; /* that still run: they were killed and are about to end */
};

static weft_status look_at_attempt(const struct engine_local *local, const struct attempt *attempt,
                                   struct local_order_found *found, struct error *error)
{
    char directory[FILE_PATH_BYTES], platform[NODE_PLATFORM_BYTES];
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < ATTEMPT_NODES_MOST && status == WEFT_OK; i++) {
        bool gone = true;
        status = node_directory(directory, local->directory, attempt, i, error);
        if (status != WEFT_OK || !file_is_directory(directory))
            break;
        if (node_order_platform(directory, platform, NULL) != WEFT_OK || local_local_order_is_own(local, platform))
            continue;
        found->others = true;
        memcpy(found->platform, platform, sizeof platform);
        status = node_agent_gone(directory, true, &gone, error);
        found->runs = found->runs || !gone;
    }
    return status;
}

weft_status local_order_make_room(const struct engine_local *local, const struct attempt *attempt, struct error *error)
{
    struct attempt run = *attempt, each = *attempt;
    struct local_order_found found = {0};
    char directory[FILE_PATH_BYTES], aside[FILE_PATH_BYTES];
    int64_t epoch;
    run.epoch = 0;
    weft_status status = node_directory(directory, local->directory, &run, 0, error);
    DIR *epochs = status == WEFT_OK ? opendir(directory) : NULL;
    for (const char *name; status == WEFT_OK && (name = file_listing_next(epochs));)
        if (text_parse_integer(name, "epoch", 1, INT64_MAX, &epoch, NULL) == WEFT_OK) {
            each.epoch = (uint64_t)epoch;
            status = look_at_attempt(local, &each, &found, error);
        }
    file_listing_close(epochs);
    if (status != WEFT_OK || !found.others)
        return status;
    if (found.runs)
        return error_set(error, WEFT_ERROR_SYSTEM, "run %s of another platform still runs in '%s', and is being ended",
                         attempt->run, directory);
    if (snprintf(aside, sizeof aside, "%s.%s", directory, *found.platform ? found.platform : "older") >=
        (int)sizeof aside)
        return error_set(error, WEFT_ERROR_SYSTEM, "the path '%.200s' is too long", directory);
    return rename(directory, aside) == 0 ? WEFT_OK
                                         : error_system(error, "cannot rename '%s' to '%s'", directory, aside);
}
