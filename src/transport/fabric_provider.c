/* SPDX-License-Identifier: Apache-2.0 */
/* Which provider, which interface, and why. */
#include "transport/fabric_internal.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define INTERFACE_BYTES 32

/** A network interface of this machine, or the one with a wanted name or address. */
struct interface {
    char name[INTERFACE_BYTES];
    char address[INET6_ADDRSTRLEN];
    int merit; /**< the higher the better; below 0: do not use */
};

/* ---- interfaces ------------------------------------------------------------------------------------------------- */

static bool interface_has(const char *name, const char *entry)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, entry);
    return access(path, F_OK) == 0;
}

/** Megabit per second as the driver says; 0 when it does not say. */
static int interface_speed(const char *name)
{
    char path[128];
    int speed = 0;
    snprintf(path, sizeof path, "/sys/class/net/%s/speed", name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%d", &speed) != 1 || speed < 0)
        speed = 0;
    fclose(file);
    return speed;
}

/**
 * How good an interface is for reaching other hosts: IPv4 before IPv6 (every provider has it), real ones before the
 * bridges and tunnels of containers and virtual machines, which rarely lead to another host, faster before slower.
 */
static int interface_merit(const struct ifaddrs *entry)
{
    if (!(entry->ifa_flags & IFF_UP) || !(entry->ifa_flags & IFF_RUNNING))
        return -1;
    if (entry->ifa_addr->sa_family == AF_INET6 &&
        IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)entry->ifa_addr)->sin6_addr))
        return -1;
    if (entry->ifa_flags & IFF_LOOPBACK)
        return 0;
    int merit = 1;
    if (entry->ifa_addr->sa_family == AF_INET)
        merit += 1;
    if (!interface_has(entry->ifa_name, "bridge") && !(entry->ifa_flags & IFF_POINTOPOINT))
        merit += 10;
    int speed = interface_speed(entry->ifa_name);
    for (int step = 1000; step <= speed && step < 2000000; step *= 2)
        merit += 2;
    return merit;
}

static bool interface_read(const struct ifaddrs *entry, struct interface *interface)
{
    if (!entry->ifa_addr)
        return false;
    const void *address;
    if (entry->ifa_addr->sa_family == AF_INET)
        address = &((const struct sockaddr_in *)(const void *)entry->ifa_addr)->sin_addr;
    else if (entry->ifa_addr->sa_family == AF_INET6)
        address = &((const struct sockaddr_in6 *)(const void *)entry->ifa_addr)->sin6_addr;
    else
        return false;
    if (!inet_ntop(entry->ifa_addr->sa_family, address, interface->address, sizeof interface->address))
        return false;
    snprintf(interface->name, sizeof interface->name, "%s", entry->ifa_name);
    interface->merit = interface_merit(entry);
    return true;
}

/** The best interface, or the best address of the one whose name or address is `wanted`. */
static weft_status interface_choose(const char *wanted, bool loopback, struct interface *chosen, struct error *error)
{
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0)
        return error_system(error, "cannot list the network interfaces");
    char names[256] = "";
    chosen->merit = -1;
    for (const struct ifaddrs *entry = list; entry; entry = entry->ifa_next) {
        struct interface interface;
        if (!interface_read(entry, &interface) || interface.merit < 0)
            continue;
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s (%s)", used ? ", " : "", interface.name, interface.address);
        if (wanted && strcmp(wanted, interface.name) != 0 && strcmp(wanted, interface.address) != 0)
            continue;
        if (loopback && strncmp(interface.address, "127.", 4) != 0)
            continue;
        if (interface.merit > chosen->merit)
            *chosen = interface;
    }
    freeifaddrs(list);
    if (chosen->merit >= 0)
        return WEFT_OK;
    if (wanted)
        return error_set(error, WEFT_ERROR_NETWORK,
                         "no network interface that is up has the name or address '%s'; there are: %s", wanted,
                         *names ? names : "none");
    return error_set(error, WEFT_ERROR_NETWORK, "no network interface %sis up; there are: %s",
                     loopback ? "with a loopback address " : "", *names ? names : "none");
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
    struct interface interface;
    bool loopback = config->loopback_only && !config->interface;
    weft_status status = interface_choose(config->interface, loopback, &interface, error);
    if (status != WEFT_OK)
        return status;
    if (config->provider) {
        status = provider_ask(config->provider, interface.address, receives, info, error);
    } else {
        const char *names[4];
        size_t count = provider_candidates(loopback, names);
        struct error refused;
        for (size_t i = 0; i < count; i++) {
            error_clear(&refused);
            status = provider_ask(names[i], interface.address, receives, info, &refused);
            if (status == WEFT_OK)
                break;
        }
        if (status != WEFT_OK)
            error_set(error, status, "%s", refused.text);
    }
    if (status != WEFT_OK)
        return status;
    snprintf(reason, size, "%s of libfabric %u.%u (%s) on %s, %s (%s)", (*info)->fabric_attr->prov_name,
             FI_MAJOR(fi_version()), FI_MINOR(fi_version()), config->provider ? "as asked" : "the best here",
             interface.name, interface.address,
             config->interface ? "as asked"
             : loopback        ? "all ranks are on this machine"
                               : "the best that is up");
    return WEFT_OK;
}
