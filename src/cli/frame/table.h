/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Tables and paragraphs that fit the terminal. Columns are as wide as their widest cell. If a table is wider than the
 * terminal, the widest columns that may be cut are cut, and the last one may continue on the next line instead.
 *
 *     static const struct table_column columns[] = {
 *         {.title = "run", .right = true}, {.title = "name", .least = 8}, {.title = "state"}};
 *     struct table table;
 *     table_begin(&table, columns, 3);
 *     table_put(&table, "%d", 12);
 *     table_put(&table, "%s", name);
 *     table_put(&table, "%s", state);
 *     status = table_print(&table, output, error);
 *     table_end(&table);
 *
 * Cells may hold text from other users: terminal control characters are printed as '?'. A table belongs to one thread.
 */
#ifndef WEFT_CLI_FRAME_TABLE_H
#define WEFT_CLI_FRAME_TABLE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS_MOST 16

struct table_column {
    const char *title;
    bool right;       /**< aligned to the right: numbers */
    unsigned least;   /**< may be cut to this many characters; 0: never cut */
    bool wraps;       /**< the last one only: long text continues on the next line instead of being cut */
    const char *cell; /**< template of its cells (cli/platform/client/cells.h); NULL if the caller fills them */
};

struct table {
    const struct table_column *columns;
    size_t count;
    bool hidden[TABLE_COLUMNS_MOST]; /**< set by the caller: columns that are not printed */
    char **cells;                    /**< row by row */
    size_t used, room;
    bool failed; /**< memory ran out; table_print() reports it */
};

void table_begin(struct table *table, const struct table_column *columns, size_t count);

/** Add the next cell, row by row from left to right, including hidden columns. Text is cut at 4 KiB. */
void table_put(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Rows so far. An unfinished row ends in empty cells. */
size_t table_rows(const struct table *table);

/** Print titles and rows, to fit the terminal that `output` is, or as wide as they are if it is not a terminal. Errors:
 * MEMORY. */
weft_status table_print(const struct table *table, FILE *output, struct error *error);

/** The same for a terminal with `width` columns; 0: unlimited. */
weft_status table_print_within(const struct table *table, unsigned width, FILE *output, struct error *error);

/** Free what it holds. */
void table_end(struct table *table);

/** Terminal columns that a UTF-8 text takes (East Asian characters take two). */
size_t table_width(const char *text);

#define WRAP_COLUMNS 96 /**< most characters of a line of a paragraph */

/**
 * Print `text` as a paragraph filled to WRAP_COLUMNS, and a newline. The cursor is at column `column` already; further
 * lines begin at `indent`. A "\n" in the text begins a new line.
 */
void wrap_print(FILE *output, const char *text, int column, int indent);

#endif
