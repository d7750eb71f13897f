/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Several members of a JSON object in one statement.
 *
 *     JSON_PUT(&line, "user", user->name, "administrator", user->admin, "created", json_time(user->created));
 *
 * The C type of a value chooses the JSON type: char pointers and arrays are strings (NULL becomes null), bool is true
 * or false, double and float are numbers, uint64_t is as json_put_unsigned() writes it, and other integers are numbers.
 * In C11 a comparison and the constants true and false are ints: cast them to bool.
 */
#ifndef WEFT_BASE_FORMAT_JSON_PUT_H
#define WEFT_BASE_FORMAT_JSON_PUT_H

#include "base/format/json.h"
#include "base/macro.h"

/** Put pairs of a key and a value, in their order. */
#define JSON_PUT(writer, ...) (MACRO_REPEAT(JSON_PUT_PAIRS(writer, __VA_ARGS__)))

/** Put them as an object under `key`. */
#define JSON_PUT_OBJECT(writer, key, ...)                                                                              \
    (json_open_object(writer, key), JSON_PUT(writer, __VA_ARGS__), json_close(writer))

/** Print them as an object on a line of its own. The result is the status of json_print(). */
#define JSON_PRINT(output, error, ...)                                                                                 \
    __extension__({                                                                                                    \
        struct json_writer json_line;                                                                                  \
        json_begin_line(&json_line);                                                                                   \
        JSON_PUT(&json_line, __VA_ARGS__);                                                                             \
        json_complete(&json_line, output, error);                                                                      \
    })

/** An integer that may be unknown: then the member is null. */
struct json_optional {
    bool known;
    int64_t value;
};

static inline struct json_optional json_known(bool known, int64_t value)
{
    return (struct json_optional){known, value};
}

/** A time in milliseconds since 1970; 0 (not yet) becomes null. */
static inline struct json_optional json_time(int64_t milliseconds)
{
    return json_known(milliseconds != 0, milliseconds);
}

static inline void json_put_optional(struct json_writer *writer, const char *key, struct json_optional optional)
{
    if (optional.known)
        json_put_integer(writer, key, optional.value);
    else
        json_put_text(writer, key, NULL);
}

/* ---- what the macros expand to ---- */

/* clang-format off */
#define JSON_PUT_PAIR(w, k, v) _Generic((v), char *: json_put_text, const char *: json_put_text, bool: json_put_bool, \
    double: json_put_number, float: json_put_number, uint64_t: json_put_unsigned, struct json_optional: json_put_optional, \
    default: json_put_integer)(w, k, v)
#define JSON_PUT_PAIRS(w, k, v, ...) JSON_PUT_PAIR(w, k, v) __VA_OPT__(, JSON_PUT_MORE MACRO_PARENTHESES (w, __VA_ARGS__))
#define JSON_PUT_MORE() JSON_PUT_PAIRS
/* clang-format on */

#endif
