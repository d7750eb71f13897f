/* SPDX-License-Identifier: Apache-2.0 */
/** CRC-32C by an instruction of x86-64 processors with SSE 4.2. Thread-safe. */
#ifndef WEFT_BASE_INTERNAL_CRC32C_SSE42_H
#define WEFT_BASE_INTERNAL_CRC32C_SSE42_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool crc32c_sse42_is_usable(void);

/** The remainder after `size` more bytes, without the inversions at the beginning and the end of a CRC. */
uint32_t crc32c_sse42(uint32_t remainder, const void *bytes, size_t size);

#endif
