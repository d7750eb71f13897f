/* SPDX-License-Identifier: Apache-2.0 */
/** Where things are in a store of snapshots (snapshot.h): for those who write there and those who read. */
#ifndef WEFT_PLATFORM_SNAPSHOT_STORE_H
#define WEFT_PLATFORM_SNAPSHOT_STORE_H

#include "base/file.h"

/** Where in `store` what begins with `hash` is: with `name`, usually the rest of the hash; with NULL the folder. */
weft_status snapshot_object_path(char path[FILE_PATH_BYTES], const char *store, const char *hash, const char *name,
                                 struct error *error);

#endif
