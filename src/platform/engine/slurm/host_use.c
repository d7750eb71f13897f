/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/slurm/internal/host_use.h"

#include "base/file/file.h"
#include "core/control/wire/frame.h"
#include "platform/engine/slurm/host_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC         "weft-slurm-nodes 1\n"
#define FILE_MOST     ((size_t)64 << 20)
#define FOREIGN_LOOKS 2 /* jobs and nodes are not looked at together: once is no proof that others use a node */

static struct driver_host *host_use_find(struct host_use *use, const char *name)
{
    for (uint32_t i = 0; i < use->count; i++)
        if (strcmp(use->hosts[i].name, name) == 0)
            return &use->hosts[i];
    return NULL;
}

/* ---- what jobs use ---- */

void host_use_clear(struct host_use *use)
{
    memset(use->own, 0, use->count * sizeof *use->own);
}

void host_use_count(struct host_use *use, const struct slurm_job *job, bool pod)
{
    struct string_list names = {0};
    const bool all = pod && job->state == SLURM_JOB_RUNNING; /* nodes of one job may differ */
    if (!job->node_count || slurm_host_list(job->nodes, &names, NULL) != WEFT_OK)
        return;
    for (uint32_t i = 0; i < names.count; i++) {
        const struct driver_host *host = host_use_find(use, names.items[i]);
        if (host && all)
            use->own[host - use->hosts] = host->cpus;
        else if (host)
            use->own[host - use->hosts] += job->cpus / job->node_count;
    }
    string_list_free(&names);
}

/* ---- nodes ---- */

struct use_looking {
    struct host_use *use;
    bool first;
    weft_status status;
    struct error *error;
};

static weft_status use_add_host(struct host_use *use, const struct slurm_node *node, struct error *error)
{
    if (strlen(node->name) >= DRIVER_NAME_BYTES)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the name of the node '%.80s...' is too long", node->name);
    if (use->count == use->room) {
        const uint32_t room = use->room ? 2 * use->room : 64;
        struct driver_host *hosts = realloc(use->hosts, room * sizeof *hosts);
        if (hosts)
            use->hosts = hosts;
        uint32_t *own = realloc(use->own, room * sizeof *own);
        if (own)
            use->own = own;
        uint32_t *foreign = realloc(use->foreign, room * sizeof *foreign);
        if (foreign)
            use->foreign = foreign;
        bool *listed = realloc(use->listed, room * sizeof *listed);
        if (listed)
            use->listed = listed;
        if (!hosts || !own || !foreign || !listed)
            return error_memory(error, room * sizeof *hosts, "the nodes of a cluster");
        use->room = room;
    }
    use->own[use->count] = use->foreign[use->count] = 0;
    struct driver_host *host = &use->hosts[use->count++];
    *host = (struct driver_host){.cpus = node->cpus, .gpus = node->gpus, .memory = node->memory};
    snprintf(host->name, sizeof host->name, "%s", node->name);
    return WEFT_OK;
}

static bool use_see_node(void *context, const struct slurm_node *node)
{
    struct use_looking *looking = context;
    struct host_use *use = looking->use;
    struct driver_host *host = host_use_find(use, node->name);
    if (!host && looking->first) {
        looking->status = use_add_host(use, node, looking->error);
        host = looking->status == WEFT_OK ? &use->hosts[use->count - 1] : NULL;
    }
    if (!host)
        return looking->status == WEFT_OK;
    uint32_t *foreign = &use->foreign[host - use->hosts];
    use->listed[host - use->hosts] = true;
    *foreign = node->cpus_used > use->own[host - use->hosts] ? *foreign + 1 : 0;
    host->up = node->up && !node->reserved && *foreign < FOREIGN_LOOKS;
    if (host->up)
        host->reason[0] = '\0';
    else if (!node->up)
        snprintf(host->reason, sizeof host->reason, "Slurm has it %s%s%s", node->state, *node->reason ? ": " : "",
                 node->reason);
    else if (node->reserved)
        snprintf(host->reason, sizeof host->reason, "it is in a reservation");
    else
        snprintf(host->reason, sizeof host->reason, "other jobs of the cluster use it");
    return true;
}

weft_status host_use_look(struct slurm_commands *commands, struct host_use *use, struct error *error)
{
    struct use_looking looking = {use, use->count == 0, WEFT_OK, error};
    memset(use->listed, 0, use->count * sizeof *use->listed);
    weft_status status = slurm_nodes(commands, use_see_node, &looking, error);
    if (status == WEFT_OK)
        status = looking.status;
    for (uint32_t i = 0; i < use->count && status == WEFT_OK; i++)
        if (!use->listed[i]) {
            use->hosts[i].up = false;
            snprintf(use->hosts[i].reason, sizeof use->hosts[i].reason, "Slurm has no such node any more");
        }
    return status;
}

static bool use_see_switch(void *context, const char *name, const char *node, uint32_t level)
{
    struct driver_host *host = host_use_find(context, node);
    if (host && level == 0)
        snprintf(host->pod, sizeof host->pod, "%s", name);
    return true;
}

/* ---- the file ---- */

static weft_status save_hosts(const struct host_use *use, const char *path, struct error *error)
{
    struct buffer bytes = {0};
    buffer_put(&bytes, MAGIC, sizeof MAGIC - 1);
    for (uint32_t i = 0; i < use->count; i++) {
        buffer_put_text(&bytes, use->hosts[i].name);
        buffer_put_text(&bytes, use->hosts[i].pod);
        buffer_put_u32(&bytes, use->hosts[i].cpus);
        buffer_put_u32(&bytes, use->hosts[i].gpus);
        buffer_put_u64(&bytes, use->hosts[i].memory);
    }
    weft_status status = bytes.failed ? error_memory(error, use->count * sizeof *use->hosts, "the nodes of a cluster")
                                      : file_write(path, buffer_begin(&bytes), buffer_size(&bytes), error);
    buffer_free(&bytes);
    return status;
}

/* All of them are down. */
static weft_status load_hosts(struct host_use *use, const char *path, struct error *error)
{
    char *bytes, name[DRIVER_NAME_BYTES];
    size_t size;
    weft_status status = file_read(path, FILE_MOST, &bytes, &size, error);
    if (status != WEFT_OK)
        return status;
    struct reader reader = {(const uint8_t *)bytes, size, false};
    const uint8_t *magic = reader_bytes(&reader, sizeof MAGIC - 1);
    bool good = magic && memcmp(magic, MAGIC, sizeof MAGIC - 1) == 0;
    while (good && reader.left > 0 && status == WEFT_OK) {
        reader_text(&reader, name, sizeof name);
        status = use_add_host(use, &(struct slurm_node){.name = name}, error);
        if (status != WEFT_OK)
            break;
        struct driver_host *host = &use->hosts[use->count - 1];
        reader_text(&reader, host->pod, sizeof host->pod);
        host->cpus = reader_u32(&reader);
        host->gpus = reader_u32(&reader);
        host->memory = reader_u64(&reader);
        snprintf(host->reason, sizeof host->reason, "Slurm does not answer");
        good = !reader.bad;
    }
    free(bytes);
    return status == WEFT_OK && !good ? error_set(error, WEFT_ERROR_DATA, "'%s' is damaged: remove it", path) : status;
}

weft_status host_use_open(struct slurm_commands *commands, const char *path, struct host_use *use, struct error *error)
{
    struct error silence = {0};
    *use = (struct host_use){0};
    weft_status status = host_use_look(commands, use, &silence);
    if (status == WEFT_ERROR_SYSTEM && file_exists(path)) {
        fprintf(stderr, "weft: %s\n", silence.text);
        use->count = 0;
        status = load_hosts(use, path, error);
        if (status != WEFT_OK)
            host_use_close(use);
        return status;
    }
    if (status != WEFT_OK)
        error_set(error, status, "%s", silence.text);
    if (status == WEFT_OK && use->count == 0)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "the partition has no nodes: 'sinfo' shows those of all");
    if (status == WEFT_OK)
        status = slurm_switches(commands, use_see_switch, use, error);
    if (status == WEFT_OK)
        status = save_hosts(use, path, error);
    if (status != WEFT_OK)
        host_use_close(use);
    return status;
}

void host_use_close(struct host_use *use)
{
    free(use->hosts);
    free(use->own);
    free(use->foreign);
    free(use->listed);
    *use = (struct host_use){0};
}
