/* SPDX-License-Identifier: Apache-2.0 */
/** Ranks on nodes, as commands that look at plans describe them: "--ranks 8 --nodes 2". */
#ifndef WEFT_CLI_PLACEMENT_H
#define WEFT_CLI_PLACEMENT_H

#include "base/error.h"

#include <stdint.h>

/**
 * Put `ranks` ranks on `nodes` nodes in runs of (nearly) equal length: (*placed)[r] is the node of rank r. The array is
 * the caller's to free. Errors: ARGUMENT when there are more nodes than ranks.
 */
weft_status placement_of(uint32_t ranks, uint32_t nodes, uint32_t **placed, struct error *error);

#endif
