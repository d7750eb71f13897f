/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/access/access.h"

#include "base/text.h"
#include "platform/store/query.h"

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
        DATABASE_QUERY(database,
                       "INSERT INTO audit (time_ms, status, user, token, address, project, what, target)"
                       " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                       entry->time_ms, entry->status);
    BIND_PRINTABLE(insert, entry->user, sizeof entry->user);
    BIND_PRINTABLE(insert, entry->token, sizeof entry->token);
    BIND_PRINTABLE(insert, entry->address, sizeof entry->address);
    BIND_PRINTABLE(insert, entry->project, sizeof entry->project);
    BIND_PRINTABLE(insert, entry->what, sizeof entry->what);
    BIND_PRINTABLE(insert, entry->target, sizeof entry->target);
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
    struct statement *select = DATABASE_QUERY(database, sql, filter->before > 0 ? filter->before : INT64_MAX);
    bool more = true;
    if (filter->user)
        statement_bind_text(select, filter->user);
    if (filter->project)
        statement_bind_text(select, filter->project);
    if (filter->since_ms)
        statement_bind_integer(select, filter->since_ms);
    statement_bind_integer(select, filter->most ? filter->most : 100);
    while (more && statement_next(select)) {
        struct audit_entry entry = {0};
        STATEMENT_READ(select, 0, &entry.number, &entry.time_ms, entry.user, entry.token, entry.address, entry.project,
                       entry.what, entry.target, &entry.status);
        more = each(context, &entry);
    }
    return statement_end(select, error);
}
