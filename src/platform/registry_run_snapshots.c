/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry_list.h"
#include "platform/registry_run_list.h"

weft_status registry_run_snapshots(struct database *database, const char *project, char (**ids)[RUN_SNAPSHOT_BYTES],
                                   size_t *count, struct error *error)
{
    struct registry_list list = {0};
    struct statement *select = database_prepare(
        database, "SELECT DISTINCT json_extract(specification, '$.snapshot') AS snapshot FROM runs "
                  "JOIN run_specifications USING (run) WHERE project = ? AND snapshot != '' ORDER BY snapshot");
    statement_bind_text(select, project);
    while (statement_next(select)) {
        char(*id)[RUN_SNAPSHOT_BYTES] = registry_list_add(&list, sizeof *id);
        if (id)
            statement_copy_text(select, 0, *id, sizeof *id);
    }
    return registry_list_end(&list, select, ids, count, error);
}
