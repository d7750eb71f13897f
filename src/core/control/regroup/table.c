/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/regroup/internal/table.h"

#include <stdlib.h>
#include <string.h>

/* ---- who is in it ---- */

bool regroup_waits_here(struct regroup *regroup, uint32_t rank)
{
    return regroup->peers[rank].waiting && regroup_connection_to(regroup, rank);
}

/* Ranks that leave have what the others need after a loss: their own part of a state, copies of a lost one. */
static bool regroup_lacks_members(const struct regroup *regroup)
{
    for (uint32_t r = 0; r < regroup->ranks; r++)
        if (r != regroup->rank && regroup->peers[r].member && !regroup_peer_has_joined(regroup, r))
            return true;
    return false;
}

bool regroup_releases(const struct regroup *regroup, uint32_t rank)
{
    return rank != regroup->rank && regroup->peers[rank].leaving && regroup_peer_has_joined(regroup, rank) &&
           !regroup_lacks_members(regroup);
}

bool regroup_takes(struct regroup *regroup, uint32_t rank)
{
    return rank == regroup->rank || regroup_waits_here(regroup, rank) ||
           (regroup_peer_has_joined(regroup, rank) && !regroup_releases(regroup, rank));
}

/* ---- writing and reading ---- */

void regroup_write_table(struct regroup *regroup, const uint8_t draw[SECRET_BYTES], struct buffer *table)
{
    uint32_t count = 0, number = 0, released = 0;
    for (uint32_t r = 0; r < regroup->ranks; r++) {
        count += regroup_takes(regroup, r);
        released += regroup_releases(regroup, r);
    }
    buffer_put_u32(table, regroup->epoch + 1);
    buffer_put_u32(table, count);
    buffer_put(table, draw, SECRET_BYTES);
    for (uint32_t r = 0; r < regroup->ranks; r++)
        if (regroup_takes(regroup, r))
            buffer_put_u32(table, r);
    for (uint32_t r = 0; r < regroup->ranks; r++) {
        if (!regroup_takes(regroup, r))
            continue;
        struct endpoint_info endpoint = r == regroup->rank ? regroup->endpoint : regroup->peers[r].endpoint;
        endpoint.rank = number++;
        buffer_put(table, &endpoint, sizeof endpoint);
    }
    for (uint32_t r = 0; r < regroup->ranks; r++)
        if (regroup_takes(regroup, r))
            buffer_put(table, &regroup->endpoints[r], sizeof regroup->endpoints[r]);
    buffer_put_u32(table, released);
    for (uint32_t r = 0; r < regroup->ranks; r++)
        if (regroup_releases(regroup, r))
            buffer_put_u32(table, r);
}

bool regroup_read_table(const uint8_t *bytes, size_t size, struct regroup_layout *table)
{
    struct reader reader = {bytes, size, false};
    table->epoch = reader_u32(&reader);
    table->count = reader_u32(&reader);
    if (table->count > REGROUP_RANKS_MOST)
        return false;
    table->draw = reader_bytes(&reader, SECRET_BYTES);
    table->first = reader_bytes(&reader, (size_t)table->count * 4);
    table->endpoints = reader_bytes(&reader, table->count * sizeof(struct endpoint_info));
    table->listeners = reader_bytes(&reader, table->count * sizeof(struct endpoint_info));
    table->released_count = reader_u32(&reader);
    if (reader.bad || table->released_count > REGROUP_RANKS_MOST)
        return false;
    table->released = reader_bytes(&reader, (size_t)table->released_count * 4);
    if (reader.bad)
        return false;
    struct reader ranks = {table->first, (size_t)table->count * 4, false};
    table->ranks = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        const uint32_t rank = reader_u32(&ranks);
        if (rank >= REGROUP_RANKS_MOST || rank < table->ranks)
            return false;
        table->ranks = rank + 1;
    }
    return true;
}

void regroup_take_members(struct regroup *regroup, const struct regroup_layout *table)
{
    for (uint32_t r = 0; r < regroup->ranks; r++)
        regroup->peers[r].member = false;
    struct reader ranks = {table->first, (size_t)table->count * 4, false};
    for (uint32_t i = 0; i < table->count; i++) {
        const uint32_t rank = reader_u32(&ranks);
        regroup->peers[rank].member = true;
        regroup->peers[rank].waiting = false;
        memcpy(&regroup->endpoints[rank], table->listeners + i * sizeof(struct endpoint_info),
               sizeof(struct endpoint_info));
        endpoint_info_end_texts(&regroup->endpoints[rank]);
    }
}

bool regroup_lists(const uint8_t *bytes, uint32_t count, uint32_t rank)
{
    struct reader ranks = {bytes, (size_t)count * 4, false};
    bool found = false;
    for (uint32_t i = 0; i < count; i++)
        found |= reader_u32(&ranks) == rank;
    return found;
}

/* ---- the result ---- */

void regroup_table_free(struct regroup_table *table)
{
    free(table->endpoints);
    free(table->first);
    free(table->released);
    *table = (struct regroup_table){0};
}

weft_status regroup_result_read(const struct regroup *regroup, struct regroup_table *table, struct error *error)
{
    struct regroup_layout read;
    if (!regroup_read_table(buffer_begin(&regroup->table), buffer_size(&regroup->table), &read))
        return error_set(error, WEFT_ERROR_DATA, "the table of the surviving ranks is not well formed");
    const uint32_t count = read.count;
    struct regroup_table made = {.epoch = read.epoch, .ranks = count};
    made.endpoints = malloc(count * sizeof *made.endpoints);
    made.first = malloc(count * sizeof *made.first);
    made.released = malloc((read.released_count + (size_t)1) * sizeof *made.released);
    if (!made.endpoints || !made.first || !made.released) {
        regroup_table_free(&made);
        return error_memory(error, count * sizeof *made.endpoints, "the endpoint info of the surviving ranks");
    }
    memcpy(made.endpoints, read.endpoints, count * sizeof *made.endpoints);
    for (uint32_t i = 0; i < count; i++) {
        endpoint_info_end_texts(&made.endpoints[i]);
        made.endpoints[i].rank = i;
    }
    struct reader ranks = {read.first, (size_t)count * 4, false};
    for (uint32_t i = 0; i < count; i++) {
        made.first[i] = reader_u32(&ranks);
        if (made.first[i] == regroup->rank)
            made.rank = i;
    }
    struct reader released = {read.released, (size_t)read.released_count * 4, false};
    for (made.released_count = 0; made.released_count < read.released_count; made.released_count++)
        made.leaves |= (made.released[made.released_count] = reader_u32(&released)) == regroup->rank;
    (void)secret_sign(regroup->secret, read.draw, SECRET_BYTES, made.secret);
    *table = made;
    return WEFT_OK;
}
