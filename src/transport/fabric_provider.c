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

/** The best address, or the best of those that match the wanted interface's name or address. */
static weft_status interface_choose(const char *wanted, bool loopback, char name[MACHINE_NAME_BYTES], char *chosen,
                                    size_t size, struct error *error)
{
    struct machine_interface *interfaces;
    uint32_t count;
    weft_status status = interfaces_read(&interfaces, &count, error);
    if (status != WEFT_OK)
        return status;
    char list[512] = "";
    int best = -1;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t a = 0; a < interfaces[i].address_count; a++) {
            const struct machine_address *address = &interfaces[i].addresses[a];
            int merit = address_merit(&interfaces[i], address);
            if (merit < 0)
                continue;
            size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s%s (%s)", used ? ", " : "", interfaces[i].name, address->text);
            if (wanted && strcmp(wanted, interfaces[i].name) != 0 && strcmp(wanted, address->text) != 0)
                continue;
            if (loopback && (!interfaces[i].loopback || address->is_ipv6))
                continue;
            if (merit <= best)
                continue;
            best = merit;
            snprintf(name, MACHINE_NAME_BYTES, "%s", interfaces[i].name);
            snprintf(chosen, size, "%s", address->text);
        }
    }
    interfaces_free(interfaces, count);
    if (best >= 0)
        return WEFT_OK;
    if (wanted)
        return error_set(error, WEFT_ERROR_NETWORK,
                         "no network interface that is up has the name or address '%s'; there are: %s", wanted,
                         *list ? list : "none");
    return error_set(error, WEFT_ERROR_NETWORK, "no network interface %sis up; there are: %s",
                     loopback ? "with a loopback address " : "", *list ? list : "none");
}

/* ---- providers -------------------------------------------------------------------------------------------------- */

/** Whether a driver for RDMA has found a device; `kernel_name` begins the device's name ("" for any). */
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

    bool by_address = strncmp(name, "efa", 3) != 0; /* an EFA device is no IP interface */
    struct fi_info *answer = NULL;
    int status =
        fi_getinfo(FI_VERSION(1, 17), by_address ? address : NULL, NULL, by_address ? FI_SOURCE : 0, hints, &answer);
    if (status != 0 && receives) { /* as many as it has: it then holds up the sender itself */
        hints->rx_attr->size = 0;
        status = fi_getinfo(FI_VERSION(1, 17), by_address ? address : NULL, NULL, by_address ? FI_SOURCE : 0, hints,
                            &answer);
    }
    fi_freeinfo(hints);
    if (status != 0)
        return error_set(error, WEFT_ERROR_NETWORK,
                         "libfabric %u.%u has no provider '%s' with reliable datagrams and remote writes at %s: %s",
                         FI_MAJOR(fi_version()), FI_MINOR(fi_version()), name, address, fi_strerror(-status));
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

weft_status fabric_choose(const struct fabric_config *config, uint64_t receives, struct fi_info **info, char *reason,
                          size_t size, struct error *error)
{
    char interface[MACHINE_NAME_BYTES], address[MACHINE_ADDRESS_BYTES];
    bool loopback = config->loopback_only && !config->interface;
    weft_status status = interface_choose(config->interface, loopback, interface, address, sizeof address, error);
    if (status != WEFT_OK)
        return status;
    if (config->provider) {
        status = provider_ask(config->provider, address, receives, info, error);
    } else {
        const char *names[4];
        size_t count = provider_candidates(loopback, names);
        struct error refused;
        for (size_t i = 0; i < count; i++) {
            error_clear(&refused);
            status = provider_ask(names[i], address, receives, info, &refused);
            if (status == WEFT_OK)
                break;
        }
        if (status != WEFT_OK)
            error_set(error, status, "%s", refused.text);
    }
    if (status != WEFT_OK)
        return status;
    snprintf(reason, size, "%s of libfabric %u.%u (%s) on %s, %s (%s)", (*info)->fabric_attr->prov_name,
             FI_MAJOR(fi_version()), FI_MINOR(fi_version()), config->provider ? "as asked" : "the best here", interface,
             address,
             config->interface ? "as asked"
             : loopback        ? "all ranks are on this machine"
                               : "the best that is up");
    return WEFT_OK;
}
