/* SPDX-License-Identifier: Apache-2.0 */
/** What PMI-1 and PMI-2 share: the descriptor in PMI_FD, numbers in the environment, and "key=value" fields. */
#ifndef WEFT_CONTROL_PMI_WIRE_H
#define WEFT_CONTROL_PMI_WIRE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PMI_MESSAGE_BYTES 4096

/** PMI_FD, PMI_RANK and PMI_SIZE. Errors: RENDEZVOUS when one is missing or no number. */
weft_status pmi_environment(int *descriptor, uint32_t *rank, uint32_t *ranks, struct error *error);

/** Write all of `size` bytes. */
weft_status pmi_write(int descriptor, const char *bytes, size_t size, struct error *error);

/** Read exactly `size` bytes, at most `limit_seconds` after the call. Errors: TIMEOUT, RENDEZVOUS. */
weft_status pmi_read(int descriptor, char *bytes, size_t size, double limit_seconds, struct error *error);

/** The value of field `name` in "name=value name=value", fields ended by `separator` (or the text's end). False: absent
 * or too long. */
bool pmi_field(const char *message, const char *name, char separator, char *value, size_t room);

#endif
