/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/local/local.h"

#include "base/clock.h"
#include "base/file/file.h"
#include "base/text.h"
#include "launch/spawn.h"
#include "platform/agent/agent.h"
#include "platform/agent/journal/file.h"
#include "platform/engine/directory.h"
#include "platform/engine/local/internal/state.h"
#include "platform/engine/order.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define BEGIN_SECONDS 5.0 /* for an agent to take its lock before another one is started */
#define STARTS_MOST   4   /* agents started for a node that has not begun */

static struct engine_local *local_of(struct engine *engine)
{
    return (struct engine_local *)engine;
}

/* ---- nodes ---- */

/* The engine's entry of a node; made if the directory has the node. */
static weft_status local_find_node(struct engine_local *local, const struct attempt *attempt, uint32_t number,
                                   struct local_node **found, struct error *error)
{
    char order[FILE_PATH_BYTES];
    *found = local_nodes_find(&local->nodes, attempt, number);
    if (*found)
        return WEFT_OK;
    if (!attempt_is_valid(attempt) || number >= ATTEMPT_NODES_MOST)
        return engine_directory_unknown(attempt, error);
    struct local_node *node = calloc(1, sizeof *node);
    if (!node)
        return error_memory(error, sizeof *node, "a node");
    *node = (struct local_node){.attempt = *attempt, .node = number, .reader = {.file = -1}, .watch = -1, .notice = -1};
    weft_status status = node_directory(node->directory, local->directory, attempt, number, error);
    if (status == WEFT_OK)
        status = file_join(order, node->directory, "order", error);
    if (status == WEFT_OK && (!file_exists(order) || !local_order_is_own(local, node->directory)))
        status = engine_directory_unknown(attempt, error);
    if (status == WEFT_OK)
        status = local_nodes_add(&local->nodes, node, error);
    if (status != WEFT_OK) {
        free(node);
        return status;
    }
    *found = node;
    return WEFT_OK;
}

static void free_node(struct engine_local *local, struct local_node *node)
{
    local_agent_wait(node, 0);
    local_watch_stop(local, node);
    local_notice_stop(local, node);
    journal_reader_close(&node->reader);
    free(node);
}

static void local_remove_node(struct engine_local *local, struct local_node *node)
{
    local_nodes_take_out(&local->nodes, node);
    free_node(local, node);
}

/* ---- starting ---- */

/* Start the agent of a node that has its order, if none was. */
static weft_status begin_node(struct engine_local *local, const struct attempt *attempt, uint32_t number,
                              struct error *error)
{
    struct local_node *node;
    weft_status status = local_find_node(local, attempt, number, &node, error);
    if (status == WEFT_OK && node->starts == 0 && node_agent_life(node->directory, NULL) == NODE_NOT_BEGUN) {
        local_notice_start(local, node);
        status = local_agent_start(local, node, error);
    }
    return status;
}

static weft_status local_start(struct engine *engine, const struct engine_order *order, struct error *error)
{
    struct engine_local *local = local_of(engine);
    weft_status status = local_order_check(local, order, error);
    if (status == WEFT_OK)
        status = local_order_make_room(local, &order->attempt, error);
    if (status == WEFT_OK)
        status = node_fence_raise(local->directory, &order->attempt, error);
    if (status == WEFT_OK) /* write all orders before starting an agent: all nodes start, or none */
        status = local_order_write(local, order, error);
    for (uint32_t i = 0; status == WEFT_OK && i < order->nodes; i++)
        status = begin_node(local, &order->attempt, i, error);
    return status;
}

weft_status engine_local_start_node(struct engine *engine, struct node_order *order, struct error *error)
{
    struct engine_local *local = local_of(engine);
    weft_status status = local_order_make_room(local, &order->attempt, error);
    if (status == WEFT_OK)
        status = node_fence_raise(local->directory, &order->attempt, error);
    if (status == WEFT_OK)
        status = local_order_save(local, order, error);
    return status == WEFT_OK ? begin_node(local, &order->attempt, order->node, error) : status;
}

/* ---- stopping ---- */

static weft_status stop_node(const char *directory, enum engine_end how, uint64_t grace, struct error *error)
{
    struct node_order order;
    weft_status status = node_order_load(directory, &order, error);
    if (status != WEFT_OK)
        return status;
    const struct node_stop stop = engine_order_stop(&order, how, grace);
    node_order_free(&order);
    status = node_stop_save(&stop, directory, error);
    if (status == WEFT_OK && node_agent_life(directory, NULL) == NODE_LIVES)
        (void)node_wake(directory, NULL); /* otherwise the agent finds the order by itself */
    return status;
}

static weft_status local_stop(struct engine *engine, const struct attempt *attempt, enum engine_end how, uint64_t grace,
                              struct error *error)
{
    struct engine_local *local = local_of(engine);
    uint32_t nodes;
    weft_status status = engine_directory_nodes(local->directory, attempt, &nodes, error), first = status;
    for (uint32_t i = 0; status == WEFT_OK && i < nodes; i++) {
        char directory[FILE_PATH_BYTES];
        if (!engine_directory_find(local->directory, attempt, i, directory))
            continue; /* never ordered, and now fenced */
        weft_status told = stop_node(directory, how, grace, first == WEFT_OK ? error : NULL);
        first = first == WEFT_OK ? told : first; /* stop the others all the same */
    }
    return first;
}

static weft_status local_remark(struct engine *engine, const struct attempt *attempt, const char *message,
                                struct error *error)
{
    struct local_node *node;
    weft_status status = local_find_node(local_of(engine), attempt, 0, &node, error);
    if (status == WEFT_OK)
        status = node_remark_save(message, node->directory, error);
    if (status == WEFT_OK && node_agent_life(node->directory, NULL) == NODE_LIVES)
        (void)node_wake(node->directory, NULL); /* otherwise the agent finds it by itself */
    return status;
}

/* ---- polling ---- */

/* The host was rebooted since the order, so nothing of the node runs. */
static bool machine_was_down(const struct engine_local *local, const struct local_node *node)
{
    struct node_order order;
    if (node_order_load(node->directory, &order, NULL) != WEFT_OK)
        return false;
    bool down = *order.boot && *local->boot && strcmp(order.boot, local->boot) != 0;
    node_order_free(&order);
    return down;
}

/* For a node that has not ended: watch its agent, start a new one, or bury it. `*more`: the journal may have grown
 * without a notice. */
static weft_status look_after(struct engine_local *local, struct local_node *node, bool *more, struct error *error)
{
    enum node_life life = node_agent_life(node->directory, NULL);
    local_agent_wait(node, WNOHANG);
    *more = life != NODE_LIVES || node->watch < 0;
    if (life == NODE_LIVES) {
        local_watch_start(local, node);
        return WEFT_OK;
    }
    local_watch_stop(local, node);
    if (life == NODE_HAS_ENDED)
        return WEFT_OK;
    if (machine_was_down(local, node))
        return node_agent_bury(node->directory, "the machine went down while it ran", error);
    if (life == NODE_IS_DEAD)
        return node_agent_bury_killed(node->directory, error);
    if (node->started_at && clock_now() < node->started_at + (uint64_t)(BEGIN_SECONDS * 1e9))
        return WEFT_OK;
    if (node->starts < STARTS_MOST)
        return local_agent_start(local, node, error);
    char message[FILE_PATH_BYTES + 64];
    snprintf(message, sizeof message, "its agent cannot begin; see '%s/agent.log'", node->directory);
    return node_agent_bury(node->directory, message, error);
}

static weft_status local_poll(struct engine *engine, const struct attempt *attempt, uint32_t number, uint64_t after,
                              engine_record_visit *visit, void *context, struct error *error)
{
    struct engine_local *local = local_of(engine);
    struct local_node *node;
    bool stopped = false;
    weft_status status = local_find_node(local, attempt, number, &node, error);
    if (status != WEFT_OK)
        return status;
    if (node->watch >= 0 && !node_watch_take(node->watch)) /* before reading: later records cause another nudge */
        local_watch_stop(local, node);
    status =
        engine_directory_read(&node->reader, node->directory, after, visit, context, &stopped, &node->ended, error);
    if (status != WEFT_OK || stopped)
        return status;
    if (node->ended) {
        local_remove_node(local, node); /* thousands of old attempts cost nothing */
        return WEFT_OK;
    }
    bool more;
    status = look_after(local, node, &more, error);
    if (status == WEFT_OK && more) /* the end just written, or records from before the watch */
        status = engine_directory_read(&node->reader, node->directory, node->reader.after, visit, context, &stopped,
                                       &node->ended, error);
    if (status == WEFT_OK && node->ended && !stopped)
        local_remove_node(local, node);
    return status;
}

static weft_status local_gone(struct engine *engine, const struct attempt *attempt, uint32_t number, bool kill,
                              bool *gone, struct error *error)
{
    struct engine_local *local = local_of(engine);
    char directory[FILE_PATH_BYTES];
    weft_status status = node_directory(directory, local->directory, attempt, number, error);
    if (status == WEFT_OK)
        status = node_agent_gone(directory, kill, gone, error);
    struct local_node *node = local_nodes_find(&local->nodes, attempt, number);
    if (status == WEFT_OK && *gone && kill && node)
        local_remove_node(local, node);
    return status;
}

/* ---- what there is ---- */

static weft_status local_attempts(struct engine *engine, engine_attempt_visit *visit, void *context,
                                  struct error *error)
{
    const struct engine_owner owner = local_owner(local_of(engine));
    return engine_directory_attempts(&owner, visit, context, error);
}

static weft_status local_nodes(struct engine *engine, const struct attempt *attempt, engine_node_visit *visit,
                               void *context, struct error *error)
{
    struct engine_local *local = local_of(engine);
    uint32_t nodes;
    weft_status status = engine_directory_nodes(local->directory, attempt, &nodes, error);
    bool more = true;
    for (uint32_t i = 0; status == WEFT_OK && more && i < nodes; i++) {
        char directory[FILE_PATH_BYTES];
        struct node_order order;
        if (!engine_directory_find(local->directory, attempt, i, directory))
            continue;
        status = node_order_load(directory, &order, error);
        if (status != WEFT_OK)
            break;
        enum node_life life = node_agent_life(directory, NULL);
        struct engine_node told = {i, nodes, order.host,
                                   life == NODE_LIVES       ? ENGINE_NODE_RUNNING
                                   : life == NODE_NOT_BEGUN ? ENGINE_NODE_STARTING
                                                            : ENGINE_NODE_ENDED};
        more = visit(context, &told);
        node_order_free(&order);
    }
    return status;
}

static weft_status local_exec(struct engine *engine, const struct attempt *attempt, uint32_t number,
                              const struct node_exec_order *order, struct node_exec *exec, struct error *error)
{
    struct engine_local *local = local_of(engine);
    struct local_node *node;
    weft_status status = local_find_node(local, attempt, number, &node, error);
    if (status != WEFT_OK)
        return status;
    if (node_agent_life(node->directory, NULL) != NODE_LIVES)
        return error_set(error, WEFT_ERROR_STATE, "node %" PRIu32 " of run %s does not run", number, attempt->run);
    return node_exec_begin(node->directory, order, exec, error);
}

static weft_status local_hosts(struct engine *engine, engine_host_visit *visit, void *context, struct error *error)
{
    struct engine_local *local = local_of(engine);
    for (uint32_t i = 0; i < local->host_count; i++) {
        const struct local_host *that = &local->hosts[i];
        struct engine_host host = {that->name, that->pod, that->slots,      that->gpus,
                                   true,       "",        that->processors, that->memory};
        if (!visit(context, &host))
            break;
    }
    return WEFT_OK;
}

/* After its last record an agent lives a little longer, and may be killed even then. */
static enum node_life wait_for_end(const char *directory)
{
    enum node_life life = NODE_LIVES;
    for (int i = 0; i < 20 && (life = node_agent_life(directory, NULL)) == NODE_LIVES; i++)
        poll(NULL, 0, 5);
    if (life == NODE_IS_DEAD && node_agent_bury(directory, "its agent was killed", NULL) == WEFT_OK)
        life = node_agent_life(directory, NULL);
    return life;
}

static weft_status local_forget(struct engine *engine, const struct attempt *attempt, struct error *error)
{
    struct engine_local *local = local_of(engine);
    char directory[FILE_PATH_BYTES];
    uint32_t nodes;
    weft_status status = node_directory(directory, local->directory, attempt, ATTEMPT_NODES_MOST, error);
    const struct engine_owner owner = local_owner(local);
    if (status == WEFT_OK && !file_is_directory(directory))
        return WEFT_OK;
    if (engine_directory_find(local->directory, attempt, 0, directory) && !engine_directory_is_own(&owner, directory))
        return WEFT_OK;
    if (engine_directory_nodes(local->directory, attempt, &nodes, NULL) != WEFT_OK)
        nodes = ATTEMPT_NODES_MOST; /* an earlier call was interrupted */
    for (uint32_t i = 0; status == WEFT_OK && i < nodes; i++) {
        status = node_directory(directory, local->directory, attempt, i, error);
        enum node_life life = status == WEFT_OK ? wait_for_end(directory) : NODE_HAS_ENDED;
        if (status == WEFT_OK && file_is_directory(directory) && life != NODE_HAS_ENDED)
            status = error_set(error, WEFT_ERROR_STATE,
                               "attempt %" PRIu64 " of run %s cannot be forgotten: its node %" PRIu32 " has not ended",
                               attempt->epoch, attempt->run, i);
    }
    if (status != WEFT_OK)
        return status;
    for (uint32_t i = 0; i < nodes; i++) {
        struct local_node *node = local_nodes_find(&local->nodes, attempt, i);
        if (node)
            local_remove_node(local, node);
    }
    return engine_directory_remove(local->directory, attempt, error);
}

weft_status engine_local_forget_node(struct engine *engine, const struct attempt *attempt, uint32_t number,
                                     struct error *error)
{
    struct engine_local *local = local_of(engine);
    char directory[FILE_PATH_BYTES], parent[FILE_PATH_BYTES];
    weft_status status = node_directory(directory, local->directory, attempt, number, error);
    if (status == WEFT_OK)
        status = node_directory(parent, local->directory, attempt, ATTEMPT_NODES_MOST, error);
    if (status != WEFT_OK || !file_is_directory(directory))
        return status;
    if (wait_for_end(directory) != NODE_HAS_ENDED)
        return error_set(error, WEFT_ERROR_STATE,
                         "node %" PRIu32 " of attempt %" PRIu64 " of run %s cannot be forgotten: it has not ended",
                         number, attempt->epoch, attempt->run);
    struct local_node *node = local_nodes_find(&local->nodes, attempt, number);
    if (node)
        local_remove_node(local, node);
    status = file_remove_tree(directory, error);
    if (status == WEFT_OK)
        (void)rmdir(parent); /* unless another node of it is here */
    return status;
}

/* ---- opening and closing ---- */

static void local_close(struct engine *engine)
{
    struct engine_local *local = local_of(engine);
    for (struct local_node *node = local_nodes_first(&local->nodes), *next; node; node = next) {
        next = local_nodes_next(&local->nodes, node);
        free_node(local, node);
    }
    free(local->nodes.lists);
    for (uint32_t i = 0; i < local->host_count; i++) {
        free(local->hosts[i].name);
        free(local->hosts[i].pod);
    }
    free(local->hosts);
    string_list_free(&local->agent);
    string_list_free(&local->reach);
    string_list_free(&local->run);
    file_close(engine->descriptor);
    file_close(local->notices);
    free(local);
}

static bool copy_config(struct engine_local *local, const struct engine_local_config *config)
{
    cpu_set_t cores;
    const struct engine_local_host whole = {.name = "local", .slots = spawn_cores(&cores)};
    const struct engine_local_host *hosts = config->hosts ? config->hosts : &whole;
    uint32_t count = config->hosts ? config->host_count : 1;
    local->hosts = calloc(count, sizeof *local->hosts);
    for (uint32_t i = 0; local->hosts && i < count; i++) {
        local->hosts[i] = (struct local_host){.name = strdup(hosts[i].name),
                                              .pod = strdup(hosts[i].pod ? hosts[i].pod : ""),
                                              .slots = hosts[i].slots,
                                              .gpus = hosts[i].gpus};
        local->host_count++;
        if (!local->hosts[i].name || !local->hosts[i].pod)
            return false;
    }
    if (!local->hosts || string_list_add_all(&local->agent, config->agent, NULL) != WEFT_OK ||
        string_list_add_all(&local->reach, config->reach, NULL) != WEFT_OK ||
        string_list_add_all(&local->run, config->run, NULL) != WEFT_OK)
        return false;
    local_limits_divide(local);
    return true;
}

weft_status engine_local_open(const struct engine_local_config *config, struct engine **engine, struct error *error)
{
    struct engine_local *local = calloc(1, sizeof *local);
    if (!local)
        return error_memory(error, sizeof *local, "the local engine");
    local->engine = (struct engine){
        .name = "local",
        .refuses_for_all = true,
        .heartbeat = NODE_HEARTBEAT,
        .descriptor = epoll_create1(EPOLL_CLOEXEC),
        .start = local_start,
        .stop = local_stop,
        .remark = local_remark,
        .poll = local_poll,
        .gone = local_gone,
        .heard = local_heard,
        .attempts = local_attempts,
        .nodes = local_nodes,
        .exec = local_exec,
        .hosts = local_hosts,
        .forget = local_forget,
        .close = local_close,
    };
    local->adopts = config->adopts;
    local->notices = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN};
    weft_status status = WEFT_OK;
    if (local->engine.descriptor < 0 || local->notices < 0 ||
        epoll_ctl(local->engine.descriptor, EPOLL_CTL_ADD, local->notices, &event) != 0)
        status = error_system(error, "cannot watch for agents");
    else if (!copy_config(local, config))
        status = error_memory(error, sizeof *local, "the local engine");
    else if (snprintf(local->platform, sizeof local->platform, "%s", config->platform ? config->platform : "") >=
             (int)sizeof local->platform)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "'%.60s' is no name of a platform", config->platform);
    else if (config->directory[0] != '/' || snprintf(local->directory, sizeof local->directory, "%s",
                                                     config->directory) >= (int)sizeof local->directory)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "'%.200s' is no absolute path", config->directory);
    if (status == WEFT_OK)
        status = file_make_directory(local->directory, error);
    struct stat there;
    if (status == WEFT_OK && (stat(local->directory, &there) != 0 ||
                              ((there.st_mode & 066) && chmod(local->directory, there.st_mode & 0700) != 0)))
        status = error_system(error, "cannot keep others out of '%s'", local->directory);
    node_boot(local->boot);
    if (status != WEFT_OK) {
        local_close(&local->engine);
        return status;
    }
    *engine = &local->engine;
    return WEFT_OK;
}
