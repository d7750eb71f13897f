/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/measure/machine/profile_machine.h"

#include "base/text.h"
#include "cli/frame/launch_self.h"
#include "cli/measure/machine/machine_measure.h"
#include "core/collective/communicator/context.h"
#include "core/topology/cluster_file.h"
#include "core/topology/machine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#define HELD_BACK 0.9 /* share of the free memory that the file gives the devices */

static struct {
    int64_t ranks, threads, hosts;
    const char *output;
} chosen;

static const struct cli_option options[] = {
    CLI_INTEGER("ranks", 'n', "N", &chosen.ranks, "0", 0, 65536, "ranks on this machine, which measure together",
                .default_text = "one for each core that may be used"),
    CLI_INTEGER("threads", 't', "N", &chosen.threads, "1", 1, 1024, "compute threads of each rank"),
    CLI_INTEGER("hosts", 'H', "N", &chosen.hosts, "0", 0, CLUSTER_HOSTS_MOST, "describe N hosts like this one",
                .default_text = "those of the ranks that a launcher started, or 1"),
    CLI_TEXT("output", 'o', "FILE", &chosen.output, NULL, "write the description to FILE",
             .default_text = "standard output"),
};

/* To four digits: more would pretend to an accuracy that no measurement here has. */
static double machine_rounded(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.3e", value);
    return strtod(text, NULL);
}

static struct link_cost machine_cost(const struct link_parameters *link)
{
    return (struct link_cost){machine_rounded(link->latency), machine_rounded(link->overhead),
                              machine_rounded(link->bandwidth)};
}

static const struct machine_interface *machine_fastest_interface(const struct machine *machine)
{
    const struct machine_interface *fastest = NULL;
    for (uint32_t i = 0; i < machine->interface_count; i++) {
        const struct machine_interface *interface = &machine->interfaces[i];
        if (interface->up && !interface->loopback && interface->bytes_per_second &&
            (!fastest || interface->bytes_per_second > fastest->bytes_per_second))
            fastest = interface;
    }
    return fastest;
}

/* Links between hosts: measured if the ranks lie on several, otherwise what the fastest interface says. */
static void machine_describe_network(const weft_context *context, const struct machine *machine,
                                     struct cluster_level *level)
{
    const struct machine_interface *interface = machine_fastest_interface(machine);
    level->cost = machine_cost(&context->tuner.cluster.far);
    snprintf(level->name, sizeof level->name, "leaf");
    if (weft_comm_nodes(weft_world((weft_context *)context)) > 1) {
        snprintf(level->source, sizeof level->source, "%s", context->tuner.source);
    } else if (interface) {
        level->cost.bytes_per_second = (double)interface->bytes_per_second;
        snprintf(level->source, sizeof level->source,
                 "bandwidth of %s as its driver says; latency and overhead assumed", interface->name);
    } else {
        snprintf(level->source, sizeof level->source, "assumed: no interface says how fast it is");
    }
}

static void machine_describe_device(const struct machine *machine, uint32_t ranks, const struct machine_fit *fit,
                                    struct cluster_device *device)
{
    snprintf(device->kind, sizeof device->kind, "%.40s, %" PRId64 " thread%s",
             machine->processor[0] ? machine->processor : "core", chosen.threads, chosen.threads == 1 ? "" : "s");
    snprintf(device->source, sizeof device->source,
             "measured, %u ranks at once: square products of 64 to 640, which product_share and product_half give "
             "within %.0f %%; copies of 16 MiB; memory_share: additions, GELU, normalization and AdamW",
             ranks, fit->error * 100);
    device->memory_bytes = (uint64_t)machine_rounded(HELD_BACK * (double)limits_touchable(&machine->limits) / ranks);
    device->memory_bandwidth = machine_rounded(device->memory_bandwidth);
    device->memory_share = machine_rounded(device->memory_share);
    device->product_share = machine_rounded(device->product_share);
    device->product_half = machine_rounded(device->product_half);
    for (size_t precision = 0; precision < CLUSTER_PRECISIONS; precision++)
        device->flops[precision] = machine_rounded(device->flops[precision]);
}

static void machine_describe(weft_context *context, const struct machine *machine, const struct machine_fit *fit,
                             struct cluster_file *cluster)
{
    weft_comm *world = weft_world(context);
    const uint32_t nodes = (uint32_t)weft_comm_nodes(world), ranks = (uint32_t)weft_comm_size(world) / nodes;
    const struct simulated_cluster *links = &context->tuner.cluster;
    const uint32_t hosts = chosen.hosts ? (uint32_t)chosen.hosts : nodes;
    snprintf(cluster->name, sizeof cluster->name, "%u x %.50s", hosts, machine->host);
    snprintf(cluster->source, sizeof cluster->source, "weft profile machine, %u rank%s of %" PRId64 " thread%s", ranks,
             ranks == 1 ? "" : "s", chosen.threads, chosen.threads == 1 ? "" : "s");
    cluster->measured = (int64_t)time(NULL);
    cluster->cores = ranks * (uint32_t)chosen.threads; /* each rank is bound to its own */
    for (uint32_t i = 0; i < machine->cache_count; i++)
        cluster->cache_bytes = machine->caches[i].bytes * machine->caches[i].count;
    cluster->copy_bandwidth = machine_rounded(links->copy_bandwidth);
    cluster->memory_bandwidth = machine_rounded(links->memory_bandwidth);
    cluster->overlap_slowdown = machine_rounded(cluster->overlap_slowdown);
    cluster->device_count = 1;
    machine_describe_device(machine, ranks, fit, &cluster->devices[0]);
    cluster->group_count = 1;
    cluster->groups[0] = (struct cluster_group){.hosts = hosts, .ranks = ranks, .interfaces = 1};
    cluster->level_count = hosts > 1 ? 2 : 1;
    struct cluster_level *node = &cluster->levels[0];
    snprintf(node->name, sizeof node->name, "node");
    node->cost = machine_cost(&links->near);
    snprintf(node->source, sizeof node->source, "%s",
             ranks > 1 ? context->tuner.source : "assumed: one rank has no links");
    if (hosts > 1)
        machine_describe_network(context, machine, &cluster->levels[1]);
}

static weft_status profile_machine_write(const struct cluster_file *cluster, FILE *output, struct error *error)
{
    if (!chosen.output) {
        cluster_file_write(cluster, output);
        return WEFT_OK;
    }
    weft_status status = cluster_file_save(cluster, chosen.output, error);
    if (status == WEFT_OK)
        fprintf(output, "%s: written; show it with: weft topo --cluster %s\n", chosen.output, chosen.output);
    return status;
}

static weft_status machine_profile(weft_context *context, const struct machine *machine, FILE *output,
                                   struct error *error)
{
    struct cluster_file cluster = {0};
    struct machine_fit fit;
    weft_comm *world = weft_world(context);
    if (weft_comm_size(world) % weft_comm_nodes(world))
        return error_set(error, WEFT_ERROR_ARGUMENT, "%d ranks on %d hosts are not equally many on each",
                         weft_comm_size(world), weft_comm_nodes(world));
    weft_status status = machine_measure_device(context, (int)chosen.threads, &cluster.devices[0], &fit, error);
    if (status == WEFT_OK)
        status = machine_measure_overlap(context, (int)chosen.threads, &cluster.overlap_slowdown, error);
    if (status != WEFT_OK || weft_comm_rank(world) != 0)
        return status;
    machine_describe(context, machine, &fit, &cluster);
    return profile_machine_write(&cluster, output, error);
}

static weft_status profile_machine_run(struct command_call *call, struct error *error)
{
    weft_context *context = NULL;
    struct machine *machine = NULL;
    weft_status status = machine_discover(&machine, error);
    if (status == WEFT_OK)
        status = command_check(NULL, weft_init(NULL, &context), error);
    if (status != WEFT_OK) {
        machine_free(machine);
        return status;
    }
    int64_t ranks = chosen.ranks ? chosen.ranks : limits_processors(&machine->limits) / chosen.threads;
    if (ranks > 1 && weft_comm_size(weft_world(context)) == 1) {
        machine_free(machine);
        status = command_check(context, weft_finalize(context), error);
        return status == WEFT_OK ? launch_self(call, ranks, error) : status;
    }
    if (chosen.ranks && chosen.ranks != weft_comm_size(weft_world(context)))
        status =
            error_set(error, WEFT_ERROR_ARGUMENT,
                      "--ranks is %" PRId64 ", but this world has %d; leave --ranks out where a launcher says how many",
                      chosen.ranks, weft_comm_size(weft_world(context)));
    else
        status = machine_profile(context, machine, call->output, error);
    machine_free(machine);
    weft_finalize(context);
    return status;
}

const struct command profile_machine = {
    .name = "machine",
    .summary = "measure this machine, and write what it is as a cluster file",
    .description =
        "Starts a rank on every core and measures, all ranks at once: matrix products of several sizes in f32, bf16 and "
        "f16, from which the rate of large products and the cost of small ones follow; the bandwidth of memory, and "
        "the share of it that a layer's other passes reach; the links between ranks; and how much longer a rank "
        "computes while an all-reduce progresses. This takes some seconds, less than a minute, on an idle machine.\n\n"
        "The file describes this machine, or with --hosts so many of them, to weft plan, weft sim, weft explain and "
        "weft topo. Under weft run --hosts, links between hosts are measured; otherwise their bandwidth is what the "
        "fastest network interface says, and their latency is assumed: correct them in the file.",
    .examples = "weft profile machine\n"
                "weft profile machine --ranks 4 --threads 2 --hosts 8 -o cluster.yaml\n"
                "weft run --hosts hosta:8,hostb:8 -- weft profile machine -o cluster.yaml\n",
    COMMAND_OPTIONS(options),
    .run = profile_machine_run,
};
