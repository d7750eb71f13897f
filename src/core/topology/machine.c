/* SPDX-License-Identifier: Apache-2.0 */
/* A machine as hwloc describes it, with additions from the kernel. */
#include "core/topology/machine.h"

#include "base/file/file.h"
#include "base/text.h"
#include "core/topology/interfaces.h"

#include <dlfcn.h>
#include <hwloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static void machine_copy_text(char *destination, size_t size, const char *text)
{
    snprintf(destination, size, "%s", text ? text : "");
}

/* The logical number of the NUMA node that is nearest to `object`, or `otherwise`. */
static int32_t nearest_numa(hwloc_topology_t topology, hwloc_obj_t object, int32_t otherwise)
{
    while (object && !object->nodeset)
        object = object->parent;
    int first = object ? hwloc_bitmap_first(object->nodeset) : -1;
    if (first < 0 || hwloc_bitmap_weight(object->nodeset) != 1)
        return otherwise;
    hwloc_obj_t node = hwloc_get_numanode_obj_by_os_index(topology, (unsigned)first);
    return node ? (int32_t)node->logical_index : otherwise;
}

/* The last-level data cache above `object`, or NULL. */
static hwloc_obj_t last_cache(hwloc_obj_t object)
{
    hwloc_obj_t last = NULL;
    for (hwloc_obj_t above = object->parent; above; above = above->parent)
        if (hwloc_obj_type_is_dcache(above->type))
            last = above;
    return last;
}

static weft_status fill_threads(hwloc_topology_t topology, struct machine *machine, struct error *error)
{
    int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    if (count <= 0)
        return error_set(error, WEFT_ERROR_SYSTEM, "hwloc found no processor in this machine");
    machine->threads = calloc((size_t)count, sizeof *machine->threads);
    if (!machine->threads)
        return error_memory(error, (size_t)count * sizeof *machine->threads, "the list of processors");
    machine->thread_count = (uint32_t)count;
    for (int i = 0; i < count; i++) {
        hwloc_obj_t thread = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, (unsigned)i);
        hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, thread);
        hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, thread);
        hwloc_obj_t cache = last_cache(thread);
        machine->threads[i] = (struct machine_thread){
            .processor = thread->os_index,
            .core = core ? core->logical_index : (uint32_t)i,
            .package = package ? package->logical_index : 0,
            .numa = (uint32_t)nearest_numa(topology, thread, 0),
            .last_cache = cache ? (int32_t)cache->logical_index : -1,
            .usable = true,
        };
    }
    int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    int packages = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE);
    machine->cores = cores > 0 ? (uint32_t)cores : machine->thread_count;
    machine->packages = packages > 0 ? (uint32_t)packages : 1;
    return WEFT_OK;
}

/* Cores below `object`; threads if the cores are unknown. */
static uint32_t cores_below(hwloc_topology_t topology, hwloc_obj_t object)
{
    int cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, object->cpuset, HWLOC_OBJ_CORE);
    if (cores <= 0)
        cores = hwloc_bitmap_weight(object->cpuset);
    return cores > 0 ? (uint32_t)cores : 0;
}

static void fill_caches(hwloc_topology_t topology, struct machine *machine)
{
    for (unsigned level = 1; level <= MACHINE_CACHE_LEVELS; level++) {
        hwloc_obj_type_t type = (hwloc_obj_type_t)(HWLOC_OBJ_L1CACHE + (int)level - 1);
        int count = hwloc_get_nbobjs_by_type(topology, type);
        if (count <= 0)
            continue;
        hwloc_obj_t first = hwloc_get_obj_by_type(topology, type, 0);
        machine->caches[machine->cache_count++] = (struct machine_cache){
            .level = level,
            .count = (uint32_t)count,
            .bytes = first->attr->cache.size,
            .cores = cores_below(topology, first),
        };
    }
}

static weft_status fill_numas(hwloc_topology_t topology, struct machine *machine, struct error *error)
{
    int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    if (count <= 0)
        return WEFT_OK;
    machine->numas = calloc((size_t)count, sizeof *machine->numas);
    if (!machine->numas)
        return error_memory(error, (size_t)count * sizeof *machine->numas, "the list of NUMA nodes");
    machine->numa_count = (uint32_t)count;
    for (int i = 0; i < count; i++) {
        hwloc_obj_t node = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, (unsigned)i);
        machine->numas[i] = (struct machine_numa){
            .index = node->os_index,
            .bytes = node->attr->numanode.local_memory,
            .cores = cores_below(topology, node),
        };
    }
    return WEFT_OK;
}

/* Append a device with the name and place of `object`, unless its PCI address is listed already under another name. */
static weft_status add_device(hwloc_topology_t topology, hwloc_obj_t object, enum machine_device_kind kind,
                              struct machine *machine, struct error *error)
{
    struct machine_device device = {.kind = kind, .numa = nearest_numa(topology, object, -1)};
    hwloc_obj_t pci = object;
    while (pci && pci->type != HWLOC_OBJ_PCI_DEVICE)
        pci = pci->parent;
    if (pci) {
        const struct hwloc_pcidev_attr_s *at = &pci->attr->pcidev;
        snprintf(device.pci, sizeof device.pci, "%04x:%02x:%02x.%x", at->domain, at->bus, at->dev, at->func);
    }
    for (uint32_t i = 0; i < machine->device_count; i++)
        if (device.pci[0] && machine->devices[i].kind == kind && strcmp(machine->devices[i].pci, device.pci) == 0)
            return WEFT_OK;
    const char *vendor = pci ? hwloc_obj_get_info_by_name(pci, "PCIVendor") : NULL;
    const char *model = hwloc_obj_get_info_by_name(object, "GPUModel");
    if (!model && pci)
        model = hwloc_obj_get_info_by_name(pci, "PCIDevice");
    snprintf(device.model, sizeof device.model, "%s%s%s", vendor ? vendor : "", vendor && model ? " " : "",
             model ? model : "");
    machine_copy_text(device.name, sizeof device.name, object->type == HWLOC_OBJ_OS_DEVICE ? object->name : device.pci);

    size_t bytes = (machine->device_count + 1) * sizeof device;
    struct machine_device *grown = realloc(machine->devices, bytes);
    if (!grown)
        return error_memory(error, bytes, "the list of devices");
    machine->devices = grown;
    grown[machine->device_count++] = device;
    return WEFT_OK;
}

#define PCI_CLASS_3D          0x0302 /* a GPU without a screen */
#define PCI_CLASS_ACCELERATOR 0x1200

/*
 * Add the PCI devices that compute but have no driver that names them. VGA controllers draw the console of servers, and
 * count only if they have an operating-system device.
 */
static weft_status add_unnamed_devices(hwloc_topology_t topology, struct machine *machine, struct error *error)
{
    weft_status status = WEFT_OK;
    for (hwloc_obj_t object = NULL; status == WEFT_OK && (object = hwloc_get_next_pcidev(topology, object));) {
        unsigned class = object->attr->pcidev.class_id;
        bool known = class != PCI_CLASS_3D && class != PCI_CLASS_ACCELERATOR;
        for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
            known |= child->type == HWLOC_OBJ_OS_DEVICE && (child->attr->osdev.type == HWLOC_OBJ_OSDEV_GPU ||
                                                            child->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC);
        if (!known)
            status =
                add_device(topology, object, class == PCI_CLASS_3D ? MACHINE_GPU : MACHINE_ACCELERATOR, machine, error);
    }
    return status;
}

static weft_status fill_devices(hwloc_topology_t topology, struct machine *machine, struct error *error)
{
    weft_status status = WEFT_OK;
    for (hwloc_obj_t object = NULL; status == WEFT_OK && (object = hwloc_get_next_osdev(topology, object));) {
        switch (object->attr->osdev.type) {
        case HWLOC_OBJ_OSDEV_GPU:
            status = add_device(topology, object, MACHINE_GPU, machine, error);
            break;
        case HWLOC_OBJ_OSDEV_COPROC:
            status = add_device(topology, object, MACHINE_ACCELERATOR, machine, error);
            break;
        case HWLOC_OBJ_OSDEV_OPENFABRICS:
            status = add_device(topology, object, MACHINE_FABRIC, machine, error);
            break;
        default:
            break;
        }
    }
    if (status == WEFT_OK)
        status = add_unnamed_devices(topology, machine, error);
    return status;
}

static weft_status fill_hardware(hwloc_topology_t topology, struct machine *machine, struct error *error)
{
    weft_status status = fill_threads(topology, machine, error);
    if (status == WEFT_OK)
        status = fill_numas(topology, machine, error);
    if (status == WEFT_OK)
        status = fill_devices(topology, machine, error);
    if (status != WEFT_OK)
        return status;
    fill_caches(topology, machine);
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    hwloc_obj_t root = hwloc_get_root_obj(topology);
    const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    machine_copy_text(machine->processor, sizeof machine->processor,
                      model ? model : hwloc_obj_get_info_by_name(root, "CPUModel"));
    machine->limits.memory_total = root->total_memory;
    return WEFT_OK;
}

/* Mark the hardware threads that this process may run on. */
static void fill_usable(struct machine *machine)
{
    uint32_t highest = 0;
    for (uint32_t i = 0; i < machine->thread_count; i++)
        if (machine->threads[i].processor > highest)
            highest = machine->threads[i].processor;
    /* The kernel refuses a set smaller than its own; 8,192 is the most it can be built for. */
    int room = highest < 8192 ? 8192 : (int)highest + 1;
    cpu_set_t *set = CPU_ALLOC((size_t)room);
    size_t size = CPU_ALLOC_SIZE((size_t)room);
    bool known = set && sched_getaffinity(0, size, set) == 0;
    for (uint32_t i = 0; i < machine->thread_count; i++)
        machine->threads[i].usable = !known || CPU_ISSET_S(machine->threads[i].processor, size, set);
    if (set)
        CPU_FREE(set);
}

static void fill_names(struct machine *machine)
{
    struct utsname names;
    if (uname(&names) == 0) {
        machine_copy_text(machine->host, sizeof machine->host, names.nodename);
        snprintf(machine->system, sizeof machine->system, "%.24s %.64s %.24s", names.sysname, names.release,
                 names.machine);
    }
}

/* Load `topology`, which has its source set, into a new machine. */
static weft_status topology_machine_load(hwloc_topology_t topology, const char *source, bool devices,
                                         struct machine **machine, struct error *error)
{
    hwloc_topology_set_io_types_filter(topology, devices ? HWLOC_TYPE_FILTER_KEEP_ALL : HWLOC_TYPE_FILTER_KEEP_NONE);
    if (hwloc_topology_load(topology) != 0)
        return error_set(error, WEFT_ERROR_DATA, "hwloc cannot make a topology from %s", source);
    /* hwloc unloads its plugins with its last topology; memory of the libraries that they use would then be leaked. */
    dlopen("libpciaccess.so.0", RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    struct machine *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "the description of a machine");
    made->limits = (struct limits){
        .memory_available = LIMITS_NONE,
        .group_limit = LIMITS_NONE,
        .group_available = LIMITS_NONE,
        .address_space_limit = LIMITS_NONE,
        .locked_limit = LIMITS_NONE,
    };
    weft_status status = fill_hardware(topology, made, error);
    if (status != WEFT_OK) {
        machine_free(made);
        return status;
    }
    made->limits.processors = made->thread_count;
    made->limits.memory_available = made->limits.memory_total;
    *machine = made;
    return WEFT_OK;
}

static weft_status discover(bool devices, struct machine **machine, struct error *error)
{
    hwloc_topology_t topology;
    struct machine *made = NULL;
    if (hwloc_topology_init(&topology) != 0)
        return error_system(error, "cannot start hwloc");
    weft_status status = topology_machine_load(topology, "this machine", devices, &made, error);
    hwloc_topology_destroy(topology);
    if (status == WEFT_OK)
        status = limits_read(&made->limits, error);
    if (status == WEFT_OK)
        status = identity_read(NULL, made->identity, error);
    if (status == WEFT_OK)
        status = interfaces_read(&made->interfaces, &made->interface_count, error);
    if (status != WEFT_OK) {
        machine_free(made);
        return status;
    }
    fill_usable(made);
    fill_names(made);
    *machine = made;
    return WEFT_OK;
}

weft_status machine_discover(struct machine **machine, struct error *error)
{
    return discover(true, machine, error);
}

weft_status machine_discover_processors(struct machine **machine, struct error *error)
{
    return discover(false, machine, error);
}

weft_status machine_from_hwloc_xml(const char *path, struct machine **machine, struct error *error)
{
    hwloc_topology_t topology;
    char source[FILE_PATH_BYTES + 8];
    snprintf(source, sizeof source, "'%s'", path);
    if (!file_exists(path))
        return error_system(error, "cannot open '%s'", path);
    if (hwloc_topology_init(&topology) != 0)
        return error_system(error, "cannot start hwloc");
    weft_status status;
    if (hwloc_topology_set_xml(topology, path) != 0)
        status = error_set(error, WEFT_ERROR_DATA,
                           "'%s' is not an XML file that hwloc can read; make one with lstopo FILE.xml", path);
    else
        status = topology_machine_load(topology, source, true, machine, error);
    if (status == WEFT_OK) {
        const char *host = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), "HostName");
        machine_copy_text((*machine)->host, sizeof(*machine)->host, host);
    }
    hwloc_topology_destroy(topology);
    return status;
}

weft_status machine_from_synthetic(const char *description, struct machine **machine, struct error *error)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return error_system(error, "cannot start hwloc");
    weft_status status;
    if (hwloc_topology_set_synthetic(topology, description) != 0)
        status =
            error_set(error, WEFT_ERROR_ARGUMENT,
                      "hwloc does not understand the machine '%s'; write for example 'pack:2 [numa] l3:4 core:8 pu:2'",
                      description);
    else
        status = topology_machine_load(topology, "this description", true, machine, error);
    hwloc_topology_destroy(topology);
    return status;
}

void machine_free(struct machine *machine)
{
    if (!machine)
        return;
    interfaces_free(machine->interfaces, machine->interface_count);
    free(machine->threads);
    free(machine->numas);
    free(machine->devices);
    free(machine);
}

char *machine_kind(const struct machine *machine, char *buffer, size_t size)
{
    char cache[32] = "no";
    if (machine->cache_count)
        text_bytes(machine->caches[machine->cache_count - 1].bytes, cache, sizeof cache);
    snprintf(buffer, size, "%s, %u packages, %u cores, %u threads, %s last-level cache",
             machine->processor[0] ? machine->processor : "unknown processor", machine->packages, machine->cores,
             machine->thread_count, cache);
    return buffer;
}

const char *machine_device_kind_name(enum machine_device_kind kind)
{
    static const char *const names[] = {
        [MACHINE_GPU] = "gpu", [MACHINE_ACCELERATOR] = "accelerator", [MACHINE_FABRIC] = "fabric"};
    return (unsigned)kind < ARRAY_SIZE(names) ? names[kind] : "unknown";
}
