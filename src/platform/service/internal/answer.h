/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the answers of resources have in common: lists, tables (CSV), and which projects the
 * caller may see. Functions of `struct sight` belong to the thread of its registry; the others are thread-safe.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_ANSWER_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_ANSWER_H

#include "platform/http/route/route.h"
#include "platform/store/database.h"

/** The JSON between the parentheses as text: SCHEMA({"type": "object"}). */
#define SCHEMA(...) #__VA_ARGS__

/** Open an object and the array `key` in it. */
void json_open_list(struct json_writer *writer, const char *key);

/** Close both again. */
void json_close_list(struct json_writer *writer);

/** The same for a page: "more" says whether another page follows. */
void json_close_page(struct json_writer *writer, bool more);

/* ---- tables ---- */

#define TABLE_ANSWER_CSV "text/csv"

extern const char *const table_answer_formats[];

/** The declaration of `format` in a table of parameters; such a route has .produces_also = TABLE_ANSWER_CSV. */
#define TABLE_ANSWER_PARAMETER                                                                                         \
    {                                                                                                                  \
        .name = "format", .type = ROUTE_CHOICE, .choices = table_answer_formats, .fallback = "json",                   \
        .meaning = "Of the answer; csv: a header, and a line for each with the same fields."                           \
    }

/**
 * As route_answer(), of an object with the list `list`; with format=csv a line for each object of the list, with the
 * names and units that JSON has. `columns` ends with NULL.
 */
void table_answer(struct route_call *call, weft_status status, struct json_writer *writer, const char *list,
                  const char *const *columns, const struct error *error);

/* ---- who may see what ---- */

#define SIGHT_PROJECTS 64

/** For an answer about many projects: each is looked up about once. Starts with `registry` (of this thread) and `who`. */
struct sight {
    struct database *registry;
    const struct identity *who;
    struct {
        char project[PLATFORM_NAME_BYTES]; /* "": none yet */
        bool seen;
    } known[SIGHT_PROJECTS];
};

bool sight_has(struct sight *sight, const char *project);

#endif
