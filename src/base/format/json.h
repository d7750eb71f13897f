/* SPDX-License-Identifier: Apache-2.0 */
/**
 * JSON, read through cJSON and written by a small builder, the only writer of JSON in the program.
 *
 * Reading: json_parse() gives a cJSON tree. The getters below take a key out of an object and check its kind and range;
 * their messages name the key and the file. `where` names the object for that message ("manifest.json", "peer's
 * hello").
 *
 * Writing: struct json_writer appends values to a growing text, one line (JSON lines) or indented. Unlike cJSON's
 * printing it keeps all 64 bits of an integer and the order of keys, and needs no tree.
 *
 *     struct json_writer line;
 *     json_begin_line(&line);
 *     json_put_integer(&line, "step", 12);
 *     json_put_number(&line, "loss", 3.25);
 *     json_complete(&line, stdout, error); // {"step":12,"loss":3.25}
 *
 * Thread-safe; a struct or tree belongs to one thread at a time.
 */
#ifndef WEFT_BASE_FORMAT_JSON_H
#define WEFT_BASE_FORMAT_JSON_H

#include "base/buffer.h"
#include "base/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- reading ---- */

/** The largest integer below which a JSON number (a double) is exact. */
#define JSON_EXACT ((int64_t)1 << 53)

/**
 * Parse `size` bytes that are one JSON value followed by whitespace only; cJSON_Delete() frees `*root`. A string with a
 * NUL character ("\\u0000") is refused, because a C string would end there.
 */
weft_status json_parse(const char *text, size_t size, const char *where, cJSON **root, struct error *error);

/** Read and parse the file at `path`, at most 64 MiB. */
weft_status json_read(const char *path, cJSON **root, struct error *error);

/** The value of `key`, which must exist and have the kind that the function's name gives. Errors: DATA. */
weft_status json_get_object(const cJSON *object, const char *key, const char *where, const cJSON **value,
                            struct error *error);
weft_status json_get_array(const cJSON *object, const char *key, const char *where, const cJSON **value,
                           struct error *error);
weft_status json_get_bool(const cJSON *object, const char *key, const char *where, bool *value, struct error *error);
weft_status json_get_number(const cJSON *object, const char *key, const char *where, double *value,
                            struct error *error);

/** The string points into the tree and lives as long as that. */
weft_status json_get_text(const cJSON *object, const char *key, const char *where, const char **value,
                          struct error *error);

/** A whole number in [least, most]; both must lie within +-JSON_EXACT. */
weft_status json_get_integer(const cJSON *object, const char *key, const char *where, int64_t least, int64_t most,
                             int64_t *value, struct error *error);

/** Any uint64_t: a number up to JSON_EXACT or a string of decimal digits, as json_put_unsigned() writes it. */
weft_status json_get_unsigned(const cJSON *object, const char *key, const char *where, uint64_t *value,
                              struct error *error);

/* ---- writing ---- */

enum json_layout {
    JSON_LINE,     /**< no whitespace at all */
    JSON_INDENTED, /**< one value per line, two spaces per level */
};

#define JSON_DEPTH 32 /**< maximum nesting of objects and arrays */

struct json_writer {
    struct buffer text; /**< a NUL follows; `failed` if memory ran out or levels are too deep */
    enum json_layout layout;
    int depth;
    char closing[JSON_DEPTH]; /**< the bracket that ends each open level */
    bool empty[JSON_DEPTH];   /**< that level is still empty */
};

/** Start an empty text. */
void json_begin(struct json_writer *writer, enum json_layout layout);

/** Start a line that is an object: JSON_LINE with the outermost object open. */
void json_begin_line(struct json_writer *writer);

/** Start an empty text again, in the memory of the one before. A zeroed writer starts as JSON_LINE. */
void json_restart(struct json_writer *writer);

/** Free the text. */
void json_end(struct json_writer *writer);

/** The text written so far, without a final newline; valid until the next call on `writer`. NULL if memory ran out. */
const char *json_text(const struct json_writer *writer);

/** The length of that text. */
static inline size_t json_size(const struct json_writer *writer)
{
    return buffer_size(&writer->text);
}

/**
 * Print the text written so far and a newline. Errors: MEMORY if memory ran out on the way, SYSTEM if writing fails.
 */
weft_status json_print(const struct json_writer *writer, FILE *output, struct error *error);

/**
 * Close all open levels, print the text and a newline, and free the text, whatever happens. Errors: of json_print().
 */
weft_status json_complete(struct json_writer *writer, FILE *output, struct error *error);

/** Open a level, close the innermost one. `key` is NULL for the outermost value and inside arrays; so below. */
void json_open_object(struct json_writer *writer, const char *key);
void json_open_array(struct json_writer *writer, const char *key);
void json_close(struct json_writer *writer);

/** A value that is written as JSON already. */
void json_put_raw(struct json_writer *writer, const char *key, const char *value);

void json_put_text(struct json_writer *writer, const char *key, const char *value); /**< NULL becomes null */
void json_put_bool(struct json_writer *writer, const char *key, bool value);
void json_put_integer(struct json_writer *writer, const char *key, int64_t value);

/** A time in seconds, to the microsecond: 1700000000.250000. */
void json_put_microseconds(struct json_writer *writer, const char *key, uint64_t microseconds);

/** The shortest of 6, 9, 15 or 17 digits that reads back to the same double; not finite: null. */
void json_put_number(struct json_writer *writer, const char *key, double value);

/** A number up to JSON_EXACT, above it a string of digits, so that every reader gets all the bits. */
void json_put_unsigned(struct json_writer *writer, const char *key, uint64_t value);

/** A cJSON tree, whole; NULL becomes null. */
void json_put_tree(struct json_writer *writer, const char *key, const cJSON *tree);

#endif
