/* SPDX-License-Identifier: Apache-2.0 */
/** `weft inspect DIR`: the events of a job (launch/job_directory.h) as a table, and a summary. */
#ifndef WEFT_CLI_UNDERSTAND_INSPECT_EVENTS_H
#define WEFT_CLI_UNDERSTAND_INSPECT_EVENTS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdio.h>

/**
 * Print the events of the last job in `directory`; as JSON, its lines as they are. A line that is not whole, because the
 * job or the machine died while it was written, is left out. Errors: ARGUMENT, SYSTEM if they cannot be read; MEMORY.
 */
weft_status inspect_events_print(const char *directory, bool as_json, FILE *output, struct error *error);

#endif
