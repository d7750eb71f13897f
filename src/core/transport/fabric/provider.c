/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of provider and interfaces, with its reason. */
#include "core/topology/interfaces.h"
#include "core/transport/fabric/internal/state.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- interfaces ---- */

/** Neither loopback nor a bridge or tunnel of containers and virtual machines, which rarely lead to another host. */
static bool is_real(const struct machine_interface *interface)
{
    return !interface->loopback && strcmp(interface->driver, "bridge") != 0 && strcmp(interface->driver, "tun") != 0;
}

/**
 * A score of an address for reaching other hosts; -1: unusable. Real interfaces come before others, IPv4 before IPv6
 * (every provider has it), faster before slower; the loopback comes last.
 */
static int address_merit(const struct machine_interface *interface, const struct machine_address *address)
{
    if (!interface->up || address->is_link_local)
        return -1;
    int merit = address->is_ipv6 ? 0 : 1;
    if (interface->loopback)
        return merit;
    merit += 10;
    if (is_real(interface))
        merit += 1000;
    for (uint64_t speed = interface->bytes_per_second; speed; speed /= 2)
        merit += 10;
    return merit;
}

/** An interface and address that TCP is bound to. */
struct provider_place {
    char interface[MACHINE_NAME_BYTES], address[MACHINE_ADDRESS_BYTES];
    uint8_t network[16];
    uint64_t bytes_per_second;
    bool is_ipv6;
};

/** All places that TCP is bound to, the preferred one first, and the reason. */
struct provider_places {
    struct provider_place all[FABRIC_RAILS];
    uint32_t count;
    const char *reason;
};

/** The address without what differs between hosts of its network; IPv4 as mapped into IPv6. */
static void network_of(const struct machine_address *address, uint8_t network[16])
{
    uint32_t bits = address->prefix + (address->is_ipv6 ? 0 : 96);
    memset(network, 0, 16);
    if (!address->is_ipv6)
        network[10] = network[11] = 0xff;
    (void)inet_pton(address->is_ipv6 ? AF_INET6 : AF_INET, address->text, network + (address->is_ipv6 ? 0 : 12));
    for (uint32_t bit = bits; bit < 128; bit++)
        network[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
}

/** Find the best address among those that match `wanted` (NULL: any) and are loopback or not; false if there is none.
 */
static bool place_find(const struct machine_interface *interfaces, uint32_t count, const char *wanted, bool loopback,
                       struct provider_place *place)
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
            network_of(address, place->network);
            place->bytes_per_second = interface->bytes_per_second;
            place->is_ipv6 = address->is_ipv6;
        }
    }
    return best >= 0;
}

/** Add the other interfaces that are neither loopback nor bridge or tunnel. */
static void places_add_others(const struct machine_interface *interfaces, uint32_t count,
                              struct provider_places *places)
{
    const struct provider_place *first = &places->all[0];
    for (uint32_t i = 0; i < count && places->count < FABRIC_RAILS; i++) {
        struct provider_place *place = &places->all[places->count];
        if (strcmp(interfaces[i].name, first->interface) == 0 || !is_real(&interfaces[i]) ||
            !place_find(&interfaces[i], 1, NULL, false, place) || place->is_ipv6 != first->is_ipv6)
            continue;
        places->count++;
    }
}

/** The available interfaces: "eth0 (10.0.0.1), lo (127.0.0.1)". */
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

/** The places that a list like "eth0,10.0.0.1" names. */
static weft_status places_find(const struct machine_interface *interfaces, uint32_t count, const char *wanted,
                               struct provider_places *places, struct error *error)
{
    char list[512], *rest = NULL;
    if (snprintf(list, sizeof list, "%s", wanted) >= (int)sizeof list)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the list of network interfaces '%.60s...' is too long", wanted);
    for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        char all[512];
        if (places->count == FABRIC_RAILS)
            return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' names more than %d network interfaces", wanted,
                             FABRIC_RAILS);
        if (place_find(interfaces, count, name, false, &places->all[places->count++]))
            continue;
        interfaces_name(interfaces, count, all, sizeof all);
        return error_set(error, WEFT_ERROR_NETWORK,
                         "no network interface that is up has the name or address '%s'; there are: %s", name, all);
    }
    return WEFT_OK;
}

static weft_status places_choose(const struct fabric_config *config, struct provider_places *places,
                                 struct error *error)
{
    struct machine_interface *interfaces;
    uint32_t count;
    weft_status status = interfaces_read(&interfaces, &count, error);
    if (status != WEFT_OK)
        return status;
    const char *reachable = config->reachable;
    struct provider_place *first = &places->all[0];
    bool loopback = config->loopback_only && !config->interface;
    places->count = 0;
    if (config->interface) {
        places->reason = "as asked";
        status = places_find(interfaces, count, config->interface, places, error);
    } else if (loopback) {
        places->reason = "all ranks are on this machine";
        places->count = place_find(interfaces, count, NULL, true, first);
    } else if (reachable && !is_loopback_address(reachable) && place_find(interfaces, count, reachable, false, first)) {
        places->reason = "the ranks met through the first";
        places->count = 1;
    } else {
        places->reason = "the best that are up";
        places->count = place_find(interfaces, count, NULL, false, first);
    }
    if (status == WEFT_OK && !places->count) {
        char list[512];
        interfaces_name(interfaces, count, list, sizeof list);
        status = error_set(error, WEFT_ERROR_NETWORK, "no network interface %sis up; there are: %s",
                           loopback ? "with a loopback address " : "", list);
    }
    if (status == WEFT_OK && !config->interface && !loopback && strcmp(first->interface, "lo") != 0)
        places_add_others(interfaces, count, places);
    interfaces_free(interfaces, count);
    return status;
}

/* ---- providers ---- */

/** Whether there is a device of the EFA driver, or of another one for RDMA. */
static bool rdma_device_exists(bool efa)
{
    DIR *directory = opendir("/sys/class/infiniband");
    if (!directory)
        return false;
    bool found = false;
    for (const struct dirent *entry; (entry = readdir(directory));) {
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
    closedir(directory);
    return found;
}

/** Providers worth asking for, the best first; returns how many. */
static size_t provider_candidates(const struct libfabric *library, bool loopback, const char *names[4])
{
    size_t count = 0;
    if (!loopback && rdma_device_exists(true))
        names[count++] = "efa";
    if (!loopback && rdma_device_exists(false))
        names[count++] = "verbs;ofi_rxm";
    /* The reliable-datagram endpoint over TCP was called net in 1.17 and became tcp's own in 1.18. */
    names[count++] = library->version() >= FI_VERSION(1, 18) ? "tcp" : "net";
    names[count++] = "tcp;ofi_rxm";
    return count;
}

/** Whether the provider has devices of its own, among which it chooses better. */
static bool has_own_devices(const char *name)
{
    return strncmp(name, "efa", 3) == 0 || strncmp(name, "verbs", 5) == 0;
}

/** Ask for provider `name`, bound to `address` (NULL: the provider's choice); `info` is a list. */
static weft_status provider_ask(const struct libfabric *library, const char *name, const char *address,
                                uint64_t receives, struct fi_info **info, struct error *error)
{
    struct fi_info *hints = library->dupinfo(NULL);
    if (!hints)
        return error_memory(error, sizeof *hints, "a query to libfabric");
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
    int status = library->getinfo(FI_VERSION(1, 17), address, NULL, address ? FI_SOURCE : 0, hints, &answer);
    if (status != 0 && receives) { /* all that it has: it then blocks the sender itself */
        hints->rx_attr->size = 0;
        status = library->getinfo(FI_VERSION(1, 17), address, NULL, address ? FI_SOURCE : 0, hints, &answer);
    }
    library->freeinfo(hints);
    if (status != 0)
        return error_set(error, WEFT_ERROR_NETWORK,
                         "libfabric %u.%u has no provider '%s' with reliable datagrams and remote writes at %s: %s",
                         FI_MAJOR(library->version()), FI_MINOR(library->version()), name,
                         address ? address : "its own devices", library->strerror(-status));
    *info = answer;
    return WEFT_OK;
}

/**
 * Take the entries of provider `name` itself from the list `answer`, which is freed, if there are any: the list also
 * has layered providers that contain the name. At most `wanted` entries, one for each device.
 */
static weft_status choices_take(const struct libfabric *library, struct fi_info *answer, const char *name,
                                uint32_t most, struct rail_choice *choices, uint32_t *count, struct error *error)
{
    uint32_t before = *count;
    bool exact = false;
    for (const struct fi_info *each = answer; each; each = each->next)
        exact = exact || strcmp(each->fabric_attr->prov_name, name) == 0;
    for (const struct fi_info *each = answer; each && *count < most; each = each->next) {
        bool known = exact && strcmp(each->fabric_attr->prov_name, name) != 0;
        for (uint32_t i = before; i < *count; i++)
            known = known || strcmp(choices[i].info->domain_attr->name, each->domain_attr->name) == 0;
        if (known)
            continue;
        struct rail_choice *choice = &choices[*count];
        *choice = (struct rail_choice){.info = library->dupinfo(each)};
        if (!choice->info)
            break;
        snprintf(choice->interface, sizeof choice->interface, "%s", each->domain_attr->name);
        if (each->nic && each->nic->link_attr)
            choice->bytes_per_second = each->nic->link_attr->speed / 8;
        ++*count;
    }
    library->freeinfo(answer);
    return *count > before ? WEFT_OK : error_memory(error, sizeof *answer, "libfabric's answer");
}

/**
 * Ask for `name` at its own devices, or else at the given places. Places other than the first that lack it are left
 * out.
 */
static weft_status provider_try(const struct libfabric *library, const struct fabric_config *config, const char *name,
                                const struct provider_places *places, uint64_t receives, struct rail_choice *choices,
                                uint32_t *count, struct error *error)
{
    bool anywhere = has_own_devices(name) && (!config->interface || strncmp(name, "efa", 3) == 0);
    *count = 0;
    for (uint32_t i = 0; i < (anywhere ? 1 : places->count); i++) {
        const struct provider_place *place = &places->all[i];
        struct rail_choice *choice = &choices[*count];
        struct fi_info *answer = NULL;
        struct error refused = {0};
        weft_status status = provider_ask(library, name, anywhere ? NULL : place->address, receives, &answer, &refused);
        if (status == WEFT_OK)
            status =
                choices_take(library, answer, name, anywhere ? FABRIC_RAILS : *count + 1, choices, count, &refused);
        if (status != WEFT_OK && i == 0)
            return error_set(error, status, "%s", refused.text);
        if (status != WEFT_OK || has_own_devices(name))
            continue;
        memcpy(choice->network, place->network, sizeof choice->network);
        choice->bytes_per_second = place->bytes_per_second;
        snprintf(choice->interface, sizeof choice->interface, "%s", place->interface);
    }
    return WEFT_OK;
}

weft_status fabric_choose(const struct libfabric *library, const struct fabric_config *config, uint64_t receives,
                          struct rail_choice *choices, uint32_t *count, char *reason, size_t size, struct error *error)
{
    struct provider_places places;
    weft_status status = places_choose(config, &places, error);
    if (status != WEFT_OK)
        return status;
    if (config->provider) {
        status = provider_try(library, config, config->provider, &places, receives, choices, count, error);
    } else {
        const char *names[4];
        size_t candidates = provider_candidates(library, config->loopback_only, names);
        struct error refused;
        for (size_t i = 0; i < candidates; i++) {
            error_clear(&refused);
            status = provider_try(library, config, names[i], &places, receives, choices, count, &refused);
            if (status == WEFT_OK)
                break;
        }
        if (status != WEFT_OK)
            error_set(error, status, "%s", refused.text);
    }
    if (status != WEFT_OK)
        return status;
    const char *name = choices[0].info->fabric_attr->prov_name;
    snprintf(reason, size, "%s of libfabric %u.%u (%s) on %u interface%s (%s)", name, FI_MAJOR(library->version()),
             FI_MINOR(library->version()), config->provider ? "as asked" : "the best here", *count,
             *count == 1 ? "" : "s", has_own_devices(name) ? "its devices" : places.reason);
    return WEFT_OK;
}
