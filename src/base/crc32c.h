/* SPDX-License-Identifier: Apache-2.0 */
/** CRC-32C, the checksum of messages and of TensorBoard's event files. It detects accidents, not attacks. Thread-safe. */
#ifndef WEFT_BASE_CRC32C_H
#define WEFT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/** CRC-32C (Castagnoli; RFC 3720, appendix B.4) of `size` bytes. */
uint32_t crc32c(const void *bytes, size_t size);

/** The CRC-32C of bytes whose first part has the CRC-32C `crc` (0: it is empty), and whose rest is these. */
uint32_t crc32c_extend(uint32_t crc, const void *bytes, size_t size);

/** The same without special instructions: the reference for tests. */
uint32_t crc32c_plain(uint32_t crc, const void *bytes, size_t size);

/**
 * The same, masked as in TFRecords (tensorflow/core/lib/hash/crc32c.h), because the CRC of data that contains CRCs is
 * weak.
 */
uint32_t crc32c_masked(const void *bytes, size_t size);

#endif
