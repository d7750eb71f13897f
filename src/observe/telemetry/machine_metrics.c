/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/telemetry/machine_metrics.h"

#include "base/file/file.h"
#include "observe/proc/kernel_tables.h"
#include "observe/proc/process_times.h"
#include "observe/telemetry/internal/control_group_use.h"
#include "observe/telemetry/internal/counter.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES   (256u << 10) /* of a table: thousands of processors, interfaces or disks; the rest is left out */
#define TRAFFIC_MOST 1024         /* interfaces, or disks, that are kept in mind */

/* An interface or a disk. */
struct traffic {
    char name[KERNEL_NAME_BYTES];
    bool hidden; /* not reported */
    bool seen;   /* in this sample */
    struct counter in, out;
};

struct traffic_list {
    struct traffic *entries;
    uint32_t count;
    size_t room;
};

struct machine_metrics_node {
    uint64_t id;
    char *control_group; /* NULL: none */
    struct process_set processes;
    struct counter time; /* ticks, or nanoseconds of the control group */
    struct machine_use use;
};

struct machine_metrics {
    int root;
    char *text; /* TEXT_BYTES */
    double tick;
    uint64_t page;
    struct counter busy, idle, waiting, stolen;
    struct traffic_list interfaces, disks;
    struct process_times *times;
    struct machine_metrics_node *nodes;
    struct process_set *sets; /* beside the nodes, while they are read */
    uint32_t node_count;
    size_t node_room, set_room;
    struct machine_use use;
};

/* ---- life ---- */

weft_status machine_metrics_open(const char *root, struct machine_metrics **metrics, struct error *error)
{
    struct machine_metrics *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "the machine's metrics");
    made->root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    weft_status status = WEFT_OK;
    if (made->root < 0)
        status = error_system(error, "cannot look at the machine below '%s'", root);
    made->text = status == WEFT_OK ? malloc(TEXT_BYTES) : NULL;
    if (status == WEFT_OK && !made->text)
        status = error_memory(error, TEXT_BYTES, "the machine's metrics");
    if (status == WEFT_OK)
        status = process_times_open(made->root, &made->times, error);
    if (status != WEFT_OK) {
        machine_metrics_close(made);
        return status;
    }
    made->tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    made->page = (uint64_t)sysconf(_SC_PAGESIZE);
    *metrics = made;
    return WEFT_OK;
}

static void node_free(struct machine_metrics_node *node)
{
    free(node->control_group);
    measured_values_free(&node->use.values);
}

void machine_metrics_close(struct machine_metrics *metrics)
{
    if (!metrics)
        return;
    for (uint32_t i = 0; i < metrics->node_count; i++)
        node_free(&metrics->nodes[i]);
    file_close(metrics->root);
    process_times_close(metrics->times);
    measured_values_free(&metrics->use.values);
    free(metrics->interfaces.entries);
    free(metrics->disks.entries);
    free(metrics->nodes);
    free(metrics->sets);
    free(metrics->text);
    free(metrics);
}

/* ---- nodes ---- */

static struct machine_metrics_node *machine_metrics_find_node(const struct machine_metrics *metrics, uint64_t id)
{
    for (uint32_t i = 0; i < metrics->node_count; i++)
        if (metrics->nodes[i].id == id)
            return &metrics->nodes[i];
    return NULL;
}

static weft_status machine_metrics_make_room(struct machine_metrics *metrics, struct error *error)
{
    const size_t count = metrics->node_count + 1;
    weft_status status = ARRAY_RESERVE(metrics->nodes, metrics->node_room, count, "the nodes of a machine", error);
    return status == WEFT_OK ? ARRAY_RESERVE(metrics->sets, metrics->set_room, count, "the nodes of a machine", error)
                             : status;
}

weft_status machine_metrics_watch(struct machine_metrics *metrics, const struct machine_node *node, struct error *error)
{
    if (machine_metrics_find_node(metrics, node->id))
        return error_set(error, WEFT_ERROR_ARGUMENT, "node %" PRIu64 " is looked at already", node->id);
    const int32_t ancestor = node->ancestor > 0 ? node->ancestor : 0;
    if (!ancestor && !node->control_group)
        return error_set(error, WEFT_ERROR_ARGUMENT, "node %" PRIu64 " has neither a first process nor a control group",
                         node->id);
    weft_status status = machine_metrics_make_room(metrics, error);
    if (status != WEFT_OK)
        return status;
    struct machine_metrics_node made = {.id = node->id, .processes = {.ancestor = ancestor}};
    if (node->control_group && !(made.control_group = strdup(node->control_group)))
        return error_memory(error, strlen(node->control_group) + 1, "the path of a control group");
    metrics->nodes[metrics->node_count++] = made;
    return WEFT_OK;
}

const struct machine_use *machine_metrics_machine(const struct machine_metrics *metrics)
{
    return &metrics->use;
}

const struct machine_use *machine_metrics_node(const struct machine_metrics *metrics, uint64_t id)
{
    const struct machine_metrics_node *node = machine_metrics_find_node(metrics, id);
    return node ? &node->use : NULL;
}

/* ---- the machine ---- */

static bool machine_metrics_read_table(struct machine_metrics *metrics, const char *path)
{
    return file_read_small(metrics->root, path, metrics->text, TEXT_BYTES) > 0;
}

static weft_status sample_processors(struct machine_metrics *metrics, uint64_t now, struct error *error)
{
    struct kernel_processors found;
    struct counter_step busy, idle, waiting, stolen;
    struct measured_values *values = &metrics->use.values;
    if (!machine_metrics_read_table(metrics, "proc/stat") || !kernel_processors_parse(metrics->text, &found))
        return WEFT_OK;
    metrics->use.processors = found.count;
    const bool known = counter_read(&metrics->busy, found.busy, 0, now, &busy);
    /* Idle and waiting may fall a little, as the kernel reckons them: then they did not grow. */
    const bool has_idle = counter_read(&metrics->idle, found.idle, 0, now, &idle);
    const bool has_waiting = counter_read(&metrics->waiting, found.waiting, 0, now, &waiting);
    const bool has_stolen = counter_read(&metrics->stolen, found.stolen, 0, now, &stolen);
    if (!known)
        return WEFT_OK;
    const double used = (double)busy.increase, rest = has_idle ? (double)idle.increase : 0,
                 waited = has_waiting ? (double)waiting.increase : 0, other = has_stolen ? (double)stolen.increase : 0;
    const double all = used + rest + waited + other;
    metrics->use.seconds += fmin(used * metrics->tick, busy.seconds * found.count);
    /* Without a tick between two samples nothing is known: NaN is left out. */
    weft_status status = measured_values_add(values, used / all, error, "machine/cpu/used");
    if (status == WEFT_OK)
        status = measured_values_add(values, waited / all, error, "machine/cpu/waiting");
    if (status == WEFT_OK)
        status = measured_values_add(values, other / all, error, "machine/cpu/stolen");
    return status;
}

static weft_status sample_memory(struct machine_metrics *metrics, struct error *error)
{
    struct kernel_memory found;
    struct measured_values *values = &metrics->use.values;
    if (!machine_metrics_read_table(metrics, "proc/meminfo") || !kernel_memory_parse(metrics->text, &found))
        return WEFT_OK;
    weft_status status =
        measured_values_add(values, (double)(found.total - found.available), error, "machine/memory/used");
    if (status == WEFT_OK)
        status = measured_values_add(values, (double)found.total, error, "machine/memory/total");
    if (status == WEFT_OK && found.swap_total)
        status = measured_values_add(values, (double)(found.swap_total - found.swap_free), error, "machine/swap/used");
    return status;
}

/* ---- interfaces and disks ---- */

/* A table's lines come in the same order each time: `hint` is where this one's entry is if none has come or gone. */
static weft_status find_traffic(struct traffic_list *list, const char *name, uint32_t hint, struct traffic **found,
                                bool *made, struct error *error)
{
    *made = false;
    *found = NULL;
    for (uint32_t i = 0; i < list->count && !*found; i++) {
        struct traffic *entry = &list->entries[(i + hint) % list->count];
        *found = strcmp(entry->name, name) == 0 ? entry : NULL;
    }
    if (*found || list->count == TRAFFIC_MOST)
        return WEFT_OK;
    if (ARRAY_RESERVE(list->entries, list->room, list->count + 1, "interfaces and disks", error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    *found = &list->entries[list->count++];
    **found = (struct traffic){0};
    snprintf((*found)->name, sizeof(*found)->name, "%s", name);
    *made = true;
    return WEFT_OK;
}

/* Forget what is gone: an interface that comes back under the same name begins again. */
static void forget_unseen(struct traffic_list *list)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->entries[i].seen) {
            list->entries[kept] = list->entries[i];
            list->entries[kept++].seen = false;
        }
    list->count = kept;
}

struct traffic_names {
    const char *kind, *in, *out;
};

static weft_status tell_traffic(struct measured_values *values, struct traffic *entry,
                                const struct kernel_traffic *now_at, uint64_t now, const struct traffic_names *names,
                                struct error *error)
{
    struct counter_step step;
    char part[MEASURED_PART_BYTES];
    weft_status status = WEFT_OK;
    const bool used = now_at->in || now_at->out;
    measured_name_part(entry->name, part);
    if (counter_read(&entry->in, now_at->in, 0, now, &step) && used)
        status = measured_values_add(values, (double)step.increase / step.seconds, error, "machine/%s/%s/%s",
                                     names->kind, part, names->in);
    if (counter_read(&entry->out, now_at->out, 0, now, &step) && used && status == WEFT_OK)
        status = measured_values_add(values, (double)step.increase / step.seconds, error, "machine/%s/%s/%s",
                                     names->kind, part, names->out);
    return status;
}

/* Whether a name of /proc/diskstats is that of a disk, not of a part of one, nor of one made of a file or memory. */
static bool is_disk(const struct machine_metrics *metrics, const char *name)
{
    static const char *const made[] = {"loop", "ram", "zram"};
    char path[KERNEL_NAME_BYTES + 16];
    for (size_t i = 0; i < ARRAY_SIZE(made); i++)
        if (strncmp(name, made[i], strlen(made[i])) == 0)
            return false;
    if (name[0] == '.')
        return false;
    snprintf(path, sizeof path, "sys/block/%s", name);
    for (char *at = path + strlen("sys/block/"); *at; at++)
        *at = *at == '/' ? '!' : *at; /* as the kernel does */
    /* Where there is no such directory nobody can tell. */
    return faccessat(metrics->root, path, F_OK, 0) == 0 || faccessat(metrics->root, "sys/block", F_OK, 0) != 0;
}

static weft_status sample_traffic(struct machine_metrics *metrics, struct traffic_list *list, uint64_t now,
                                  const struct traffic_names *names,
                                  bool (*next)(const char **, struct kernel_traffic *), struct error *error)
{
    weft_status status = WEFT_OK;
    const char *text = metrics->text;
    struct kernel_traffic found;
    for (uint32_t line = 0; status == WEFT_OK && next(&text, &found); line++) {
        struct traffic *entry;
        bool made;
        status = find_traffic(list, found.name, line, &entry, &made, error);
        if (status != WEFT_OK || !entry)
            continue;
        if (made && list == &metrics->disks)
            entry->hidden = !is_disk(metrics, found.name);
        if (!entry->hidden && !entry->seen) /* a name that comes twice is believed once */
            status = tell_traffic(&metrics->use.values, entry, &found, now, names, error);
        entry->seen = true;
    }
    forget_unseen(list);
    return status;
}

/* ---- nodes' use ---- */

/* Processors' worth of time, from a counter that ticks every `tick` seconds. */
static double machine_metrics_take_time(const struct machine_metrics *metrics, struct machine_metrics_node *node,
                                        uint64_t value, double tick, uint64_t now)
{
    struct counter_step step;
    if (!counter_read(&node->time, value, 0, now, &step))
        return NAN;
    double used = (double)step.increase * tick;
    if (metrics->use.processors)
        used = fmin(used, step.seconds * metrics->use.processors);
    node->use.seconds += used;
    return used / step.seconds;
}

static weft_status tell_node(struct machine_metrics *metrics, struct machine_metrics_node *node, bool proportional,
                             uint64_t now, struct error *error)
{
    struct measured_values *values = &node->use.values;
    struct control_group_use group = {0};
    double processors = NAN;
    weft_status status = WEFT_OK;
    const bool has_processes = node->processes.processes > 0;
    node->use.processors = metrics->use.processors;
    if (node->control_group)
        control_group_use_read(metrics->root, node->control_group, &group);
    if (group.has_time)
        processors = machine_metrics_take_time(metrics, node, group.nanoseconds, 1e-9, now);
    else if (!node->control_group)
        processors = machine_metrics_take_time(metrics, node, node->processes.ticks, metrics->tick, now);
    status = measured_values_add(values, processors, error, "node/cpu");
    if (status == WEFT_OK && group.has_memory)
        status = measured_values_add(values, (double)group.memory, error, "node/memory/group");
    if (status == WEFT_OK && has_processes)
        status = measured_values_add(values, (double)node->processes.resident * (double)metrics->page, error,
                                     "node/memory/resident");
    if (status == WEFT_OK && has_processes && proportional && node->processes.proportional)
        status = measured_values_add(values, (double)node->processes.proportional, error, "node/memory/proportional");
    if (status == WEFT_OK && node->processes.ancestor)
        status = measured_values_add(values, node->processes.processes, error, "node/processes");
    return status;
}

static bool has_set(const struct machine_metrics_node *node)
{
    return node->processes.ancestor != 0;
}

static weft_status sample_nodes(struct machine_metrics *metrics, bool proportional, uint64_t now, struct error *error)
{
    weft_status status = WEFT_OK;
    uint32_t sets = 0;
    for (uint32_t i = 0; i < metrics->node_count; i++) {
        measured_values_clear(&metrics->nodes[i].use.values);
        if (has_set(&metrics->nodes[i]))
            metrics->sets[sets++] = metrics->nodes[i].processes;
    }
    if (sets > 0)
        status = process_times_read(metrics->times, metrics->sets, sets, proportional, error);
    sets = 0;
    for (uint32_t i = 0; status == WEFT_OK && i < metrics->node_count; i++) {
        struct machine_metrics_node *node = &metrics->nodes[i];
        if (has_set(node))
            node->processes = metrics->sets[sets++];
        status = tell_node(metrics, node, proportional, now, error);
    }
    return status;
}

weft_status machine_metrics_sample(struct machine_metrics *metrics, uint64_t now, bool proportional,
                                   struct error *error)
{
    static const struct traffic_names network = {"network", "received", "sent"}, disk = {"disk", "read", "written"};
    measured_values_clear(&metrics->use.values);
    weft_status status = sample_processors(metrics, now, error);
    if (status == WEFT_OK)
        status = sample_memory(metrics, error);
    /* This process's own network, which /sys need not be. */
    if (status == WEFT_OK && machine_metrics_read_table(metrics, "proc/self/net/dev"))
        status = sample_traffic(metrics, &metrics->interfaces, now, &network, kernel_interface_next, error);
    if (status == WEFT_OK && machine_metrics_read_table(metrics, "proc/diskstats"))
        status = sample_traffic(metrics, &metrics->disks, now, &disk, kernel_disk_next, error);
    if (status == WEFT_OK)
        status = sample_nodes(metrics, proportional, now, error);
    return status;
}
