/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry/settings.h"
#include "platform/store/query.h"

weft_status registry_platform_get(struct database *database, struct registry_platform *platform, struct error *error)
{
    struct registry_platform found = {0};
    struct statement *select = database_prepare(database, "SELECT identity, adopts FROM platform");
    if (statement_next(select)) {
        STATEMENT_READ(select, 0, found.identity, &found.adopts);
    }
    weft_status status = statement_end(select, error);
    if (status == WEFT_OK && !*found.identity)
        status = error_set(error, WEFT_ERROR_DATA, "'%s' is damaged: it has lost the platform's identity",
                           database_path(database));
    if (status == WEFT_OK)
        *platform = found;
    return status;
}

/* SQLite's own table of the last number that each table has given out; a table that has given out none is not in it. */
weft_status registry_number_above(struct database *database, int64_t run, int64_t *last, struct error *error)
{
    struct statement *select = database_prepare(database, "SELECT seq FROM sqlite_sequence WHERE name = 'runs'");
    const bool known = statement_next(select);
    const int64_t found = known ? statement_integer(select, 0) : 0;
    weft_status status = statement_end(select, error);
    if (status != WEFT_OK)
        return status;
    *last = found;
    if (run <= found)
        return WEFT_OK;
    return DATABASE_RUN(database, error,
                        known ? "UPDATE sqlite_sequence SET seq = ? WHERE name = 'runs'"
                              : "INSERT INTO sqlite_sequence (seq, name) VALUES (?, 'runs')",
                        run);
}
