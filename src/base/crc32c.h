/* SPDX-License-Identifier: Apache-2.0 */
/** CRC-32C: what the records of TensorBoard's event files are checked by. For accidents, not against people.
 * Thread-safe. */
#ifndef WEFT_BASE_CRC32C_H
#define WEFT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/** CRC-32C (Castagnoli; RFC 3720, appendix B.4) of `size` bytes. */
uint32_t crc32c(const void *bytes, size_t size);

/**
 * The same, turned and moved, as TFRecords have it (tensorflow/core/lib/hash/crc32c.h): the CRC of bytes that contain
 * CRCs would be weak.
 */
uint32_t crc32c_masked(const void *bytes, size_t size);

#endif
