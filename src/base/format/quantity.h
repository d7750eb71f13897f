/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Numbers with units, as people write them in descriptions: "80 GB", "200 Gbit/s", "1.5 us", "312 TFLOP/s". Thread-safe.
 *
 * Units are those of the International System: GB is 1e9 bytes, GiB 2^30. A number without a unit is in the base unit:
 * bytes, seconds, bytes/s, operations, operations/s. The space before the unit may be missing.
 */
#ifndef WEFT_BASE_FORMAT_QUANTITY_H
#define WEFT_BASE_FORMAT_QUANTITY_H

#include "base/error.h"

enum quantity {
    QUANTITY_NUMBER,                /**< no unit */
    QUANTITY_BYTES,                 /**< B, kB, MB, GB, TB, KiB, MiB, GiB, TiB */
    QUANTITY_SECONDS,               /**< s, ms, us, ns */
    QUANTITY_BYTES_PER_SECOND,      /**< a unit of bytes and "/s", or bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s */
    QUANTITY_OPERATIONS,            /**< FLOP, kFLOP, MFLOP, GFLOP, TFLOP, PFLOP */
    QUANTITY_OPERATIONS_PER_SECOND, /**< the same and "/s" */
    QUANTITIES,
};

/**
 * Parse `text` in the base unit of `quantity`. Errors: ARGUMENT, with `what` (its name), the text and the units that
 * are known; also for a number outside [least, most].
 */
weft_status quantity_parse(const char *text, const char *what, enum quantity quantity, double least, double most,
                           double *value, struct error *error);

#define QUANTITY_TEXT_BYTES 40

/** Write `value` with the largest decimal unit that leaves at least 1: "1.6 TB/s", "2 us". Returns `buffer`. */
char *quantity_text(double value, enum quantity quantity, char buffer[QUANTITY_TEXT_BYTES]);

#endif
