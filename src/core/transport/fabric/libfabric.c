/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transport/fabric/internal/libfabric.h"

#include <dlfcn.h>

#define LIBRARY "libfabric.so.1"

/*
 * A function is taken in the version whose structs are those of the headers that this was built with, as the linker
 * would have done: later libraries keep it beside their own.
 */
#if FI_MAJOR_VERSION == 1 && FI_MINOR_VERSION <= 17
#define FIND(handle, name, version) dlvsym(handle, name, version)
#else
#define FIND(handle, name, version) dlsym(handle, name)
#endif

weft_status libfabric_load(struct libfabric *library, struct error *error)
{
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
    dlclose(handle); /* it stays: its providers start threads and keep what they were given */
    if (library->getinfo && library->freeinfo && library->dupinfo && library->fabric && library->strerror &&
        library->version)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_NETWORK, "%s lacks functions of version %d.%d, for which Weft was built",
                     LIBRARY, FI_MAJOR_VERSION, FI_MINOR_VERSION);
}
