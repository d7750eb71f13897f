/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/order.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROCESSES_OF_SLOT ((uint64_t)1024)

weft_status engine_order_check(const struct engine_order *order, const struct string_list *run, struct error *error)
{
    if (!attempt_is_valid(&order->attempt))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%.63s' is no name of a run: it may have letters, digits, -, _ and dots", order->attempt.run);
    if (order->nodes == 0 || order->nodes > ATTEMPT_NODES_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "an attempt has from 1 to %d nodes, not %" PRIu32,
                         ATTEMPT_NODES_MOST, order->nodes);
    if (!order->directory || order->directory[0] != '/')
        return error_set(error, WEFT_ERROR_ARGUMENT, "the directory of a run must be an absolute path");
    if (order->launch == ENGINE_RANKS && !run->count)
        return error_set(error, WEFT_ERROR_ARGUMENT, "this engine cannot start ranks: it was not told how");
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

static char *engine_order_write_hosts(const struct engine_order *order)
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

/* The command of a node; empty if it only waits. */
static weft_status node_command(const struct engine_order *order, uint32_t number, const struct string_list *run,
                                const char *hosts, struct string_list *command, struct error *error)
{
    char least[24], restarts[24];
    char *const options[] = {"--no-record", "--hosts", (char *)hosts, NULL};
    char *const survive[] = {"--min-ranks", least, "--restarts", restarts, NULL};
    char *const end_of_options[] = {"--", NULL};
    bool spares = order->min_nodes && order->min_nodes < order->nodes;
    bool ranks = order->launch == ENGINE_RANKS && (order->nodes > 1 || order->places[0].count > 1);
    char *const *const parts[] = {ranks ? run->items : NULL, ranks ? options : NULL, ranks && spares ? survive : NULL,
                                  ranks ? end_of_options : NULL, order->command};
    snprintf(least, sizeof least, "%" PRIu32, order->min_nodes * order->places[0].count);
    snprintf(restarts, sizeof restarts, "%" PRIu32, order->restarts);
    weft_status status = WEFT_OK;
    if (number > 0 && order->launch != ENGINE_EACH_NODE)
        return WEFT_OK;
    for (size_t i = 0; i < ARRAY_SIZE(parts) && status == WEFT_OK; i++)
        status = string_list_add_all(command, parts[i], error);
    return status;
}

weft_status engine_order_of_node(const struct engine_order *order, uint32_t number, const struct string_list *run,
                                 struct node_order *made, struct error *error)
{
    const struct engine_place *place = &order->places[number];
    const uint32_t slots = place->count ? place->count : 1;
    *made = (struct node_order){
        .attempt = order->attempt,
        .node = number,
        .nodes = order->nodes,
        .gpus = order->gpus,
        .grace = order->grace,
        .time_limit = order->time_limit,
        .lease = order->lease,
        .heartbeat = order->heartbeat,
        .output_bytes = order->output_bytes,
        .directory = strdup(order->directory),
        .host = strdup(place->host),
        .slots = write_slots(place),
        .hosts = engine_order_write_hosts(order),
        .user = strdup(order->user ? order->user : ""),
        .secret_directory = strdup(order->secret_directory ? order->secret_directory : ""),
        .limits = {.memory = order->memory,
                   .memory_asked = order->memory != 0,
                   .processes = order->processes ? order->processes : PROCESSES_OF_SLOT * slots,
                   .file_bytes = order->file_bytes,
                   .quota = order->processors,
                   .weight = slots},
    };
    weft_status status = WEFT_OK;
    if (!made->directory || !made->host || !made->slots || !made->hosts || !made->user || !made->secret_directory)
        status = error_memory(error, sizeof *made, "an order");
    if (status == WEFT_OK)
        status = string_list_add_all(&made->secrets, order->secrets, error);
    if (status == WEFT_OK)
        status = string_list_add_all(&made->environment, order->environment, error);
    if (status == WEFT_OK)
        status = node_command(order, number, run, made->hosts, &made->command, error);
    if (status != WEFT_OK)
        node_order_free(made);
    return status;
}

struct node_stop engine_order_stop(const struct node_order *order, enum engine_end how, uint64_t grace)
{
    return (struct node_stop){how == ENGINE_STOP         ? SIGTERM
                              : how == ENGINE_CHECKPOINT ? SIGUSR1
                                                         : SIGKILL,
                              grace ? grace : order->grace};
}
