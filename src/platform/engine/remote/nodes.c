/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes in memory, and what their directories say. */
#include "base/clock.h"
#include "platform/engine/remote/internal/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static weft_status read_instance(struct remote_node *node, struct error *error)
{
    char path[FILE_PATH_BYTES], *text;
    size_t size;
    weft_status status = file_join(path, node->directory, "instance", error);
    if (status != WEFT_OK || !file_exists(path))
        return status;
    status = file_read(path, 256, &text, &size, error);
    if (status != WEFT_OK)
        return status;
    text[strcspn(text, "\n")] = '\0';
    snprintf(node->instance, sizeof node->instance, "%s", text);
    free(text);
    return WEFT_OK;
}

static weft_status load_node(struct remote *remote, struct remote_node *node, struct error *error)
{
    struct node_order order;
    struct journal_limits limits = {0};
    char journal[FILE_PATH_BYTES];
    weft_status status = node_order_load(node->directory, &order, error);
    if (status != WEFT_OK)
        return status;
    snprintf(node->host, sizeof node->host, "%s", order.host);
    limits.output_bytes = order.output_bytes;
    node_order_free(&order);
    status = read_instance(node, error);
    if (status == WEFT_OK)
        status = file_join(journal, node->directory, "ended", error);
    if (status == WEFT_OK && file_exists(journal)) { /* thousands of old journals need not be read */
        node->journal.ended = node->read_end = true;
        return WEFT_OK;
    }
    if (status == WEFT_OK)
        status = file_join(journal, node->directory, "journal", error);
    if (status == WEFT_OK)
        status = journal_writer_open(&node->journal, journal, &limits, error);
    node->read_end = node->journal.ended; /* it is only looked at */
    if (status == WEFT_OK && *node->instance && !node->journal.ended)
        node->silent_at = remote->opened_at + (uint64_t)(REMOTE_RETURN_SECONDS * 1e9);
    return status;
}

weft_status remote_node_find(struct remote *remote, const struct attempt *attempt, uint32_t number,
                             struct remote_node **node, struct error *error)
{
    for (struct remote_node *each = remote->nodes; each; each = each->next)
        if (each->node == number && attempt_same(&each->attempt, attempt)) {
            *node = each;
            return WEFT_OK;
        }
    const struct engine_owner owner = {remote->directory, remote->platform, false};
    struct remote_node *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "a node");
    *made = (struct remote_node){.attempt = *attempt, .node = number, .reader = {.file = -1}, .journal = {.file = -1}};
    weft_status status = WEFT_OK;
    errno = 0;
    if (!attempt_is_valid(attempt) || number >= ATTEMPT_NODES_MOST ||
        !engine_directory_find(remote->directory, attempt, number, made->directory) ||
        !engine_directory_is_own(&owner, made->directory))
        status = errno && errno != ENOENT && errno != ENOTDIR
                     ? error_system(error, "cannot look for node %u of run %s", number, attempt->run)
                     : engine_directory_unknown(attempt, error);
    if (status == WEFT_OK)
        status = load_node(remote, made, error);
    if (status != WEFT_OK) {
        journal_writer_close(&made->journal);
        free(made);
        return status;
    }
    made->next = remote->nodes;
    remote->nodes = made;
    *node = made;
    return WEFT_OK;
}

void remote_node_remove(struct remote *remote, struct remote_node *node)
{
    struct remote_node **at = &remote->nodes;
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    remote_node_quiet(remote, node);
    journal_reader_close(&node->reader);
    journal_writer_close(&node->journal);
    free(node);
}

void remote_node_tell(struct remote *remote, struct remote_node *node)
{
    const uint64_t one = 1;
    if (node->news)
        return;
    node->news = true;
    remote->news++;
    if (write(remote->bell, &one, sizeof one) < 0 && errno != EAGAIN)
        perror("weft: the descriptor of an engine");
}

void remote_node_quiet(struct remote *remote, struct remote_node *node)
{
    uint64_t rung;
    remote->news -= node->news;
    node->news = false;
    if (!remote->news && read(remote->bell, &rung, sizeof rung) < 0)
        return; /* it was not rung */
}

void remote_node_note_end(const struct remote_node *node)
{
    char path[FILE_PATH_BYTES];
    if (file_join(path, node->directory, "ended", NULL) == WEFT_OK)
        (void)file_write(path, "", 0, NULL); /* it only saves time */
}

weft_status remote_node_end(struct remote *remote, struct remote_node *node, const struct journal_record *record,
                            const char *reason, struct error *error)
{
    struct journal_record last = *record;
    if (node->journal.ended)
        return WEFT_OK;
    last.text = reason;
    last.size = (uint32_t)strlen(reason);
    weft_status status = journal_append(&node->journal, &last, error);
    if (status == WEFT_OK)
        status = journal_sync(&node->journal, error);
    if (status != WEFT_OK)
        return status;
    node->silent_at = 0;
    remote_node_note_end(node);
    remote_node_tell(remote, node);
    return WEFT_OK;
}

weft_status remote_node_bind(struct remote_node *node, const char *instance, struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = file_join(path, node->directory, "instance", error);
    if (status == WEFT_OK)
        status = file_write(path, instance, strlen(instance), error);
    if (status == WEFT_OK)
        snprintf(node->instance, sizeof node->instance, "%s", instance);
    return status;
}
