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

/** Put 1 to 16 pairs of a key and a value, in their order. */
#define JSON_PUT(writer, ...) JSON_PUT_CHOOSE(__VA_ARGS__)(writer, __VA_ARGS__)

/** A time in milliseconds since 1970 as a value; 0 (not yet) becomes null. */
struct json_time {
    int64_t milliseconds;
};

static inline struct json_time json_time(int64_t milliseconds)
{
    return (struct json_time){milliseconds};
}

static inline void json_put_json_time(struct json_writer *writer, const char *key, struct json_time time)
{
    if (time.milliseconds)
        json_put_integer(writer, key, time.milliseconds);
    else
        json_put_tree(writer, key, NULL);
}

/* clang-format off */
#define JSON_PUT_1(w, k, v) _Generic((v), char *: json_put_text, const char *: json_put_text, bool: json_put_bool, \
    double: json_put_number, float: json_put_number, uint64_t: json_put_unsigned, struct json_time: json_put_json_time, \
    default: json_put_integer)(w, k, v)
#define JSON_PUT_2(w, k, v, ...) (JSON_PUT_1(w, k, v), JSON_PUT_1(w, __VA_ARGS__))
#define JSON_PUT_3(w, k, v, ...) (JSON_PUT_1(w, k, v), JSON_PUT_2(w, __VA_ARGS__))
#define JSON_PUT_4(w, k, v, ...) (JSON_PUT_1(w, k, v), JSON_PUT_3(w, __VA_ARGS__))
#define JSON_PUT_5(w, k, v, ...) (JSON_PUT_1(w, k, v), JSON_PUT_4(w, __VA_ARGS__))
#define JSON_PUT_6(w, k, v, ...) (JSON_PUT_1(w, k, v), JSON_PUT_5(w, __VA_ARGS__))
#define JSON_PUT_7(w, k, v, ...) (JSON_PUT_1(w, k, v), JSON_PUT_6(w, __VA_ARGS__))
#define JSON_PUT_8(w, k, v, ...) (JSON_PUT_1(w, k, v), JSON_PUT_7(w, __VA_ARGS__))
#define JSON_PUT_9(w, k, v, ...) (JSON_PUT_1(w, k, v), JSON_PUT_8(w, __VA_ARGS__))
#define JSON_PUT_10(w, k, v, ...) (JSON_PUT_1(w, k, v), JSON_PUT_9(w, __VA_ARGS__))
#define JSON_PUT_11(w, k, v, ...) (JSON_PUT_1(w, k, v), JSON_PUT_10(w, __VA_ARGS__))
#define JSON_PUT_12(w, k, v, ...) (JSON_PUT_1(w, k, v), JSON_PUT_11(w, __VA_ARGS__))
#define JSON_PUT_13(w, k, v, ...) (JSON_PUT_1(w, k, v), JSON_PUT_12(w, __VA_ARGS__))
#define JSON_PUT_14(w, k, v, ...) (JSON_PUT_1(w, k, v), JSON_PUT_13(w, __VA_ARGS__))
#define JSON_PUT_15(w, k, v, ...) (JSON_PUT_1(w, k, v), JSON_PUT_14(w, __VA_ARGS__))
#define JSON_PUT_16(w, k, v, ...) (JSON_PUT_1(w, k, v), JSON_PUT_15(w, __VA_ARGS__))
#define JSON_PUT_CHOOSE(...) JSON_PUT_CHOOSE_(__VA_ARGS__, \
    JSON_PUT_16, 0, JSON_PUT_15, 0, JSON_PUT_14, 0, JSON_PUT_13, 0, JSON_PUT_12, 0, JSON_PUT_11, 0, JSON_PUT_10, 0, \
    JSON_PUT_9, 0, JSON_PUT_8, 0, JSON_PUT_7, 0, JSON_PUT_6, 0, JSON_PUT_5, 0, JSON_PUT_4, 0, JSON_PUT_3, 0, \
    JSON_PUT_2, 0, JSON_PUT_1, 0)
#define JSON_PUT_CHOOSE_(a1, b1, a2, b2, a3, b3, a4, b4, a5, b5, a6, b6, a7, b7, a8, b8, a9, b9, a10, b10, a11, b11, \
                         a12, b12, a13, b13, a14, b14, a15, b15, a16, b16, name, ...) name
/* clang-format on */

#endif
