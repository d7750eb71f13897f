/* SPDX-License-Identifier: Apache-2.0 */
/* Which provider, which interface, and why. */
#include "topology/interfaces.h"
#include "transport/fabric_internal.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- interfaces ------------------------------------------------------------------------------------------------- */

/**
 * How good an address is for reaching other hosts, -1: not at all. Real interfaces come before the bridges and tunnels
 * of containers and virtual machines, which rarely lead to another host, IPv4 before IPv6 (every provider has it),
 * faster before slower; the loopback comes last.
 */
static int address_merit(const struct machine_interface *interface, const struct machine_address *address)
{
    if (!interface->up || address->is_link_local)
        return -1;
    int merit = address->is_ipv6 ? 0 : 1;
    if (interface->loopback)
        return merit;
    merit += 10;
    if (strcmp(interface->driver, "bridge") != 0 && strcmp(interface->driver, "tun") != 0)
        merit += 1000;
    for (uint64_t speed = interface->bytes_per_second; speed; speed /= 2)
        merit += 10;
    return merit;
}

/** Where TCP is bound, and why. */
struct place {
    char interface[MACHINE_NAME_BYTES], address[MACHINE_ADDRESS_BYTES];
    const char *reason;
};

/** Find the best address among those that match `wanted` (NULL: any) and are loopback or not; false if there is none.
 */
static bool place_find(const struct machine_interface *interfaces, uint32_t count, const char *wanted, bool loopback,
                       struct place *place)
{
    int best = -1;
    for (uint32_t i = 0; i < count; i++) {
        const struct machine_interface *interface = &interfaces[i];
        for (uint32_t a = 0; a < interface->address_count; a++) {
            const struct machine_address *address = &interface->addresses[a];
            int merit = address_merit(interface, address);
            if (merit <= best || (loopback && (!interface->loopback || address->is_ipv6)))
                continue;
            if (wanted && strcmp(wanted, interface->name) != 0 && strcmp(wanted, address->text) != 0)
                continue;
            best = merit;
            snprintf(place->interface, sizeof place->interface, "%s", interface->name);
            snprintf(place->address, sizeof place->address, "%s", address->text);
        }
    }
    return best >= 0;
}

/** "eth0 (10.0.0.1), lo (127.0.0.1)": what there is to choose from. */
static void interfaces_name(const struct machine_interface *interfaces, uint32_t count, char *text, size_t size)
{
    size_t used = 0;
    snprintf(text, size, "none");
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t a = 0; a < interfaces[i].address_count && used < size; a++)
            if (address_merit(&interfaces[i], &interfaces[i].addresses[a]) >= 0)
                used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", used ? ", " : "", interfaces[i].name,
                                         interfaces[i].addresses[a].text);
}

static bool is_loopback_address(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

static weft_status place_choose(const struct fabric_config *config, struct place *place, struct error *error)
{
    struct machine_interface *interfaces;
    uint32_t count;
    weft_status status = interfaces_read(&interfaces, &count, error);
    if (status != WEFT_OK)
        return status;
    const char *reachable = config->reachable;
    bool found;
    if (config->interface) {
        place->reason = "as asked";
        found = place_find(interfaces, count, config->interface, false, place);
    } else if (config->loopback_only) {
        place->reason = "all ranks are on this machine";
        found = place_find(interfaces, count, NULL, true, place);
    } else if (reachable && !is_loopback_address(reachable) && place_find(interfaces, count, reachable, false, place)) {
        place->reason = "the ranks met through it";
        found = true;
    } else {
        place->reason = "the best that is up";
        found = place_find(interfaces, count, NULL, false, place);
    }
    if (!found) {
        char list[512];
        interfaces_name(interfaces, count, list, sizeof list);
        status =
            config->interface ? error_set(error, WEFT_ERROR_NETWORK,
                                          "no network interface that is up has the name or address '%s'; there are: %s",
                                          config->interface, list)
                              : error_set(error, WEFT_ERROR_NETWORK, "no network interface %sis up; there are: %s",
                                          config->loopback_only ? "with a loopback address " : "", list);
    }
    interfaces_free(interfaces, count);
    return status;
}

/* ---- providers -------------------------------------------------------------------------------------------------- */

/** Whether there is a device of the EFA driver, or of another one for RDMA. */
static bool rdma_device_exists(bool efa)
{
    DIR *folder = opendir("/sys/class/infiniband");
    if (!folder)
        return false;
    bool found = false;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        char path[512], driver[256];
        snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/driver", entry->d_name);
        ssize_t length = readlink(path, driver, sizeof driver - 1);
        driver[length > 0 ? length : 0] = '\0';
        const char *base = strrchr(driver, '/');
        if ((base && strcmp(base + 1, "efa") == 0) == efa)
            found = true;
    }
    closedir(folder);
    return found;
}

/** Providers worth asking for, the best first; returns how many. */
static size_t provider_candidates(bool loopback, const char *names[4])
{
    size_t count = 0;
    if (!loopback && rdma_device_exists(true))
        names[count++] = "efa";
    if (!loopback && rdma_device_exists(false))
        names[count++] = "verbs;ofi_rxm";
    /* The reliable-datagram endpoint over TCP was called net in 1.17 and became tcp's own in 1.18. */
    names[count++] = fi_version() >= FI_VERSION(1, 18) ? "tcp" : "net";
    names[count++] = "tcp;ofi_rxm";
    return count;
}

/** Whether the provider has devices of its own, which it knows better than we do. */
static bool has_own_devices(const char *name)
{
    return strncmp(name, "efa", 3) == 0 || strncmp(name, "verbs", 5) == 0;
}

/** Ask for provider `name`, bound to `address` (NULL: to whatever it likes best). */
static weft_status provider_ask(const char *name, const char *address, uint64_t receives, struct fi_info **info,
                                struct error *error)
{
    struct fi_info *hints = fi_allocinfo();
    if (!hints)
        return error_memory(error, sizeof *hints, "a question to libfabric");
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->rx_attr->size = receives;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT | FI_MR_HMEM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->av_type = FI_AV_TABLE;
    hints->domain_attr->cq_data_size = 4;
    hints->fabric_attr->prov_name = strdup(name);

    struct fi_info *answer = NULL;
    int status = fi_getinfo(FI_VERSION(1, 17), address, NULL, address ? FI_SOURCE : 0, hints, &answer);
    if (status != 0 && receives) { /* as many as it has: it then holds up the sender itself */
        hints->rx_attr->size = 0;
        status = fi_getinfo(FI_VERSION(1, 17), address, NULL, address ? FI_SOURCE : 0, hints, &answer);
    }
    fi_freeinfo(hints);
    if (status != 0)
        return error_set(error, WEFT_ERROR_NETWORK,
                         "libfabric %u.%u has no provider '%s' with reliable datagrams and remote writes at %s: %s",
                         FI_MAJOR(fi_version()), FI_MINOR(fi_version()), name, address ? address : "its own devices",
                         fi_strerror(-status));
    /* The list also has layered providers that contain the name: take the one that is it. */
    *info = NULL;
    for (struct fi_info *each = answer; each && !*info; each = each->next)
        if (strcmp(each->fabric_attr->prov_name, name) == 0)
            *info = fi_dupinfo(each);
    if (!*info)
        *info = fi_dupinfo(answer);
    fi_freeinfo(answer);
    return *info ? WEFT_OK : error_memory(error, sizeof **info, "libfabric's answer");
}

/** Ask for `name` where it belongs. */
static weft_status provider_try(const struct fabric_config *config, const char *name, const struct place *place,
                                uint64_t receives, struct fi_info **info, struct error *error)
{
    bool anywhere = has_own_devices(name) && (!config->interface || strncmp(name, "efa", 3) == 0);
    return provider_ask(name, anywhere ? NULL : place->address, receives, info, error);
}

weft_status fabric_choose(const struct fabric_config *config, uint64_t receives, struct fi_info **info, char *reason,
                          size_t size, struct error *error)
{
    struct place place;
    weft_status status = place_choose(config, &place, error);
    if (status != WEFT_OK)
        return status;
    if (config->provider) {
        status = provider_try(config, config->provider, &place, receives, info, error);
    } else {
        const char *names[4];
        size_t count = provider_candidates(config->loopback_only, names);
        struct error refused;
        for (size_t i = 0; i < count; i++) {
            error_clear(&refused);
            status = provider_try(config, names[i], &place, receives, info, &refused);
            if (status == WEFT_OK)
                break;
        }
        if (status != WEFT_OK)
            error_set(error, status, "%s", refused.text);
    }
    if (status != WEFT_OK)
        return status;
    const char *name = (*info)->fabric_attr->prov_name;
    int used = snprintf(reason, size, "%s of libfabric %u.%u (%s) on ", name, FI_MAJOR(fi_version()),
                        FI_MINOR(fi_version()), config->provider ? "as asked" : "the best here");
    if (has_own_devices(name))
        snprintf(reason + used, size - (size_t)used, "%s", (*info)->domain_attr->name);
    else
        snprintf(reason + used, size - (size_t)used, "%s, %s (%s)", place.interface, place.address, place.reason);
    return WEFT_OK;
}
