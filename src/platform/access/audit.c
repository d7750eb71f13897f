/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/access/access.h"

#include "base/text.h"

#include <stdio.h>

#define BIND_PRINTABLE(statement, text, bytes)                                                                         \
    do {                                                                                                               \
        char copy[bytes];                                                                                              \
        snprintf(copy, sizeof copy, "%s", text);                                                                       \
        statement_bind_text(statement, text_printable(copy));                                                          \
    } while (0)

weft_status audit_add(struct database *database, const struct audit_entry *entry, struct error *error)
{
    weft_status status = database_begin(database, DATABASE_LAZY, error);
    if (status != WEFT_OK)
        return status;
    struct statement *insert =
        database_prepare(database, "INSERT INTO audit (time_ms, user, token, address, project, what, target, status)"
                                   " VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    statement_bind_integer(insert, entry->time_ms);
    BIND_PRINTABLE(insert, entry->user, sizeof entry->user);
    BIND_PRINTABLE(insert, entry->token, sizeof entry->token);
    BIND_PRINTABLE(insert, entry->address, sizeof entry->address);
    BIND_PRINTABLE(insert, entry->project, sizeof entry->project);
    BIND_PRINTABLE(insert, entry->what, sizeof entry->what);
    BIND_PRINTABLE(insert, entry->target, sizeof entry->target);
    statement_bind_integer(insert, entry->status);
    return database_end(database, statement_run(insert, error), error);
}

weft_status audit_list(struct database *database, const struct audit_filter *filter,
                       bool (*each)(void *context, const struct audit_entry *entry), void *context, struct error *error)
{
    /* An index serves each of these statements; filters that are not given are left out. */
    char sql[512];
    snprintf(sql, sizeof sql,
             "SELECT number, time_ms, user, token, address, project, what, target, status FROM audit WHERE number < ?"
             "%s%s%s ORDER BY number DESC LIMIT ?",
             filter->user ? " AND user = ?" : "", filter->project ? " AND project = ?" : "",
             filter->since_ms ? " AND time_ms >= ?" : "");
    struct statement *select = database_prepare(database, sql);
    bool more = true;
    statement_bind_integer(select, filter->before > 0 ? filter->before : INT64_MAX);
    if (filter->user)
        statement_bind_text(select, filter->user);
    if (filter->project)
        statement_bind_text(select, filter->project);
    if (filter->since_ms)
        statement_bind_integer(select, filter->since_ms);
    statement_bind_integer(select, filter->most ? filter->most : 100);
    while (more && statement_next(select)) {
        struct audit_entry entry = {.number = statement_integer(select, 0),
                                    .time_ms = statement_integer(select, 1),
                                    .status = (unsigned)statement_integer(select, 8)};
        statement_copy_text(select, 2, entry.user, sizeof entry.user);
        statement_copy_text(select, 3, entry.token, sizeof entry.token);
        statement_copy_text(select, 4, entry.address, sizeof entry.address);
        statement_copy_text(select, 5, entry.project, sizeof entry.project);
        statement_copy_text(select, 6, entry.what, sizeof entry.what);
        statement_copy_text(select, 7, entry.target, sizeof entry.target);
        more = each(context, &entry);
    }
    return statement_end(select, error);
}
