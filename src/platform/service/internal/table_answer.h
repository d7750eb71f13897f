/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Lists that are answered as JSON, or as a table for who asks for format=csv: a line for each object of the list, with
 * the fields of it that the header names, by the names and in the units that JSON has. For the files of this module.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_TABLE_ANSWER_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_TABLE_ANSWER_H

#include "platform/http/route/route.h"

#define TABLE_ANSWER_CSV "text/csv"

extern const char *const table_answer_formats[];

/** The declaration of `format` for tables of parameters; their routes have .produces_also = TABLE_ANSWER_CSV. */
#define TABLE_ANSWER_PARAMETER                                                                                         \
    {                                                                                                                  \
        .name = "format", .type = ROUTE_CHOICE, .choices = table_answer_formats, .fallback = "json",                   \
        .meaning = "Of the answer; csv: a header, and a line for each with the same fields."                           \
    }

/** As service_answer(), of an object with the list `list`. `columns` ends with NULL. */
void table_answer(struct route_call *call, weft_status status, struct json_writer *writer, const char *list,
                  const char *const *columns, const struct error *error);

#endif
