/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of nodes, written to their directories, and checks of existing ones. */
#include "platform/engine/local/internal/state.h"

#include "base/text.h"
#include "launch/agent.h"
#include "platform/agent/agent.h"
#include "platform/engine/order.h"

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
    weft_status status = engine_order_check(order, &local->run, error);
    if (status != WEFT_OK)
        return status;
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

/* Put before what was ordered for the environment of a node how `weft run` there reaches the others. */
static weft_status tell_reach(const struct engine_local *local, const char *directory, struct node_order *order,
                              struct error *error)
{
    struct string_list environment = {0};
    if (local->reach.count == 0)
        return WEFT_OK;
    weft_status status = write_reach(local, directory, &environment, error);
    if (status == WEFT_OK)
        status = string_list_add_all(&environment, order->environment.items, error);
    if (status != WEFT_OK) {
        string_list_free(&environment);
        return status;
    }
    string_list_free(&order->environment);
    order->environment = environment;
    return WEFT_OK;
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
static weft_status open_node(const struct engine_local *local, const char *user, const char *directory,
                             const char *path, struct error *error)
{
    if (chmod(path, 0600) != 0)
        return error_system(error, "cannot keep others from reading '%s'", path);
    return user && *user ? let_user_in(local, directory, error) : WEFT_OK;
}

weft_status local_order_save(const struct engine_local *local, struct node_order *order, struct error *error)
{
    char directory[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
    weft_status status = node_directory(directory, local->directory, &order->attempt, order->node, error);
    if (status == WEFT_OK)
        status = file_join(path, directory, "order", error);
    if (status == WEFT_OK && file_exists(path)) /* its writer may have died right after */
        return open_node(local, order->user, directory, path, error);
    memcpy(order->boot, local->boot, sizeof order->boot);
    memcpy(order->platform, local->platform, sizeof order->platform);
    if (status == WEFT_OK)
        status = engine_directory_make(directory, error);
    if (status == WEFT_OK)
        status = tell_reach(local, directory, order, error);
    if (status == WEFT_OK)
        status = node_stop_reserve(directory, error);
    if (status == WEFT_OK)
        status = node_order_save(order, directory, error);
    return status == WEFT_OK ? open_node(local, order->user, directory, path, error) : status;
}

weft_status local_order_write(struct engine_local *local, const struct engine_order *order, struct error *error)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && i < order->nodes; i++) {
        struct node_order own;
        status = engine_order_of_node(order, i, &local->run, &own, error);
        if (status != WEFT_OK)
            break;
        status = local_limits_of_node(local, order, i, local_order_find_host(local, own.host), &own.limits, error);
        own.limits.file_bytes = order->file_bytes;
        if (status == WEFT_OK)
            status = local_order_save(local, &own, error);
        node_order_free(&own);
    }
    return status;
}

/* ---- whose they are ---- */

struct engine_owner local_owner(const struct engine_local *local)
{
    return (struct engine_owner){local->directory, local->platform, local->adopts};
}

bool local_order_is_own(const struct engine_local *local, const char *directory)
{
    const struct engine_owner owner = local_owner(local);
    return engine_directory_is_own(&owner, directory);
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
    const struct engine_owner owner = local_owner(local);
    char directory[FILE_PATH_BYTES], platform[NODE_PLATFORM_BYTES];
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < ATTEMPT_NODES_MOST && status == WEFT_OK; i++) {
        bool gone = true;
        status = node_directory(directory, local->directory, attempt, i, error);
        if (status != WEFT_OK || !file_is_directory(directory))
            break;
        if (node_order_platform(directory, platform, NULL) != WEFT_OK || engine_directory_owns(&owner, platform))
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
    if (status == WEFT_OK && epochs && errno)
        status = error_system(error, "cannot read the directory '%s'", directory);
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
