/* SPDX-License-Identifier: Apache-2.0 */
/** Reading and writing numbers and names as people write them. Thread-safe. */
#ifndef WEFT_BASE_TEXT_H
#define WEFT_BASE_TEXT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Parse a whole number of bytes: "4096", "64K", "16M", "1G" (powers of 1024; "KiB" and "KB" too). `what` names it in
 * the message. */
weft_status text_parse_bytes(const char *text, const char *what, uint64_t *bytes, struct error *error);

/** Parse a whole number in [least, most]; nothing may follow it. */
weft_status text_parse_integer(const char *text, const char *what, int64_t least, int64_t most, int64_t *number,
                               struct error *error);

/** Parse a finite number in [least, most]; nothing may follow it. */
weft_status text_parse_number(const char *text, const char *what, double least, double most, double *number,
                              struct error *error);

/**
 * Parse a duration of whole seconds, above 0 and at most 100 years: "90s", "30m" ("30min"), "6h", "1.5h", "2d", "1w",
 * or several, the larger unit first: "1d12h". A number without a unit is refused, because people mean different ones.
 */
weft_status text_parse_duration(const char *text, const char *what, int64_t *seconds, struct error *error);

/** Write `seconds` exactly, as text_parse_duration() reads it ("1d12h", "90s" is "1m30s", 0 is "0s"). Returns `buffer`.
 */
char *text_duration(int64_t seconds, char *buffer, size_t size);

/**
 * Make `text` safe to print and to put into JSON, in place: each byte of a control character and of invalid UTF-8
 * becomes '?'. Control characters are C0, C1 and DEL, line and paragraph separators (U+2028, U+2029), and characters
 * that reorder text or cannot be seen: U+061C, U+200B to U+200F, U+202A to U+202E, U+2060 to U+206F, U+FEFF, U+FFF9 to
 * U+FFFB and U+E0000 to U+E007F. Other invisible characters, which some scripts need, stay: the joiners U+200C and
 * U+200D, fillers, the soft hyphen. For untrusted text. Returns `text`.
 */
char *text_printable(char *text);

/** The same for a name: invisible characters are replaced, too. */
char *text_printable_name(char *text);

/**
 * Whether text_printable_name() (with `lines`: text_printable()) would leave `text` unchanged. With `lines`, line ends
 * and tabs are allowed.
 */
bool text_is_printable(const char *text, bool lines);

/** Whether the last characters of `text` are those of `ending`. */
bool text_ends_in(const char *text, const char *ending);

#define TEXT_CODE_BYTES 16

/**
 * The first character for which text_is_printable() is false, as "U+202E", or "byte 0xFF" where it is not UTF-8; "" if
 * there is none. For messages. Returns `code`.
 */
char *text_unprintable_code(const char *text, bool lines, char code[TEXT_CODE_BYTES]);

/**
 * The one of `count` names nearest to `text` in edit distance, or NULL if none is closer than half of its letters.
 */
const char *text_nearest(const char *text, const char *const *names, size_t count);

/**
 * Compare strings of given sizes in natural order: negative, 0 or positive. Consecutive digits are a number, so that
 * host-2 comes before host-10.
 */
int text_compare_natural(const char *one, size_t one_size, const char *other, size_t other_size);

/** Write `bytes` as people read it ("4 KiB", "1.5 MiB"); returns `buffer`. */
char *text_bytes(uint64_t bytes, char *buffer, size_t size);

/** Write a duration as people read it ("3.2 us", "41 ms", "8.1 s", "12 min", "3 h"); returns `buffer`. */
char *text_seconds(double seconds, char *buffer, size_t size);

/**
 * Write a remaining time, to the second below an hour ("45s", "3m45s", "2h05m", "3d04h"); returns `buffer`. Negative is
 * 0.
 */
char *text_time_left(double seconds, char *buffer, size_t size);

#define TEXT_NUMBER_BYTES 32

/**
 * Write a number in the fewest of 6, 9, 15 or 17 digits that read back as the same double; "nan", "inf", "-inf";
 * returns `buffer`.
 */
char *text_number(double value, char buffer[TEXT_NUMBER_BYTES]);

/**
 * The same, but whole numbers below 2^53 have all their digits: "25000000000", where text_number() writes "2.5e+10".
 */
char *text_number_exact(double value, char buffer[TEXT_NUMBER_BYTES]);

#endif
