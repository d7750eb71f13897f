/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Space left in a limited address space (ulimit -v, RLIMIT_AS). For libraries that abort the process when it runs out:
 * check before calling them. Thread-safe.
 */
#ifndef WEFT_BASE_FILE_ADDRESS_SPACE_H
#define WEFT_BASE_FILE_ADDRESS_SPACE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/** Whether it is limited. */
bool address_space_is_limited(void);

/**
 * Whether `bytes` more can be mapped for `what` ("a matrix product"). Costs a system call where there is no limit, and
 * some microseconds where there is one. Errors: MEMORY, with the limit and what is left of it.
 */
weft_status address_space_check(uint64_t bytes, const char *what, struct error *error);

#endif
