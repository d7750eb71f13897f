/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory.
 *
 * Where the provider does not need pages to exist (net, tcp), the heap is registered once as a whole, which touches no
 * page. Where it does (verbs, efa: FI_MR_ALLOCATED), pieces of HEAP_PIECE bytes are registered when they are first
 * used, and stay registered: heap memory stays mapped for life. Foreign memory may be unmapped by its owner at any
 * time, so a registration that the user did not ask for lives as long as one transfer.
 */
#include "core/transport/fabric/internal/state.h"

#include <stdlib.h>
#include <sys/random.h>

#define HEAP_PIECE ((uint64_t)4 << 20)

/** A key that cannot be guessed; drawn from the system several at a time. */
static weft_status key_draw(struct fabric *fabric, const struct rail *rail, uint64_t *key, struct error *error)
{
    if (!fabric->key_count) {
        if (getrandom(fabric->keys, sizeof fabric->keys, 0) != (ssize_t)sizeof fabric->keys)
            return error_system(error, "%s: cannot draw random keys", fabric->name);
        fabric->key_count = ARRAY_SIZE(fabric->keys);
    }
    *key = fabric->keys[--fabric->key_count];
    size_t bytes = rail->info->domain_attr->mr_key_size;
    if (bytes < sizeof *key)
        *key &= ((uint64_t)1 << 8 * bytes) - 1;
    return WEFT_OK;
}

/** Register the region on one rail. */
static weft_status region_open_rail(struct fabric *fabric, struct fabric_region *region, uint32_t number,
                                    struct error *error)
{
    const uint64_t access = FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE;
    struct rail *rail = &fabric->rails[number];
    struct fid_mr **memory = &region->rail[number].memory;
    int status;
    do {
        uint64_t key = 0;
        weft_status drawn = fabric->mr_mode & FI_MR_PROV_KEY ? WEFT_OK : key_draw(fabric, rail, &key, error);
        if (drawn != WEFT_OK)
            return drawn;
        status = fi_mr_reg(rail->domain, region->base, region->bytes, access, 0, key, 0, memory, NULL);
    } while (status == -FI_ENOKEY && !(fabric->mr_mode & FI_MR_PROV_KEY)); /* drawn before: once in 2^64 */
    if (status != 0)
        *memory = NULL;

    if (status == 0 && fabric->mr_mode & FI_MR_ENDPOINT) {
        status = fi_mr_bind(*memory, &rail->bulk->fid, 0);
        if (status == 0)
            status = fi_mr_enable(*memory);
    }
    if (status != 0)
        return error_set(
            error, WEFT_ERROR_NETWORK,
            "%s cannot register %llu bytes of memory on %s: %s; a limit on locked memory (ulimit -l) may be too low",
            fabric->name, (unsigned long long)region->bytes, rail->interface, fabric->library.strerror(-status));
    region->rail[number].key = fi_mr_key(*memory);
    region->rail[number].descriptor = fabric->mr_mode & FI_MR_LOCAL ? fi_mr_desc(*memory) : NULL;
    return WEFT_OK;
}

weft_status region_open(struct fabric *fabric, void *base, uint64_t bytes, struct fabric_region **result,
                        struct error *error)
{
    struct fabric_region *region = fabric->spare_regions;
    if (region)
        fabric->spare_regions = region->next;
    else if (!(region = malloc(sizeof *region)))
        return error_memory(error, sizeof *region, "a memory region");
    *region = (struct fabric_region){.base = base, .bytes = bytes};
    for (uint32_t i = 0; i < fabric->rail_count; i++) {
        weft_status status = region_open_rail(fabric, region, i, error);
        if (status == WEFT_OK)
            continue;
        region_close(fabric, region);
        return status;
    }
    *result = region;
    return WEFT_OK;
}

void region_close(struct fabric *fabric, struct fabric_region *region)
{
    for (uint32_t i = 0; i < fabric->rail_count; i++)
        if (region->rail[i].memory)
            fi_close(&region->rail[i].memory->fid);
    region->next = fabric->spare_regions;
    fabric->spare_regions = region;
}

static bool region_holds(const struct fabric_region *region, const void *pointer, uint64_t bytes)
{
    uint64_t offset = (uint64_t)((uintptr_t)pointer - (uintptr_t)region->base);
    return offset <= region->bytes && bytes <= region->bytes - offset;
}

static void region_keep(struct fabric *fabric, struct fabric_region *region)
{
    region->next = fabric->regions;
    fabric->regions = region;
}

weft_status region_find(struct fabric *fabric, void *pointer, uint64_t bytes, struct fabric_region **result,
                        struct error *error)
{
    for (struct fabric_region *region = fabric->regions; region; region = region->next) {
        if (region_holds(region, pointer, bytes)) {
            *result = region;
            return WEFT_OK;
        }
    }
    uint64_t offset = fabric->heap ? heap_offset(fabric->heap, pointer, bytes) : HEAP_NOWHERE;
    weft_status status;
    if (offset == HEAP_NOWHERE) {
        status = region_open(fabric, pointer, bytes, result, error);
        if (status == WEFT_OK)
            (*result)->temporary = true;
        return status;
    }
    uint64_t first = offset & ~(HEAP_PIECE - 1);
    uint64_t last = (offset + bytes + HEAP_PIECE - 1) & ~(HEAP_PIECE - 1);
    if (last > heap_size(fabric->heap))
        last = heap_size(fabric->heap);
    status = region_open(fabric, heap_base(fabric->heap) + first, last - first, result, error);
    if (status == WEFT_OK)
        region_keep(fabric, *result);
    return status;
}

void region_release(struct fabric *fabric, struct fabric_region *region)
{
    if (region && region->temporary)
        region_close(fabric, region);
}

weft_status fabric_memory_open(struct fabric *fabric, struct error *error)
{
    if (!fabric->heap || fabric->mr_mode & FI_MR_ALLOCATED)
        return WEFT_OK;
    struct fabric_region *region = NULL;
    weft_status status = region_open(fabric, heap_base(fabric->heap), heap_size(fabric->heap), &region, error);
    if (status == WEFT_OK)
        region_keep(fabric, region);
    return status;
}

void fabric_memory_close(struct fabric *fabric)
{
    while (fabric->regions) {
        struct fabric_region *region = fabric->regions;
        fabric->regions = region->next;
        region_close(fabric, region);
    }
    while (fabric->spare_regions) {
        struct fabric_region *region = fabric->spare_regions;
        fabric->spare_regions = region->next;
        free(region);
    }
}

weft_status fabric_register(struct fabric *fabric, void *pointer, uint64_t bytes, struct error *error)
{
    if (!pointer || !bytes)
        return error_set(error, WEFT_ERROR_ARGUMENT, "cannot register %llu bytes at %p with the network",
                         (unsigned long long)bytes, pointer);
    struct fabric_region *region = NULL;
    weft_status status = region_open(fabric, pointer, bytes, &region, error);
    if (status == WEFT_OK)
        region_keep(fabric, region);
    return status;
}

weft_status fabric_deregister(struct fabric *fabric, void *pointer, struct error *error)
{
    for (struct fabric_region **place = &fabric->regions; *place; place = &(*place)->next) {
        struct fabric_region *region = *place;
        if (region->base != pointer)
            continue;
        *place = region->next;
        region_close(fabric, region);
        return WEFT_OK;
    }
    return error_set(error, WEFT_ERROR_ARGUMENT, "memory at %p is not registered with the network", pointer);
}
