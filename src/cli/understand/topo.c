/* SPDX-License-Identifier: Apache-2.0 */
/* `weft topo`: what this machine has. */
#include "base/format/json_put.h"
#include "base/text.h"
#include "cli/frame/command.h"
#include "cli/understand/topo_links.h"
#include "core/topology/cluster_name.h"
#include "core/topology/machine_json.h"
#include "core/transport/fabric/providers.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static struct {
    bool json, brief, no_providers;
    const char *file, *synthetic, *cluster;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("json", 0, &chosen.json, "print everything as JSON, which --file reads again"),
    CLI_FLAG("short", 's', &chosen.brief, "print a short summary"),
    CLI_FLAG("no-providers", 0, &chosen.no_providers, "do not ask libfabric for its providers (takes up to 0.7 s)"),
    CLI_TEXT("file", 'f', "FILE", &chosen.file, NULL,
             "show the machine of FILE, made by --json or by hwloc's lstopo (XML), instead of this one"),
    CLI_TEXT("synthetic", 0, "TEXT", &chosen.synthetic, NULL,
             "show a synthetic machine, in hwloc's notation: \"pack:2 [numa] l3:4 core:8 pu:2\""),
    CLI_TEXT("cluster", 'c', "NAME", &chosen.cluster, NULL,
             "show the hosts, devices and links of a cluster instead: a kind and a number of hosts, or a file"),
};

/* The machine to show, and the providers if it is this one. */
struct topo_view {
    struct machine *machine;
    struct provider *providers;
    uint32_t provider_count;
    bool has_providers;
};

static weft_status view_open(struct topo_view *view, struct error *error)
{
    *view = (struct topo_view){0};
    if (chosen.file && chosen.synthetic)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--file and --synthetic exclude each other; give one of them");
    if (chosen.file)
        return machine_load(chosen.file, &view->machine, error);
    if (chosen.synthetic)
        return machine_from_synthetic(chosen.synthetic, &view->machine, error);
    weft_status status = machine_discover(&view->machine, error);
    if (status != WEFT_OK || chosen.no_providers)
        return status;
    status = providers_list(&view->providers, &view->provider_count, error);
    view->has_providers = status == WEFT_OK;
    return status;
}

/* ---- pieces of text ---- */

/* "10 Gbit/s"; "" if unknown. */
static char *speed_text(uint64_t bytes_per_second, char *buffer, size_t size)
{
    double megabits = (double)bytes_per_second * 8 / 1e6;
    if (megabits <= 0)
        buffer[0] = '\0';
    else if (megabits >= 1000)
        snprintf(buffer, size, "%g Gbit/s", megabits / 1000);
    else
        snprintf(buffer, size, "%g Mbit/s", megabits);
    return buffer;
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static uint32_t usable_threads(const struct machine *machine)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < machine->thread_count; i++)
        count += machine->threads[i].usable;
    return count;
}

/* "2 cores in 1 package, 1 thread each" */
static char *cores_text(const struct machine *machine, char *buffer, size_t size)
{
    snprintf(buffer, size, "%u core%s in %u package%s, %u hardware thread%s", machine->cores, plural(machine->cores),
             machine->packages, plural(machine->packages), machine->thread_count, plural(machine->thread_count));
    return buffer;
}

/* ---- the summary ---- */

#define LABEL_WIDTH 12

/* A label and what follows it. */
static void __attribute__((format(printf, 3, 4))) print_label(FILE *output, const char *label, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(output, "  %-*s", LABEL_WIDTH, label);
    vfprintf(output, format, arguments);
    va_end(arguments);
}

static void print_processors(FILE *output, const struct machine *machine)
{
    char text[160];
    if (machine->processor[0])
        print_label(output, "processor", "%s\n", machine->processor);
    print_label(output, "cores", "%s", cores_text(machine, text, sizeof text));
    if (usable_threads(machine) < machine->thread_count)
        fprintf(output, "; this process may use %u of them", usable_threads(machine));
    if (machine->limits.processor_quota > 0)
        fprintf(output, "; the control group allows the time of %g", machine->limits.processor_quota);
    fputc('\n', output);
    for (uint32_t i = 0; i < machine->cache_count; i++) {
        const struct machine_cache *cache = &machine->caches[i];
        char label[16];
        snprintf(label, sizeof label, "L%u cache", cache->level);
        print_label(output, label, "%s", "");
        text_bytes(cache->bytes, text, sizeof text);
        if (cache->cores <= 1)
            fprintf(output, "%s a core\n", text);
        else if (cache->count == 1)
            fprintf(output, "%s, shared by all %u cores\n", text, cache->cores);
        else
            fprintf(output, "%u x %s, each shared by %u cores\n", cache->count, text, cache->cores);
    }
}

static void print_memory(FILE *output, const struct machine *machine)
{
    const struct limits *limits = &machine->limits;
    char first[32], second[32];
    if (!limits->memory_total)
        return; /* unknown for a synthetic machine */
    print_label(output, "memory", "%s", text_bytes(limits->memory_total, first, sizeof first));
    if (limits->memory_available < limits->memory_total)
        fprintf(output, ", %s free", text_bytes(limits->memory_available, second, sizeof second));
    if (machine->numa_count > 1)
        fprintf(output, ", in %u NUMA nodes", machine->numa_count);
    fputc('\n', output);
    if (machine->numa_count > 1) {
        for (uint32_t i = 0; i < machine->numa_count; i++) {
            print_label(output, "", "node %u: %s, %u core%s\n", machine->numas[i].index,
                        text_bytes(machine->numas[i].bytes, first, sizeof first), machine->numas[i].cores,
                        plural(machine->numas[i].cores));
        }
    }
    if (limits->group_limit != LIMITS_NONE) {
        print_label(output, "limit", "the control group allows %s; %s are left\n",
                    text_bytes(limits->group_limit, first, sizeof first),
                    text_bytes(limits->group_available, second, sizeof second));
    }
    if (limits->address_space_limit != LIMITS_NONE) {
        print_label(output, "limit", "address space of %s (ulimit -v)\n",
                    text_bytes(limits->address_space_limit, first, sizeof first));
    }
    if (limits->group_limit == LIMITS_NONE && limits->address_space_limit == LIMITS_NONE && machine->identity[0]) {
        print_label(output, "limits", "none on memory\n");
    }
}

static void print_interface(FILE *output, const struct machine_interface *interface)
{
    char speed[32];
    print_label(output, interface->name, "%s", interface->up ? "up" : "down");
    if (interface->bytes_per_second)
        fprintf(output, ", %s", speed_text(interface->bytes_per_second, speed, sizeof speed));
    else if (interface->loopback)
        fprintf(output, ", loopback");
    else if (interface->up)
        fprintf(output, ", speed unknown");
    if (interface->driver[0] && !interface->loopback)
        fprintf(output, ", %s", interface->driver);
    for (uint32_t i = 0; i < interface->address_count; i++)
        if (!interface->addresses[i].is_link_local)
            fprintf(output, ", %s/%u", interface->addresses[i].text, interface->addresses[i].prefix);
    fputc('\n', output);
}

static void print_devices(FILE *output, const struct machine *machine)
{
    fprintf(output, "Accelerators\n");
    if (!machine->device_count)
        fprintf(output, "  none\n");
    for (uint32_t i = 0; i < machine->device_count; i++) {
        const struct machine_device *device = &machine->devices[i];
        print_label(output, device->name, "%s%s%s%s%s\n", machine_device_kind_name(device->kind),
                    device->model[0] ? ", " : "", device->model, device->pci[0] ? ", PCI " : "", device->pci);
    }
}

/* Print a line per provider with its devices. The list has consecutive entries for the networks of a device. */
static void print_providers(FILE *output, const struct topo_view *view)
{
    char version[16];
    fprintf(output, "Providers (libfabric %s), the best first", providers_version(version, sizeof version));
    for (uint32_t i = 0; i < view->provider_count; i++) {
        const struct provider *provider = &view->providers[i], *before = i ? provider - 1 : NULL;
        if (!before || strcmp(provider->name, before->name) != 0) {
            fputc('\n', output);
            print_label(output, provider->name, "%s", provider->device);
        } else if (strcmp(provider->device, before->device) != 0) {
            fprintf(output, ", %s", provider->device);
        }
    }
    fprintf(output, "%s\n", view->provider_count ? "" : "\n  none");
}

static void print_full(FILE *output, const struct topo_view *view)
{
    const struct machine *machine = view->machine;
    fprintf(output, "%s%s%s\n", machine->host[0] ? machine->host : "Machine", machine->system[0] ? ", " : "",
            machine->system);
    print_processors(output, machine);
    print_memory(output, machine);
    if (machine->interface_count)
        fprintf(output, "Network\n");
    for (uint32_t i = 0; i < machine->interface_count; i++)
        print_interface(output, &machine->interfaces[i]);
    if (view->has_providers)
        print_providers(output, view);
    print_devices(output, machine);
    if (!chosen.file && !chosen.synthetic)
        topo_print_links(output, machine);
}

/* Print a summary of two or three lines. */
static void print_brief(FILE *output, const struct topo_view *view)
{
    const struct machine *machine = view->machine;
    char text[160], speed[32];
    uint32_t accelerators = 0;
    fprintf(output, "%s: %s", machine->host[0] ? machine->host : "machine", cores_text(machine, text, sizeof text));
    if (machine->processor[0])
        fprintf(output, " (%s)", machine->processor);
    if (machine->cache_count)
        fprintf(output, ", %s of L%u cache",
                text_bytes(machine->caches[machine->cache_count - 1].bytes, text, sizeof text),
                machine->caches[machine->cache_count - 1].level);
    if (machine->limits.memory_total)
        fprintf(output, ", %s of memory", text_bytes(machine->limits.memory_total, text, sizeof text));
    fprintf(output, ";\n  network:");
    bool any = false;
    for (uint32_t i = 0; i < machine->interface_count; i++) {
        const struct machine_interface *interface = &machine->interfaces[i];
        if (!interface->up || interface->loopback)
            continue;
        fprintf(output, "%s %s", any ? "," : "", interface->name);
        if (interface->bytes_per_second)
            fprintf(output, " (%s)", speed_text(interface->bytes_per_second, speed, sizeof speed));
        any = true;
    }
    fprintf(output, "%s", any ? "" : " loopback only");
    if (view->provider_count)
        fprintf(output, ", by libfabric's %s", view->providers[0].name);
    for (uint32_t i = 0; i < machine->device_count; i++)
        accelerators += machine->devices[i].kind != MACHINE_FABRIC;
    if (accelerators)
        fprintf(output, "; %u accelerator%s\n", accelerators, plural(accelerators));
    else
        fprintf(output, "; no accelerators\n");
}

static weft_status topo_print_json(FILE *output, const struct topo_view *view, struct error *error)
{
    struct json_writer writer;
    char version[16];
    json_begin(&writer, JSON_INDENTED);
    json_open_object(&writer, NULL);
    machine_write_members(view->machine, &writer);
    if (view->has_providers) {
        json_put_text(&writer, "libfabric", providers_version(version, sizeof version));
        json_open_array(&writer, "providers");
        for (uint32_t i = 0; i < view->provider_count; i++) {
            const struct provider *provider = &view->providers[i];
            JSON_PUT_OBJECT(&writer, NULL, "name", provider->name, "device", provider->device, "network",
                            provider->network, "bytes_per_second", provider->bytes_per_second, "message_most",
                            provider->message_most);
        }
        json_close(&writer);
    }
    return json_complete(&writer, output, error);
}

static weft_status topo_show_cluster(FILE *output, struct error *error)
{
    struct cluster_file cluster;
    weft_status status = cluster_name_load(chosen.cluster, &cluster, error);
    if (status != WEFT_OK)
        return status;
    topo_print_cluster(output, &cluster);
    cluster_file_free(&cluster);
    return WEFT_OK;
}

static weft_status topo_run(struct command_call *call, struct error *error)
{
    struct topo_view view;
    if (chosen.cluster)
        return topo_show_cluster(call->output, error);
    weft_status status = view_open(&view, error);
    if (status == WEFT_OK && chosen.json)
        status = topo_print_json(call->output, &view, error);
    else if (status == WEFT_OK && chosen.brief)
        print_brief(call->output, &view);
    else if (status == WEFT_OK)
        print_full(call->output, &view);
    machine_free(view.machine);
    free(view.providers);
    return status;
}

const struct command command_topo = {
    .name = "topo",
    .group = COMMAND_MEASURE,
    .summary = "show what this machine has: cores, caches, memory, limits, networks, accelerators, links",
    COMMAND_OPTIONS(options),
    .examples = "  weft topo\n  weft topo --json > machine.json\n  weft topo --file machine.json --short\n"
                "  weft topo --cluster dgx-h100-64\n",
    .run = topo_run,
};
