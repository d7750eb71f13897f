/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transport/fabric/providers.h"

#include "core/transport/fabric/internal/libfabric.h"

#include <dlfcn.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libfabric.so.1"

/*
 * Functions are looked up in the version that matches the headers of this build, as the linker would have done. Later
 * libraries keep the old versions beside their own.
 */
#if FI_MAJOR_VERSION == 1 && FI_MINOR_VERSION <= 17
#define FIND(handle, name, version) dlvsym(handle, name, version)
#else
#define FIND(handle, name, version) dlsym(handle, name)
#endif

weft_status libfabric_load(struct libfabric *library, struct error *error)
{
    /*
     * PSM 1, which libfabric loads, would handle SIGTERM, SIGINT, SIGSEGV and others, and call exit() there: a rank
     * would end with code 1, or wait forever for a lock that it holds itself.
     */
    setenv("IPATH_NO_BACKTRACE", "1", 0);
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle)
        return error_set(error, WEFT_ERROR_NETWORK,
                         "ranks on different nodes need libfabric, which cannot be loaded: %s; install libfabric1",
                         dlerror());
    *(void **)&library->getinfo = FIND(handle, "fi_getinfo", "FABRIC_1.3");
    *(void **)&library->freeinfo = FIND(handle, "fi_freeinfo", "FABRIC_1.3");
    *(void **)&library->dupinfo = FIND(handle, "fi_dupinfo", "FABRIC_1.3");
    *(void **)&library->fabric = FIND(handle, "fi_fabric", "FABRIC_1.1");
    *(void **)&library->strerror = FIND(handle, "fi_strerror", "FABRIC_1.0");
    *(void **)&library->version = FIND(handle, "fi_version", "FABRIC_1.0");
    dlclose(handle); /* it stays loaded: its providers start threads and keep pointers that they were given */
    if (library->getinfo && library->freeinfo && library->dupinfo && library->fabric && library->strerror &&
        library->version)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_NETWORK, "%s lacks functions of version %d.%d, for which Weft was built",
                     LIBRARY, FI_MAJOR_VERSION, FI_MINOR_VERSION);
}

/*
 * The best first. Other providers of libfabric are emulations, for debugging, or shared memory, for which Weft has its
 * own transport.
 */
static const char *const preference[] = {"efa", "verbs;ofi_rxm", "net", "tcp", "tcp;ofi_rxm"};
#define PREFERENCES ARRAY_SIZE(preference)

/* Copy text, shortened where it is too long. */
static void copy_name(char destination[PROVIDER_NAME_BYTES], const char *text)
{
    snprintf(destination, PROVIDER_NAME_BYTES, "%.*s", PROVIDER_NAME_BYTES - 1, text ? text : "");
}

static void providers_describe(const struct fi_info *info, struct provider *provider)
{
    *provider = (struct provider){.message_most = info->ep_attr->max_msg_size};
    copy_name(provider->name, info->fabric_attr->prov_name);
    copy_name(provider->device, info->domain_attr->name);
    copy_name(provider->network, info->fabric_attr->name);
    if (info->nic && info->nic->link_attr)
        provider->bytes_per_second = info->nic->link_attr->speed / 8;
}

/* libfabric lists a device once for every combination of attributes. */
static bool is_listed(const struct provider *providers, uint32_t count, const struct provider *wanted)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(providers[i].name, wanted->name) == 0 && strcmp(providers[i].device, wanted->device) == 0 &&
            strcmp(providers[i].network, wanted->network) == 0)
            return true;
    return false;
}

weft_status providers_list(struct provider **providers, uint32_t *count, struct error *error)
{
    struct libfabric library;
    struct fi_info *answers = NULL;
    uint32_t most = 0, found = 0;
    weft_status status = libfabric_load(&library, error);
    if (status != WEFT_OK)
        return status;
    struct fi_info *hints = library.dupinfo(NULL);
    if (!hints)
        return error_memory(error, sizeof *hints, "a query to libfabric");
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT | FI_MR_HMEM;
    int result = library.getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &answers);
    library.freeinfo(hints);
    if (result != 0 && result != -FI_ENODATA)
        return error_set(error, WEFT_ERROR_NETWORK, "libfabric cannot list its providers: %s",
                         library.strerror(-result));
    for (const struct fi_info *info = answers; info; info = info->next)
        most++;
    struct provider *list = calloc(most ? most : 1, sizeof *list);
    if (!list) {
        library.freeinfo(answers);
        return error_memory(error, most * sizeof *list, "the list of network providers");
    }
    for (size_t i = 0; i < PREFERENCES; i++) {
        for (const struct fi_info *info = answers; info; info = info->next) {
            if (strcmp(info->fabric_attr->prov_name, preference[i]) != 0)
                continue;
            providers_describe(info, &list[found]);
            if (!is_listed(list, found, &list[found]))
                found++;
        }
    }
    library.freeinfo(answers);
    *providers = list;
    *count = found;
    return WEFT_OK;
}

char *providers_version(char *buffer, size_t size)
{
    struct libfabric library;
    if (libfabric_load(&library, NULL) == WEFT_OK)
        snprintf(buffer, size, "%u.%u", FI_MAJOR(library.version()), FI_MINOR(library.version()));
    else
        snprintf(buffer, size, "none");
    return buffer;
}
