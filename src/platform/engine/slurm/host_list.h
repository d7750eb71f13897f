/* SPDX-License-Identifier: Apache-2.0 */
/** Slurm's lists of host names, written short: "n[1-4,7],rack[01-02]-gpu[0-7],login". Thread-safe. */
#ifndef WEFT_PLATFORM_ENGINE_SLURM_HOST_LIST_H
#define WEFT_PLATFORM_ENGINE_SLURM_HOST_LIST_H

#include "base/string_list.h"

#define SLURM_HOSTS_MOST 65536 /**< Slurm's own limit of nodes */

/**
 * Append the names in `text` to `names`, in its order. Numbers keep their leading zeros: "[08-10]" is 08, 09, 10. With
 * several brackets the last one varies fastest. "", "(null)" and "None" have no names.
 *
 * Errors: DATA, with the text, if it is not such a list or has more than SLURM_HOSTS_MOST names; then `names` is as
 * before. MEMORY.
 */
weft_status slurm_host_list(const char *text, struct string_list *names, struct error *error);

#endif
