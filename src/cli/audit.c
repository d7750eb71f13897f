/* SPDX-License-Identifier: Apache-2.0 */
/* `weft audit`: who did what. */
#include "cli/command.h"
#include "cli/moments.h"
#include "cli/platform_client.h"
#include "cli/table.h"

#include <inttypes.h>

#define PAGE_MOST 1000

static struct {
    bool json;
    const char *user, *project;
    int64_t most;
} chosen;

static const struct cli_option options[] = {
    CLI_INTEGER("number", 'n', "N", &chosen.most, "20", 1, 1000000, "number of entries, newest first"),
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

static void put(struct table *table, const cJSON *entry, int64_t now)
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

/* A page of entries below number `*before`, which is then that of its last one; `*left` are still wanted. */
static weft_status take_page(struct platform *platform, int64_t *before, int64_t *left, struct table *table,
                             FILE *output, struct error *error)
{
    struct platform_path path;
    char number[32], most[32];
    cJSON *page = NULL;
    const cJSON *entry;
    const int64_t wanted = *left < PAGE_MOST ? *left : PAGE_MOST, now = moment_now();
    snprintf(number, sizeof number, "%" PRId64, *before);
    snprintf(most, sizeof most, "%" PRId64, wanted);
    platform_path_begin(&path, "audit");
    platform_path_query(&path, "user", chosen.user);
    platform_path_query(&path, "project", chosen.project);
    platform_path_query(&path, "before", number);
    platform_path_query(&path, "most", most);
    weft_status status = platform_get(platform, &path, &page, error);
    if (status != WEFT_OK)
        return status;
    cJSON_ArrayForEach(entry, field(page, "entries"))
    {
        *before = field_integer(entry, "number");
        if (chosen.json)
            platform_print_json(entry, output);
        else
            put(table, entry, now);
    }
    *left = cJSON_GetArraySize(field(page, "entries")) < wanted ? 0 : *left - wanted;
    cJSON_Delete(page);
    return WEFT_OK;
}

static weft_status run(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct table table;
    int64_t before = 0, left = chosen.most;
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    table_begin(&table, columns, sizeof columns / sizeof *columns);
    while (status == WEFT_OK && left > 0)
        status = take_page(&platform, &before, &left, &table, call->output, error);
    platform_close(&platform);
    if (status == WEFT_OK && !chosen.json && table_rows(&table) > 0)
        status = table_print(&table, call->output, error);
    else if (status == WEFT_OK && !chosen.json)
        fprintf(call->output,
                chosen.user || chosen.project ? "nothing of that kind was done\n" : "nothing was done yet\n");
    table_end(&table);
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
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
