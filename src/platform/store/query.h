/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Statements whose values are bound, and whose columns are read, in one expression.
 *
 *     status = DATABASE_RUN(database, error, "UPDATE users SET account = ? WHERE user = ?", account, user);
 *
 *     struct statement *select = DATABASE_QUERY(database, "SELECT user, admin FROM users WHERE user > ?", after);
 *     while (statement_next(select))
 *         STATEMENT_READ(select, 0, user->user, &user->admin);
 *     status = statement_end(select, error);
 *
 * The C type of a value chooses the column type, so a mismatch is a compile error, not a wrong bind. At most 16 values.
 */
#ifndef WEFT_PLATFORM_STORE_QUERY_H
#define WEFT_PLATFORM_STORE_QUERY_H

#include "platform/store/database.h"

/**
 * Prepare `sql` and bind its first values: char pointers and arrays as text (NULL pointers as NULL), doubles as numbers,
 * everything else as an integer. Further values, blobs among them, can be bound afterwards. The result is the statement.
 */
#define DATABASE_QUERY(database, sql, ...)                                                                             \
    QUERY_CHOOSE(QUERY_BIND_, __VA_ARGS__)(database_prepare((database), (sql)), __VA_ARGS__)

/** The same, run to its end: returns the status of statement_run(). */
#define DATABASE_RUN(database, error, sql, ...) statement_run(DATABASE_QUERY((database), sql, __VA_ARGS__), (error))

/**
 * Read columns of the present row, from number `first` on, into `char` arrays (cut to their size; "" for NULL) and
 * through pointers to int64_t, uint64_t, bool, double and enum.
 */
#define STATEMENT_READ(statement, first, ...)                                                                          \
    QUERY_CHOOSE(QUERY_READ_, __VA_ARGS__)((statement), (first), __VA_ARGS__)

/** The integer in the first column of the first row, 0 where there is no row; ends the statement. */
static inline weft_status statement_end_integer(struct statement *statement, int64_t *value, struct error *error)
{
    const int64_t found = statement_next(statement) ? statement_integer(statement, 0) : 0;
    const weft_status status = statement_end(statement, error);
    if (status == WEFT_OK)
        *value = found;
    return status;
}

/* ---- what the macros expand to ---- */

static inline struct statement *query_bind_text(struct statement *statement, const char *value)
{
    statement_bind_text(statement, value);
    return statement;
}

static inline struct statement *query_bind_number(struct statement *statement, double value)
{
    statement_bind_number(statement, value);
    return statement;
}

static inline struct statement *query_bind_integer(struct statement *statement, int64_t value)
{
    statement_bind_integer(statement, value);
    return statement;
}

static inline void query_read_text(struct statement *statement, int column, char *text, size_t size)
{
    statement_copy_text(statement, column, text, size);
}

static inline void query_read_integer(struct statement *statement, int column, int64_t *value, size_t size)
{
    *value = statement_integer(statement, column);
}

static inline void query_read_unsigned(struct statement *statement, int column, uint64_t *value, size_t size)
{
    *value = (uint64_t)statement_integer(statement, column);
}

static inline void query_read_bool(struct statement *statement, int column, bool *value, size_t size)
{
    *value = statement_integer(statement, column) != 0;
}

static inline void query_read_number(struct statement *statement, int column, double *value, size_t size)
{
    *value = statement_number(statement, column);
}

static inline void query_read_enum(struct statement *statement, int column, unsigned *value, size_t size)
{
    *value = (unsigned)statement_integer(statement, column);
}

/* clang-format off */
#define QUERY_BIND(s, x) _Generic((x), char *: query_bind_text, const char *: query_bind_text, \
    double: query_bind_number, default: query_bind_integer)(s, x)
#define QUERY_BIND_1(s, x) QUERY_BIND(s, x)
#define QUERY_BIND_2(s, x, ...) QUERY_BIND_1(QUERY_BIND(s, x), __VA_ARGS__)
#define QUERY_BIND_3(s, x, ...) QUERY_BIND_2(QUERY_BIND(s, x), __VA_ARGS__)
#define QUERY_BIND_4(s, x, ...) QUERY_BIND_3(QUERY_BIND(s, x), __VA_ARGS__)
#define QUERY_BIND_5(s, x, ...) QUERY_BIND_4(QUERY_BIND(s, x), __VA_ARGS__)
#define QUERY_BIND_6(s, x, ...) QUERY_BIND_5(QUERY_BIND(s, x), __VA_ARGS__)
#define QUERY_BIND_7(s, x, ...) QUERY_BIND_6(QUERY_BIND(s, x), __VA_ARGS__)
#define QUERY_BIND_8(s, x, ...) QUERY_BIND_7(QUERY_BIND(s, x), __VA_ARGS__)
#define QUERY_BIND_9(s, x, ...) QUERY_BIND_8(QUERY_BIND(s, x), __VA_ARGS__)
#define QUERY_BIND_10(s, x, ...) QUERY_BIND_9(QUERY_BIND(s, x), __VA_ARGS__)
#define QUERY_BIND_11(s, x, ...) QUERY_BIND_10(QUERY_BIND(s, x), __VA_ARGS__)
#define QUERY_BIND_12(s, x, ...) QUERY_BIND_11(QUERY_BIND(s, x), __VA_ARGS__)
#define QUERY_BIND_13(s, x, ...) QUERY_BIND_12(QUERY_BIND(s, x), __VA_ARGS__)
#define QUERY_BIND_14(s, x, ...) QUERY_BIND_13(QUERY_BIND(s, x), __VA_ARGS__)
#define QUERY_BIND_15(s, x, ...) QUERY_BIND_14(QUERY_BIND(s, x), __VA_ARGS__)
#define QUERY_BIND_16(s, x, ...) QUERY_BIND_15(QUERY_BIND(s, x), __VA_ARGS__)

#define QUERY_READ(s, i, x) _Generic((x), char *: query_read_text, int64_t *: query_read_integer, \
    uint64_t *: query_read_unsigned, bool *: query_read_bool, double *: query_read_number, \
    unsigned *: query_read_enum)(s, i, x, sizeof(x))
#define QUERY_READ_1(s, i, x) QUERY_READ(s, i, x)
#define QUERY_READ_2(s, i, x, ...) (QUERY_READ(s, i, x), QUERY_READ_1(s, i + 1, __VA_ARGS__))
#define QUERY_READ_3(s, i, x, ...) (QUERY_READ(s, i, x), QUERY_READ_2(s, i + 1, __VA_ARGS__))
#define QUERY_READ_4(s, i, x, ...) (QUERY_READ(s, i, x), QUERY_READ_3(s, i + 1, __VA_ARGS__))
#define QUERY_READ_5(s, i, x, ...) (QUERY_READ(s, i, x), QUERY_READ_4(s, i + 1, __VA_ARGS__))
#define QUERY_READ_6(s, i, x, ...) (QUERY_READ(s, i, x), QUERY_READ_5(s, i + 1, __VA_ARGS__))
#define QUERY_READ_7(s, i, x, ...) (QUERY_READ(s, i, x), QUERY_READ_6(s, i + 1, __VA_ARGS__))
#define QUERY_READ_8(s, i, x, ...) (QUERY_READ(s, i, x), QUERY_READ_7(s, i + 1, __VA_ARGS__))
#define QUERY_READ_9(s, i, x, ...) (QUERY_READ(s, i, x), QUERY_READ_8(s, i + 1, __VA_ARGS__))
#define QUERY_READ_10(s, i, x, ...) (QUERY_READ(s, i, x), QUERY_READ_9(s, i + 1, __VA_ARGS__))
#define QUERY_READ_11(s, i, x, ...) (QUERY_READ(s, i, x), QUERY_READ_10(s, i + 1, __VA_ARGS__))
#define QUERY_READ_12(s, i, x, ...) (QUERY_READ(s, i, x), QUERY_READ_11(s, i + 1, __VA_ARGS__))
#define QUERY_READ_13(s, i, x, ...) (QUERY_READ(s, i, x), QUERY_READ_12(s, i + 1, __VA_ARGS__))
#define QUERY_READ_14(s, i, x, ...) (QUERY_READ(s, i, x), QUERY_READ_13(s, i + 1, __VA_ARGS__))
#define QUERY_READ_15(s, i, x, ...) (QUERY_READ(s, i, x), QUERY_READ_14(s, i + 1, __VA_ARGS__))
#define QUERY_READ_16(s, i, x, ...) (QUERY_READ(s, i, x), QUERY_READ_15(s, i + 1, __VA_ARGS__))

#define QUERY_CHOOSE(name, ...) \
    QUERY_CHOOSE_(__VA_ARGS__, name##16, name##15, name##14, name##13, name##12, name##11, name##10, name##9, \
                  name##8, name##7, name##6, name##5, name##4, name##3, name##2, name##1, 0)
#define QUERY_CHOOSE_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, name, ...) name
/* clang-format on */

#endif
