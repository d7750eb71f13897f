/* SPDX-License-Identifier: Apache-2.0 */
/**
 * JSON objects as a table for spreadsheets and scripts: CSV (RFC 4180), but with lines that end with a line feed.
 *
 *     static const char *const columns[] = {"run", "name", NULL};
 *     csv_put_header(output, columns);
 *     cJSON_ArrayForEach(run, runs) csv_put_object(output, columns, run);
 *
 * A string is quoted if it has a comma, a quote, a line end, or a space at either end; quotes within are doubled.
 * Numbers have all their digits, booleans are "true" and "false", and null, missing and nested values are empty. Errors
 * are those of `output` (ferror()). Thread-safe.
 */
#ifndef WEFT_BASE_FORMAT_CSV_H
#define WEFT_BASE_FORMAT_CSV_H

#include "base/format/json.h"

#include <stdio.h>

/** `columns` are the keys of the objects, or paths to members of members ("progress/done"); NULL ends them. */
void csv_put_header(FILE *output, const char *const *columns);
void csv_put_object(FILE *output, const char *const *columns, const cJSON *object);

#endif
