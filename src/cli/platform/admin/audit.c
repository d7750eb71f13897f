/* SPDX-License-Identifier: Apache-2.0 */
/* `weft audit`: who did what. */
#include "cli/frame/command.h"
#include "cli/frame/moments.h"
#include "cli/frame/table.h"
#include "cli/platform/client/list.h"

#include <inttypes.h>

#define SHOWN_FIRST 20

static struct {
    bool json;
    const char *user, *project;
    int64_t most;
} chosen;

static const struct cli_option options[] = {
    CLI_INTEGER("number", 'n', "N", &chosen.most, NULL, 1, 1e15, "number of entries, newest first",
                .default_text = "20; all with --json"),
    CLI_TEXT("user", 'u', "USER", &chosen.user, NULL, "only actions of this user"),
    CLI_TEXT("project", 'p', "NAME", &chosen.project, NULL, "only actions that concern this project"),
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each entry"),
};

static const struct table_column columns[] = {{.title = "when"},
                                              {.title = "user", .least = 6},
                                              {.title = "from", .least = 9},
                                              {.title = "project", .least = 7},
                                              {.title = "what", .least = 10},
                                              {.title = "of", .least = 8},
                                              {.title = "status", .right = true}};

static void admin_audit_put(struct table *table, const cJSON *entry, int64_t now)
{
    char when[MOMENT_BYTES];
    table_put(table, "%s", moment_ago(field_integer(entry, "time"), now, when));
    table_put(table, "%s", field_text(entry, "user"));
    table_put(table, "%s", field_text(entry, "address"));
    table_put(table, "%s", field_text(entry, "project"));
    table_put(table, "%s", field_text(entry, "what"));
    table_put(table, "%s", field_text(entry, "target"));
    table_put(table, "%" PRId64, field_integer(entry, "status"));
}

static weft_status admin_audit_print(const struct platform_listed *listed, int64_t now, FILE *output,
                                     struct error *error)
{
    struct table table;
    const cJSON *entry;
    weft_status status = WEFT_OK;
    table_begin(&table, columns, sizeof columns / sizeof *columns);
    cJSON_ArrayForEach(entry, listed->items)
    {
        admin_audit_put(&table, entry, now);
    }
    const int64_t shown = (int64_t)table_rows(&table);
    if (shown > 0)
        status = table_print(&table, output, error);
    else
        fprintf(output, chosen.user || chosen.project ? "nothing of that kind was done\n" : "nothing was done yet\n");
    if (status == WEFT_OK && listed->more)
        platform_list_cut(output, "entries", "newest", -1, shown, "--number N shows more");
    table_end(&table);
    return status;
}

static weft_status admin_audit_run(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct platform_path path;
    struct platform_listed listed = {0};
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    platform_path_begin(&path, "audit");
    platform_path_query(&path, "user", chosen.user);
    platform_path_query(&path, "project", chosen.project);
    if (chosen.json)
        status = platform_list_print(&platform, &path, &platform_list_audit, chosen.most, call->output, error);
    else
        status = platform_list_get(&platform, &path, &platform_list_audit, chosen.most ? chosen.most : SHOWN_FIRST,
                                   &listed, error);
    platform_close(&platform);
    if (status == WEFT_OK && !chosen.json)
        status = admin_audit_print(&listed, moment_now(), call->output, error);
    platform_listed_free(&listed);
    return status;
}

const struct command command_audit = {
    .name = "audit",
    .group = COMMAND_PLATFORM,
    .summary = "show who did what on the platform",
    .description =
        "Lists what was changed or refused on the server, the newest first: when, by whom, from which address, in "
        "which project, what (as the interface names it), of what, and the status of the answer, which is 4xx where it "
        "was refused. For administrators.",
    .examples = "weft audit\nweft audit --user anna -n 100\nweft audit --project vision --json > audit.jsonl\n",
    COMMAND_OPTIONS(options),
    .run = admin_audit_run,
};
