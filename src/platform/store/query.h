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
 * The C type of a value chooses the column type, so a mismatch is a compile error, not a wrong bind.
 */
#ifndef WEFT_PLATFORM_STORE_QUERY_H
#define WEFT_PLATFORM_STORE_QUERY_H

#include "base/macro.h"
#include "platform/store/database.h"

/**
 * Prepare `sql` and bind its first values: char pointers and arrays as text (NULL pointers as NULL), doubles as numbers,
 * everything else as an integer. Further values, blobs among them, can be bound afterwards. The result is the statement.
 */
#define DATABASE_QUERY(database, sql, ...)                                                                             \
    __extension__({                                                                                                    \
        struct statement *const query_statement = database_prepare((database), (sql));                                 \
        MACRO_REPEAT(QUERY_BIND(query_statement, __VA_ARGS__))                                                         \
        query_statement;                                                                                               \
    })

/** The same, run to its end: returns the status of statement_run(). */
#define DATABASE_RUN(database, error, sql, ...) statement_run(DATABASE_QUERY((database), sql, __VA_ARGS__), (error))

/**
 * Read columns of the present row, from number `first` on, into `char` arrays (cut to their size; "" for NULL) and
 * through pointers to int64_t, uint64_t, bool, double and enum.
 */
#define STATEMENT_READ(statement, first, ...) (MACRO_REPEAT(QUERY_READ((statement), (first), __VA_ARGS__)))

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
#define QUERY_BIND(s, x, ...) _Generic((x), char *: statement_bind_text, const char *: statement_bind_text, \
    double: statement_bind_number, default: statement_bind_integer)(s, x); \
    __VA_OPT__(QUERY_BIND_MORE MACRO_PARENTHESES (s, __VA_ARGS__))
#define QUERY_BIND_MORE() QUERY_BIND

#define QUERY_READ(s, i, x, ...) _Generic((x), char *: query_read_text, int64_t *: query_read_integer, \
    uint64_t *: query_read_unsigned, bool *: query_read_bool, double *: query_read_number, \
    unsigned *: query_read_enum)(s, i, x, sizeof(x)) __VA_OPT__(, QUERY_READ_MORE MACRO_PARENTHESES (s, i + 1, __VA_ARGS__))
#define QUERY_READ_MORE() QUERY_READ
/* clang-format on */

#endif
