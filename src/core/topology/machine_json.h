/* SPDX-License-Identifier: Apache-2.0 */
/** A machine as JSON, both ways: the output of `weft topo --json` can be loaded again. Thread-safe. */
#ifndef WEFT_CORE_TOPOLOGY_MACHINE_JSON_H
#define WEFT_CORE_TOPOLOGY_MACHINE_JSON_H

#include "base/format/json.h"
#include "core/topology/machine.h"

/** Write `machine` as an object called `key` (NULL: the outermost value). */
void machine_write(const struct machine *machine, struct json_writer *writer, const char *key);

/** Write the members of `machine` into the object that is open, so that a caller can add its own. */
void machine_write_members(const struct machine *machine, struct json_writer *writer);

/** Read an object as machine_write() wrote it. `where` names it in messages. `*machine` is the caller's. Errors: DATA.
 */
weft_status machine_read(const cJSON *object, const char *where, struct machine **machine, struct error *error);

/** Load a machine from a file: JSON of `weft topo --json`, or hwloc's XML, told apart by the first character. */
weft_status machine_load(const char *path, struct machine **machine, struct error *error);

#endif
