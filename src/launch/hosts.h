/* SPDX-License-Identifier: Apache-2.0 */
/** The hosts of a job and their numbers of ranks. Thread-safe. */
#ifndef WEFT_LAUNCH_HOSTS_H
#define WEFT_LAUNCH_HOSTS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define HOST_NAME_BYTES 256

struct host {
    char name[HOST_NAME_BYTES]; /**< as the remote-shell agent understands it; "localhost" needs no agent */
    uint32_t ranks;             /**< to start at the beginning */
    uint32_t first;             /**< number of its first rank */
    uint32_t slots;             /**< ranks that it may run at a time: `ranks`, or more if its number was larger */
};

struct host_list {
    struct host *hosts;
    uint32_t count;
    uint32_t ranks; /**< all together */
};

/** Which slots are kept that the job does not begin with. */
enum host_spares {
    HOSTS_WITHOUT_SPARES,
    HOSTS_FOR_REPLACEMENTS, /**< hosts with a number; never more slots on a host than the job has ranks */
    HOSTS_FOR_GROWTH,       /**< all of them */
};

/**
 * Read "name[:ranks],name[:ranks]..." (`list`) or the file `path` (a host a line: "name", "name:ranks", "name
 * slots=ranks"; # begins a comment); both NULL: this machine alone. `ranks` is the total number to start. If it is 0,
 * hosts without a number run one rank each. Otherwise hosts are filled in order, and those without a number share the
 * rest evenly, the first ones one more. Hosts that get no rank are dropped, unless `spares` keeps those with a
 * number. Errors: ARGUMENT, DATA. hosts_free() frees the list.
 */
weft_status hosts_read(const char *list, const char *path, uint32_t ranks, enum host_spares spares,
                       struct host_list *hosts, struct error *error);
void hosts_free(struct host_list *hosts);

/** The same for text like that of such a file, from `where`; a host without a number has one slot. */
weft_status hosts_read_text(const char *text, const char *where, uint32_t ranks, enum host_spares spares,
                            struct host_list *hosts, struct error *error);

/** The host that runs `rank`, which must be less than `hosts->ranks`. */
const struct host *hosts_of_rank(const struct host_list *hosts, uint32_t rank);

#endif
