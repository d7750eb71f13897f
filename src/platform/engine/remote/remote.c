/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/remote/remote.h"

#include "base/clock.h"
#include "platform/engine/order.h"
#include "platform/engine/remote/internal/state.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

/* ---- orders ---- */

weft_status remote_token(const struct remote *remote, const struct attempt *attempt, char *token, struct error *error)
{
    char directory[FILE_PATH_BYTES], path[FILE_PATH_BYTES], *text;
    uint8_t random[(REMOTE_TOKEN_BYTES - 1) / 2];
    size_t size;
    weft_status status = node_directory(directory, remote->directory, attempt, ATTEMPT_NODES_MOST, error);
    if (status == WEFT_OK)
        status = file_join(path, directory, "token", error);
    if (status != WEFT_OK)
        return status;
    if (!file_exists(path)) {
        randombytes_buf(random, sizeof random);
        sodium_bin2hex(token, REMOTE_TOKEN_BYTES, random, sizeof random);
        status = file_write(path, token, REMOTE_TOKEN_BYTES - 1, error);
        return status == WEFT_OK && chmod(path, 0600) != 0
                   ? error_system(error, "cannot keep others from reading '%s'", path)
                   : status;
    }
    status = file_read(path, 256, &text, &size, error);
    if (status != WEFT_OK)
        return status;
    if (size != REMOTE_TOKEN_BYTES - 1)
        status = error_set(error, WEFT_ERROR_DATA, "'%s' is damaged", path);
    else
        memcpy(token, text, REMOTE_TOKEN_BYTES);
    free(text);
    return status;
}

/* Write the order of a node, if it is not there yet. */
static weft_status save_order(const struct remote *remote, const struct engine_order *order, uint32_t number,
                              struct error *error)
{
    char directory[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
    struct node_order own;
    weft_status status = node_directory(directory, remote->directory, &order->attempt, number, error);
    if (status == WEFT_OK)
        status = file_join(path, directory, "order", error);
    if (status != WEFT_OK || file_exists(path))
        return status;
    status = engine_order_of_node(order, number, &remote->run, &own, error);
    if (status != WEFT_OK)
        return status;
    memcpy(own.platform, remote->platform, sizeof own.platform);
    status = engine_directory_make(directory, error);
    if (status == WEFT_OK)
        status = node_stop_reserve(directory, error);
    if (status == WEFT_OK)
        status = node_order_save(&own, directory, error);
    if (status == WEFT_OK && chmod(path, 0600) != 0)
        status = error_system(error, "cannot keep others from reading '%s'", path);
    node_order_free(&own);
    return status;
}

weft_status remote_order(struct remote *remote, const struct engine_order *order, char *token, struct error *error)
{
    struct remote_node *node;
    weft_status status = engine_order_check(order, &remote->run, error);
    if (status == WEFT_OK)
        status = node_fence_raise(remote->directory, &order->attempt, error);
    if (status == WEFT_OK)
        status = remote_files_save(remote, order, error);
    for (uint32_t i = 0; status == WEFT_OK && i < order->nodes; i++)
        status = save_order(remote, order, i, error);
    if (status == WEFT_OK)
        status = remote_token(remote, &order->attempt, token, error);
    pthread_mutex_lock(&remote->lock);
    for (uint32_t i = 0; status == WEFT_OK && i < order->nodes; i++)
        status = remote_node_find(remote, &order->attempt, i, &node, error);
    /* Older attempts are over: their hosts, as far as they can be reached, kill what they have. */
    for (node = remote->nodes; node; node = node->next)
        node->to_refuse = node->to_refuse || (strcmp(node->attempt.run, order->attempt.run) == 0 &&
                                              node->attempt.epoch < order->attempt.epoch);
    pthread_mutex_unlock(&remote->lock);
    remote_listener_wake(remote);
    return status;
}

/* ---- the end ---- */

weft_status remote_give_up(struct remote *remote, const struct attempt *attempt, enum remote_end how,
                           const char *reason, struct error *error)
{
    const struct journal_record end = {.kind = JOURNAL_EXITED,
                                       .exited = {.code = how == REMOTE_END_FAILED ? 1 : EX_TEMPFAIL,
                                                  .cause = how == REMOTE_END_STOPPED   ? JOURNAL_STOPPED
                                                           : how == REMOTE_END_BY_HOST ? JOURNAL_NOT_STARTED
                                                                                       : JOURNAL_BY_ITSELF}};
    uint32_t nodes;
    weft_status status = engine_directory_nodes(remote->directory, attempt, &nodes, error), first = WEFT_OK;
    pthread_mutex_lock(&remote->lock);
    for (uint32_t i = 0; status == WEFT_OK && i < nodes; i++) {
        struct remote_node *node;
        if (remote_node_find(remote, attempt, i, &node, NULL) != WEFT_OK || *node->instance)
            continue; /* never ordered, and now fenced; or begun */
        weft_status ended = remote_node_end(remote, node, &end, reason, first == WEFT_OK ? error : NULL);
        first = first == WEFT_OK ? ended : first; /* end the others all the same */
    }
    pthread_mutex_unlock(&remote->lock);
    return status == WEFT_OK ? first : status;
}

static weft_status keep_stop(struct remote_node *node, enum engine_end how, uint64_t grace, struct error *error)
{
    struct node_order order;
    weft_status status = node_order_load(node->directory, &order, error);
    if (status != WEFT_OK)
        return status;
    const struct node_stop stop = engine_order_stop(&order, how, grace);
    node_order_free(&order);
    status = node_stop_save(&stop, node->directory, error);
    node->to_stop = true;
    return status;
}

weft_status remote_stop(struct remote *remote, const struct attempt *attempt, enum engine_end how, uint64_t grace,
                        struct error *error)
{
    uint32_t nodes;
    weft_status status = engine_directory_nodes(remote->directory, attempt, &nodes, error), first = status;
    pthread_mutex_lock(&remote->lock);
    for (uint32_t i = 0; status == WEFT_OK && i < nodes; i++) {
        struct remote_node *node;
        if (remote_node_find(remote, attempt, i, &node, NULL) != WEFT_OK)
            continue;
        if (!node->journal.ended && *node->instance) {
            weft_status told = keep_stop(node, how, grace, first == WEFT_OK ? error : NULL);
            first = first == WEFT_OK ? told : first; /* stop the others all the same */
        }
    }
    pthread_mutex_unlock(&remote->lock);
    if (status == WEFT_OK) /* a host that connects only now is refused */
        status = remote_give_up(remote, attempt, REMOTE_END_STOPPED, "it was asked to end before a host had begun it",
                                error);
    remote_listener_wake(remote);
    return first == WEFT_OK ? status : first;
}

weft_status remote_remark(struct remote *remote, const struct attempt *attempt, const char *message,
                          struct error *error)
{
    struct remote_node *node;
    pthread_mutex_lock(&remote->lock);
    weft_status status = remote_node_find(remote, attempt, 0, &node, error);
    if (status == WEFT_OK)
        status = node_remark_save(message, node->directory, error);
    if (status == WEFT_OK)
        node->to_remark = true;
    pthread_mutex_unlock(&remote->lock);
    remote_listener_wake(remote);
    return status;
}

/* ---- what happened ---- */

/* Old attempts cost nothing: forget nodes whose last record was visited, once their hosts have gone. */
static void remove_read(struct remote *remote)
{
    for (struct remote_node *node = remote->nodes, *next; node; node = next) {
        next = node->next;
        if (node->read_end && !node->link && !node->news)
            remote_node_remove(remote, node);
    }
}

weft_status remote_poll(struct remote *remote, const struct attempt *attempt, uint32_t number, uint64_t after,
                        engine_record_visit *visit, void *context, struct error *error)
{
    struct remote_node *node;
    bool stopped = false, ended = false;
    pthread_mutex_lock(&remote->lock);
    weft_status status = remote_node_find(remote, attempt, number, &node, error);
    if (status == WEFT_OK)
        remote_node_quiet(remote, node); /* before reading: later records tell again */
    if (status == WEFT_OK && after >= node->journal.next && !node->journal.ended)
        node->journal.next = after + 1; /* a crash of this machine has lost what was heard already: never twice */
    pthread_mutex_unlock(&remote->lock);
    if (status != WEFT_OK)
        return status;
    status = engine_directory_read(&node->reader, node->directory, after, visit, context, &stopped, &ended, error);
    pthread_mutex_lock(&remote->lock);
    node->read_end = node->read_end || (status == WEFT_OK && ended && !stopped);
    remove_read(remote);
    pthread_mutex_unlock(&remote->lock);
    return status;
}

weft_status remote_heard(struct remote *remote, engine_heard_visit *visit, void *context, struct error *error)
{
    struct {
        struct attempt attempt;
        uint32_t node;
    } *told = NULL;
    uint32_t count = 0;
    (void)error;
    pthread_mutex_lock(&remote->lock);
    const uint32_t most = remote->news;
    if (most)
        told = malloc(most * sizeof *told);
    for (struct remote_node *node = remote->nodes; told && node && count < most; node = node->next)
        if (node->news) {
            told[count].attempt = node->attempt;
            told[count++].node = node->node;
            remote_node_quiet(remote, node); /* nobody may want to know */
        }
    pthread_mutex_unlock(&remote->lock);
    if (most && !told)
        return error_memory(error, most * sizeof *told, "the nodes that have news");
    for (uint32_t i = 0; i < count; i++)
        if (!visit(context, &told[i].attempt, told[i].node))
            break;
    free(told);
    return WEFT_OK;
}

weft_status remote_gone(struct remote *remote, const struct attempt *attempt, uint32_t number, bool kill, bool *gone,
                        struct error *error)
{
    static const char given_up[] = "given up"; /* no process has this name: whichever comes for the node is refused */
    struct remote_node *node;
    char path[FILE_PATH_BYTES], directory[FILE_PATH_BYTES];
    struct error refusal = {0};
    pthread_mutex_lock(&remote->lock);
    weft_status status = remote_node_find(remote, attempt, number, &node, &refusal);
    *gone = status == WEFT_ERROR_STATE; /* a node that is not known does not run */
    if (status == WEFT_OK) {
        node->to_refuse = node->to_refuse || kill;
        *gone = !node->link && (!kill || remote_node_bind(node, given_up, &refusal) == WEFT_OK);
        if (*gone && kill)
            remote_node_remove(remote, node);
    } else if (status == WEFT_ERROR_DATA && kill) { /* its journal is damaged; hosts that ask are refused */
        *gone = node_directory(directory, remote->directory, attempt, number, NULL) == WEFT_OK &&
                file_join(path, directory, "instance", NULL) == WEFT_OK &&
                file_write(path, given_up, sizeof given_up - 1, &refusal) == WEFT_OK &&
                file_join(path, directory, "ended", NULL) == WEFT_OK && file_write(path, "", 0, &refusal) == WEFT_OK;
    }
    pthread_mutex_unlock(&remote->lock);
    remote_listener_wake(remote);
    return status == WEFT_ERROR_SYSTEM || status == WEFT_ERROR_MEMORY ? error_set(error, status, "%s", refusal.text)
                                                                      : WEFT_OK;
}

weft_status remote_attempts(struct remote *remote, engine_attempt_visit *visit, void *context, struct error *error)
{
    const struct engine_owner owner = {remote->directory, remote->platform, false};
    return engine_directory_attempts(&owner, visit, context, error);
}

weft_status remote_nodes(struct remote *remote, const struct attempt *attempt, engine_node_visit *visit, void *context,
                         struct error *error)
{
    uint32_t nodes;
    weft_status status = engine_directory_nodes(remote->directory, attempt, &nodes, error);
    bool more = true;
    for (uint32_t i = 0; status == WEFT_OK && more && i < nodes; i++) {
        char host[REMOTE_HOST_BYTES];
        struct remote_node *node;
        struct engine_node told = {i, nodes, host, ENGINE_NODE_STARTING};
        pthread_mutex_lock(&remote->lock);
        status = remote_node_find(remote, attempt, i, &node, error);
        if (status == WEFT_ERROR_STATE) { /* never ordered, and now fenced */
            pthread_mutex_unlock(&remote->lock);
            error_clear(error);
            status = WEFT_OK;
            continue;
        }
        if (status == WEFT_OK) {
            snprintf(host, sizeof host, "%s", node->host);
            told.state = node->journal.ended ? ENGINE_NODE_ENDED
                         : *node->instance   ? ENGINE_NODE_RUNNING
                                             : ENGINE_NODE_STARTING;
        }
        pthread_mutex_unlock(&remote->lock);
        if (status == WEFT_OK)
            more = visit(context, &told);
    }
    return status;
}

weft_status remote_forget(struct remote *remote, const struct attempt *attempt, struct error *error)
{
    char directory[FILE_PATH_BYTES];
    uint32_t nodes;
    weft_status status = node_directory(directory, remote->directory, attempt, ATTEMPT_NODES_MOST, error);
    if (status != WEFT_OK || !file_is_directory(directory))
        return status;
    const struct engine_owner owner = {remote->directory, remote->platform, false};
    char node_path[FILE_PATH_BYTES];
    if (engine_directory_find(remote->directory, attempt, 0, node_path) && !engine_directory_is_own(&owner, node_path))
        return WEFT_OK;
    if (engine_directory_nodes(remote->directory, attempt, &nodes, NULL) != WEFT_OK)
        nodes = 0; /* an earlier call was interrupted */
    pthread_mutex_lock(&remote->lock);
    for (uint32_t i = 0; i < nodes && status == WEFT_OK; i++) {
        struct remote_node *node;
        if (remote_node_find(remote, attempt, i, &node, NULL) != WEFT_OK)
            continue;
        if (!node->journal.ended)
            status = error_set(error, WEFT_ERROR_STATE,
                               "attempt %" PRIu64 " of run %s cannot be forgotten: its node %" PRIu32 " has not ended",
                               attempt->epoch, attempt->run, i);
        else if (node->link)
            status = error_set(error, WEFT_ERROR_STATE,
                               "attempt %" PRIu64 " of run %s cannot be forgotten yet: host %s still has it",
                               attempt->epoch, attempt->run, node->host);
        else
            remote_node_remove(remote, node);
    }
    pthread_mutex_unlock(&remote->lock);
    return status == WEFT_OK ? engine_directory_remove(remote->directory, attempt, error) : status;
}

/* ---- opening and closing ---- */

void remote_close(struct remote *remote)
{
    if (!remote)
        return;
    remote_listener_stop(remote);
    while (remote->nodes)
        remote_node_remove(remote, remote->nodes);
    string_list_free(&remote->run);
    file_close(remote->bell);
    file_close(remote->listening);
    SSL_CTX_free(remote->tls);
    pthread_mutex_destroy(&remote->lock);
    free(remote);
}

weft_status remote_open(const struct remote_config *config, struct remote **remote, struct error *error)
{
    char certificate[FILE_PATH_BYTES];
    struct remote *made = calloc(1, sizeof *made);
    if (!made || sodium_init() < 0) {
        free(made);
        return error_memory(error, sizeof *made, "an engine");
    }
    pthread_mutex_init(&made->lock, NULL);
    made->listening = made->wake = -1;
    made->opened_at = clock_now();
    made->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    weft_status status = WEFT_OK;
    if (made->bell < 0)
        status = error_system(error, "cannot make the descriptor of an engine");
    else if (config->directory[0] != '/' ||
             snprintf(made->directory, sizeof made->directory, "%s", config->directory) >= (int)sizeof made->directory)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "'%.200s' is no absolute path", config->directory);
    else if (snprintf(made->platform, sizeof made->platform, "%s", config->platform ? config->platform : "") >=
             (int)sizeof made->platform)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "'%.60s' is no name of a platform", config->platform);
    else if (config->shared &&
             snprintf(made->shared, sizeof made->shared, "%s", config->shared) >= (int)sizeof made->shared)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "'%.200s...' is too long to be a path", config->shared);
    if (status == WEFT_OK)
        status = string_list_add_all(&made->run, config->run, error);
    if (status == WEFT_OK)
        status = file_make_directory(made->directory, error);
    if (status == WEFT_OK && chmod(made->directory, 0700) != 0)
        status = error_system(error, "cannot keep others out of '%s'", made->directory);
    if (status == WEFT_OK)
        status = file_join(certificate, made->directory, "certificate.pem", error);
    if (status == WEFT_OK)
        status = certificate_server(certificate, &made->tls, made->print, error);
    if (status == WEFT_OK)
        status = remote_listen(made, config->host, config->port, error);
    if (status == WEFT_OK)
        status = remote_listener_start(made, error);
    if (status != WEFT_OK) {
        remote_close(made);
        return status;
    }
    *remote = made;
    return WEFT_OK;
}

uint16_t remote_port(const struct remote *remote)
{
    return remote->port;
}

const char *remote_print(const struct remote *remote)
{
    return remote->print;
}

int remote_descriptor(const struct remote *remote)
{
    return remote->bell;
}
