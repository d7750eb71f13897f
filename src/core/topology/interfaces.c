/* SPDX-License-Identifier: Apache-2.0 */
#include "core/topology/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MODE_WORDS_MOST 128 /* a generous bound of the kernel's link-mode masks */

static void interfaces_begin_request(struct ifreq *request, const char *name, void *data)
{
    *request = (struct ifreq){0};
    snprintf(request->ifr_name, sizeof request->ifr_name, "%.*s", IFNAMSIZ - 1, name);
    request->ifr_data = data;
}

/* The speed that the link reports, in Mbit/s; 0 if it reports none. The kernel first reports the size of its masks.
 */
static uint32_t ask_megabits(int descriptor, const char *name)
{
    union {
        struct ethtool_link_settings settings; /* ends in masks whose size the kernel determines */
        uint32_t room[sizeof(struct ethtool_link_settings) / 4 + 3 * MODE_WORDS_MOST];
    } answer = {.settings.cmd = ETHTOOL_GLINKSETTINGS};
    struct ifreq request;
    interfaces_begin_request(&request, name, &answer);
    if (ioctl(descriptor, SIOCETHTOOL, &request) != 0 || answer.settings.link_mode_masks_nwords >= 0)
        return 0;
    int words = -answer.settings.link_mode_masks_nwords;
    if (words > MODE_WORDS_MOST)
        return 0;
    answer.settings =
        (struct ethtool_link_settings){.cmd = ETHTOOL_GLINKSETTINGS, .link_mode_masks_nwords = (int8_t)words};
    interfaces_begin_request(&request, name, &answer);
    if (ioctl(descriptor, SIOCETHTOOL, &request) != 0 || answer.settings.speed == (uint32_t)SPEED_UNKNOWN)
        return 0;
    return answer.settings.speed;
}

static void ask_driver(int descriptor, const char *name, char driver[MACHINE_NAME_BYTES])
{
    struct ethtool_drvinfo information = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request;
    interfaces_begin_request(&request, name, &information);
    if (ioctl(descriptor, SIOCETHTOOL, &request) == 0)
        snprintf(driver, MACHINE_NAME_BYTES, "%s", information.driver);
}

static uint32_t ask_mtu(int descriptor, const char *name)
{
    struct ifreq request;
    interfaces_begin_request(&request, name, NULL);
    return ioctl(descriptor, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0 ? (uint32_t)request.ifr_mtu : 0;
}

static uint32_t count_bits(const uint8_t *bytes, size_t size)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < size; i++)
        bits += (uint32_t)__builtin_popcount(bytes[i]);
    return bits;
}

/* Append the address of `entry`, if it is IPv4 or IPv6. */
static weft_status add_address(struct machine_interface *interface, const struct ifaddrs *entry, struct error *error)
{
    if (!entry->ifa_addr || (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6))
        return WEFT_OK;
    struct machine_address address = {.is_ipv6 = entry->ifa_addr->sa_family == AF_INET6};
    if (address.is_ipv6) {
        const struct sockaddr_in6 *full = (const void *)entry->ifa_addr;
        const struct sockaddr_in6 *mask = (const void *)entry->ifa_netmask;
        inet_ntop(AF_INET6, &full->sin6_addr, address.text, sizeof address.text);
        address.is_link_local = IN6_IS_ADDR_LINKLOCAL(&full->sin6_addr);
        address.prefix = mask ? count_bits(mask->sin6_addr.s6_addr, 16) : 128;
    } else {
        const struct sockaddr_in *full = (const void *)entry->ifa_addr;
        const struct sockaddr_in *mask = (const void *)entry->ifa_netmask;
        inet_ntop(AF_INET, &full->sin_addr, address.text, sizeof address.text);
        address.is_link_local = (ntohl(full->sin_addr.s_addr) >> 16) == 0xa9fe; /* 169.254/16 */
        address.prefix = mask ? count_bits((const uint8_t *)&mask->sin_addr, 4) : 32;
    }
    size_t bytes = (interface->address_count + 1) * sizeof address;
    struct machine_address *grown = realloc(interface->addresses, bytes);
    if (!grown)
        return error_memory(error, bytes, "the addresses of network interfaces");
    interface->addresses = grown;
    grown[interface->address_count++] = address;
    return WEFT_OK;
}

/* The interface of `entry`, added if it is new; NULL when out of memory. */
static struct machine_interface *find_or_add(struct machine_interface **interfaces, uint32_t *count,
                                             const struct ifaddrs *entry, int descriptor)
{
    for (uint32_t i = 0; i < *count; i++)
        if (strcmp((*interfaces)[i].name, entry->ifa_name) == 0)
            return &(*interfaces)[i];
    struct machine_interface *grown = realloc(*interfaces, (*count + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    *interfaces = grown;
    struct machine_interface *added = &grown[(*count)++];
    *added = (struct machine_interface){
        .up = (entry->ifa_flags & IFF_UP) && (entry->ifa_flags & IFF_RUNNING),
        .loopback = entry->ifa_flags & IFF_LOOPBACK,
    };
    snprintf(added->name, sizeof added->name, "%s", entry->ifa_name);
    if (descriptor >= 0) {
        added->bytes_per_second = (uint64_t)ask_megabits(descriptor, added->name) * 1000000 / 8;
        added->mtu = ask_mtu(descriptor, added->name);
        ask_driver(descriptor, added->name, added->driver);
    }
    return added;
}

static void put_loopback_last(struct machine_interface *interfaces, uint32_t count)
{
    for (uint32_t i = 0; i + 1 < count; i++) {
        if (!interfaces[i].loopback || interfaces[i + 1].loopback)
            continue;
        struct machine_interface loopback = interfaces[i];
        interfaces[i] = interfaces[i + 1];
        interfaces[i + 1] = loopback;
    }
}

weft_status interfaces_read(struct machine_interface **interfaces, uint32_t *count, struct error *error)
{
    struct ifaddrs *entries = NULL;
    struct machine_interface *found = NULL;
    uint32_t found_count = 0;
    weft_status status = WEFT_OK;
    if (getifaddrs(&entries) != 0)
        return error_system(error, "cannot list the network interfaces");
    int descriptor = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (struct ifaddrs *entry = entries; entry && status == WEFT_OK; entry = entry->ifa_next) {
        struct machine_interface *interface = find_or_add(&found, &found_count, entry, descriptor);
        if (interface)
            status = add_address(interface, entry, error);
        else
            status = error_memory(error, sizeof *interface, "the list of network interfaces");
    }
    if (descriptor >= 0)
        close(descriptor);
    freeifaddrs(entries);
    if (status != WEFT_OK) {
        interfaces_free(found, found_count);
        return status;
    }
    put_loopback_last(found, found_count);
    *interfaces = found;
    *count = found_count;
    return WEFT_OK;
}

void interfaces_free(struct machine_interface *interfaces, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        free(interfaces[i].addresses);
    free(interfaces);
}
