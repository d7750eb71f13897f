/* SPDX-License-Identifier: Apache-2.0 */
/* `weft budget`: what projects have, hold and have spent. */
#include "base/format/csv.h"
#include "cli/frame/amount.h"
#include "cli/platform/admin/request.h"
#include "platform/service/routes/budget_json.h"

#include <stdlib.h>
#include <string.h>

static struct {
    int64_t entries;
    bool json, csv, shared, not_shared;
    const char *rate, *cap, *from, *to, *detail;
} chosen;

/* ---- show ---- */

static weft_status budget_get_project(struct platform *platform, const char *project, cJSON **object,
                                      struct error *error)
{
    struct platform_path path;
    platform_path_begin(&path, "projects");
    platform_path_part(&path, project);
    weft_status status = platform_get(platform, &path, object, error);
    return status == WEFT_OK ? WEFT_OK : platform_project_unknown(platform, project, error);
}

static void budget_print(const cJSON *budget, FILE *output)
{
    static const struct {
        const char *key, *name, *meaning;
    } lines[] = {{"pool", "in its pool", ""},
                 {"members", "with members", ""},
                 {"held", "held", "  for runs in progress"},
                 {"spent", "spent", "  by runs that have ended"},
                 {"rate_per_day", "added each day", ""},
                 {"cap", "up to", "  in pool, with members and held together"}};
    char text[AMOUNT_BYTES];
    if (!field_true(budget, "limited")) {
        fprintf(output, "  no budget: it is not limited; spent %s slot-minutes\n",
                amount_text(field_number(budget, "spent"), text));
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
        fprintf(output, "  %-16s %12s%s\n", lines[i].name, amount_text(field_number(budget, lines[i].key), text),
                lines[i].meaning);
    fprintf(output, "  %s\n",
            field_true(budget, "shared") ? "members draw on the pool when their own account does not suffice"
                                         : "members have only what was transferred to them; the pool is the managers'");
}

static const struct table_column member_columns[] = {
    {.title = "member", .least = 8, .cell = "{user}"},
    {.title = "role", .cell = "{role}"},
    {.title = "balance", .right = true, .cell = "{balance:amount}"},
    {.title = "since", .cell = "{since:ago}"},
};

static const struct table_column entry_columns[] = {
    {.title = "time", .cell = "{time:clock}"},
    {.title = "posting", .right = true, .cell = "{posting}"},
    {.title = "kind", .cell = "{kind}"},
    {.title = "account", .least = 8, .cell = "{account}[ {user}]"},
    {.title = "amount", .right = true, .cell = "{amount:amount}"},
    {.title = "run", .right = true, .cell = "{run:nonzero}"},
    {.title = "by", .least = 5, .cell = "{actor}"},
    {.title = "detail", .least = 10, .wraps = true, .cell = "{detail}"},
};

static void budget_print_csv_entry(void *output, const cJSON *entry)
{
    csv_put_object(output, budget_json_entry_columns, entry);
}

static weft_status budget_print_entries(struct platform *platform, const char *project, FILE *output,
                                        struct error *error)
{
    struct platform_path path;
    struct platform_listed listed = {0};
    platform_path_begin(&path, "projects");
    platform_path_part(&path, project);
    platform_path_part(&path, "ledger");
    if (chosen.csv) {
        csv_put_header(output, budget_json_entry_columns);
        return platform_list_each(platform, &path, &platform_list_ledger, chosen.entries, budget_print_csv_entry,
                                  output, error);
    }
    if (chosen.json)
        return platform_list_print(platform, &path, &platform_list_ledger, chosen.entries, output, error);
    weft_status status =
        platform_list_get(platform, &path, &platform_list_ledger, chosen.entries ? chosen.entries : 10, &listed, error);
    const int shown = cJSON_GetArraySize(listed.items);
    if (status == WEFT_OK && shown > 0) {
        fputc('\n', output);
        status = cells_print_table(entry_columns, ARRAY_SIZE(entry_columns), listed.items, NULL, output, error);
    }
    if (status == WEFT_OK && listed.more)
        platform_list_cut(output, "entries of the ledger", "newest", -1, shown, "--entries N shows more");
    platform_listed_free(&listed);
    return status;
}

static weft_status budget_show_one(struct platform *platform, const char *project, FILE *output, struct error *error)
{
    cJSON *object = NULL;
    weft_status status = budget_get_project(platform, project, &object, error);
    if (status != WEFT_OK)
        return status;
    if (chosen.json) {
        platform_print_json(object, output);
    } else if (!chosen.csv) {
        fprintf(output, "project %s, in slot-minutes\n", project);
        budget_print(field(object, "budget"), output);
        fputc('\n', output);
        status = cells_print_table(member_columns, ARRAY_SIZE(member_columns), field(object, "members"), NULL, output,
                                   error);
    }
    cJSON_Delete(object);
    return status == WEFT_OK ? budget_print_entries(platform, project, output, error) : status;
}

static const struct table_column project_columns[] = {
    {.title = "project", .least = 8, .cell = "{project}"},
    {.title = "your role", .cell = "{role}"},
    {.title = "yours", .right = true, .cell = "[{limited?}{balance:amount}]"},
    {.title = "pool", .right = true, .cell = "[{limited?}{pool:amount}|no limit]"},
    {.title = "held", .right = true, .cell = "{held:amount}"},
    {.title = "spent", .right = true, .cell = "{spent:amount}"},
    {.title = "a day", .right = true, .cell = "[{limited?}{rate_per_day:amount}]"},
    {.title = "cap", .right = true, .cell = "[{limited?}{cap:amount}]"},
};

/* Make a row of the table: the budget of `project` and fields from elsewhere. The caller frees it. */
static cJSON *budget_make_row(cJSON *project, const char *user)
{
    cJSON *row = cJSON_DetachItemFromObjectCaseSensitive(project, "budget");
    const cJSON *member;
    double balance = 0;
    cJSON_ArrayForEach(member, field(project, "members"))
        if (strcmp(field_text(member, "user"), user) == 0)
            balance = field_number(member, "balance");
    cJSON_AddStringToObject(row, "project", field_text(project, "project"));
    cJSON_AddStringToObject(row, "role", field_text(project, "role"));
    cJSON_AddNumberToObject(row, "balance", balance);
    return row;
}

static weft_status budget_show_all(struct platform *platform, FILE *output, struct error *error)
{
    struct platform_path path;
    cJSON *reply = NULL, *rows = cJSON_CreateArray();
    const cJSON *item;
    platform_path_begin(&path, "projects");
    weft_status status = platform_get(platform, &path, &reply, error);
    cJSON_ArrayForEach(item, field(reply, "projects")) {
        cJSON *project = NULL;
        if (status == WEFT_OK)
            status = budget_get_project(platform, field_text(item, "project"), &project, error);
        if (status == WEFT_OK && chosen.json)
            platform_print_json(project, output);
        else if (status == WEFT_OK)
            cJSON_AddItemToArray(rows, budget_make_row(project, platform->user));
        cJSON_Delete(project);
    }
    const bool any = cJSON_GetArraySize(rows) > 0;
    if (status == WEFT_OK && any)
        status = cells_print_table(project_columns, ARRAY_SIZE(project_columns), rows, NULL, output, error);
    if (status == WEFT_OK && !chosen.json)
        fputs(any ? "\namounts are slot-minutes\n" : "you are in no project yet\n", output);
    cJSON_Delete(rows);
    cJSON_Delete(reply);
    return status;
}

static weft_status budget_show_run(struct command_call *call, struct error *error)
{
    struct platform platform;
    if (chosen.csv && (chosen.json || call->word_count == 0))
        return command_misused(
            call, error_set(error, WEFT_ERROR_ARGUMENT,
                            "%s: --csv is the ledger of a project: name one, and give it without --json", call->name));
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    status = call->word_count > 0 ? budget_show_one(&platform, call->words[0], call->output, error)
                                  : budget_show_all(&platform, call->output, error);
    platform_close(&platform);
    return status;
}

/* ---- change ---- */

static void budget_print_changed(const struct command_call *call, const cJSON *budget)
{
    fprintf(call->output, "project %s, in slot-minutes\n", call->words[0]);
    budget_print(budget, call->output);
}

static weft_status budget_check_set(struct command_call *call, struct error *error)
{
    if (chosen.shared && chosen.not_shared)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s: --shared and --not-shared exclude each other", call->name);
    if (!chosen.rate && !chosen.cap && !chosen.shared && !chosen.not_shared)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%s changes nothing without --rate, --cap, --shared or --not-shared", call->name);
    return WEFT_OK;
}

/* Write what was not given as the budget has it. */
static weft_status budget_write_rest(struct command_call *call, struct platform *platform, struct json_writer *body,
                                     struct error *error)
{
    cJSON *project = NULL;
    weft_status status = budget_get_project(platform, call->words[0], &project, error);
    if (status != WEFT_OK)
        return status;
    const cJSON *budget = field(project, "budget");
    const bool limited = field_true(budget, "limited");
    if (!limited && !chosen.cap)
        status = command_misused(call, error_set(error, WEFT_ERROR_ARGUMENT,
                                                 "project %s has no budget yet: say how much it may have, with --cap",
                                                 call->words[0]));
    if (!chosen.rate)
        json_put_number(body, "rate_per_day", field_number(budget, "rate_per_day"));
    if (!chosen.cap)
        json_put_number(body, "cap", field_number(budget, "cap"));
    json_put_bool(body, "shared", chosen.shared || (!chosen.not_shared && (!limited || field_true(budget, "shared"))));
    cJSON_Delete(project);
    return status;
}

static weft_status budget_check_transfer(struct command_call *call, struct error *error)
{
    if (chosen.from || chosen.to)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_ARGUMENT, "%s needs --from or --to: a member; the other side is the pool",
                     call->name);
}

static const struct cli_option set_options[] = {
    CLI_TEXT("rate", 0, "AMOUNT", &chosen.rate, NULL, "amount that its pool receives per day, continuously"),
    CLI_TEXT("cap", 0, "AMOUNT", &chosen.cap, NULL,
             "stop adding when pool, members and held together reach this; the excess is lost"),
    CLI_FLAG("shared", 0, &chosen.shared,
             "members draw on the pool when their own account does not suffice (at first)"),
    CLI_FLAG("not-shared", 0, &chosen.not_shared, "members have only what was transferred to them"),
    CLI_FLAG("json", 0, &chosen.json, "the budget as a line of JSON"),
};

static const struct command set = {
    .name = "set",
    .summary = "give a project a budget, or change how it grows",
    .description =
        "Values that are not given stay as they are. A project without a budget is not limited. For administrators.",
    .examples = "weft budget set vision --rate 8x24h --cap 8x7d\n",
    .words = "PROJECT",
    COMMAND_OPTIONS(set_options),
    ADMIN_REQUEST(.method = "PUT", .path = "projects/{0}/budget",
                  ADMIN_FIELDS({"rate_per_day", "--rate", ADMIN_AMOUNT}, {"cap", "--cap", ADMIN_AMOUNT}),
                  .check = budget_check_set, .write = budget_write_rest, .unknown = platform_project_unknown,
                  .print = budget_print_changed),
};

static const struct cli_option grant_options[] = {
    CLI_TEXT("detail", 0, "TEXT", &chosen.detail, NULL, "what for; kept in the ledger"),
    CLI_FLAG("json", 0, &chosen.json, "the budget as a line of JSON"),
};

static const struct command grant = {
    .name = "grant",
    .summary = "add an amount to a project's pool",
    .description = "It may exceed the cap. A negative amount, after \"--\", is taken away. For administrators.",
    .examples = "weft budget grant vision 8x12h --detail 'the conference'\nweft budget grant vision -- -600\n",
    .words = "PROJECT AMOUNT",
    COMMAND_OPTIONS(grant_options),
    ADMIN_REQUEST(.method = "POST", .path = "projects/{0}/grants",
                  ADMIN_FIELDS({"amount", "1", ADMIN_CHANGE}, {"detail", "--detail", ADMIN_TEXT}),
                  .unknown = platform_project_unknown, .print = budget_print_changed),
};

static const struct cli_option transfer_options[] = {
    CLI_TEXT("from", 0, "USER", &chosen.from, NULL, "the member who gives", .default_text = "the pool"),
    CLI_TEXT("to", 0, "USER", &chosen.to, NULL, "the member who receives", .default_text = "the pool"),
    CLI_TEXT("detail", 0, "TEXT", &chosen.detail, NULL, "what for; kept in the ledger"),
    CLI_FLAG("json", 0, &chosen.json, "the budget as a line of JSON"),
};

static const struct command transfer = {
    .name = "transfer",
    .summary = "move an amount between a project's pool and its members",
    .description = "For managers of the project.",
    .examples = "weft budget transfer vision 20h --to anna\nweft budget transfer vision 600 --from anna --to bert\n",
    .words = "PROJECT AMOUNT",
    COMMAND_OPTIONS(transfer_options),
    ADMIN_REQUEST(.method = "POST", .path = "projects/{0}/transfers",
                  ADMIN_FIELDS({"amount", "1", ADMIN_AMOUNT}, {"from", "--from", ADMIN_TEXT},
                               {"to", "--to", ADMIN_TEXT}, {"detail", "--detail", ADMIN_TEXT}),
                  .check = budget_check_transfer, .unknown = platform_project_unknown, .print = budget_print_changed),
};

static weft_status budget_unknown_run(struct platform *platform, const char *number, struct error *error)
{
    return platform_run_unknown(platform, atoll(number), error);
}

static const struct cli_option refund_options[] = {
    CLI_TEXT("detail", 0, "TEXT", &chosen.detail, NULL, "why; kept in the ledger"),
    CLI_FLAG("json", 0, &chosen.json, "the refund as a line of JSON"),
};

static const struct command refund = {
    .name = "refund",
    .summary = "give back what a run was charged",
    .description = "Attempts that fail because of the platform are free. If that is found out only later, this refunds "
                   "the charges of the run's ended attempts to the accounts that paid, once. For administrators.",
    .examples = "weft budget refund 12 --detail 'a bad disk'\n",
    .words = "RUN",
    COMMAND_OPTIONS(refund_options),
    ADMIN_REQUEST(.method = "POST", .path = "runs/{0}/refund", .names_run = true,
                  ADMIN_FIELDS({"detail", "--detail", ADMIN_TEXT}), .unknown = budget_unknown_run,
                  .done = "run {0}: {refunded:amount} slot-minutes are given back to project {project}"),
};

static const struct cli_option show_options[] = {
    CLI_INTEGER("entries", 'n', "N", &chosen.entries, NULL, 3, 1e15, "number of ledger entries, newest first",
                .default_text = "10; all with --json and --csv"),
    CLI_FLAG("json", 0, &chosen.json,
             "the project as a line of JSON, then a line for each entry; without PROJECT, a line for each project"),
    CLI_FLAG("csv", 0, &chosen.csv,
             "the entries as a table for spreadsheets, with the fields of JSON; times are milliseconds since 1970"),
};

const struct command command_budget = {
    .name = "budget",
    .group = COMMAND_PLATFORM,
    .summary = "show what a project has, holds and has spent; change it",
    .description =
        "Amounts are slot-minutes: one slot for one minute. Write them as a number (1200), as the time of one slot "
        "(20h), or as slots and a time (8x6h is 2880). Without PROJECT, each of your projects is a line.\n\n"
        "While a run is in progress, it holds its slots times its time limit. At its end, it is charged for what it "
        "used and the rest is returned. Attempts that fail because of the platform are free.",
    .examples = "weft budget\nweft budget vision --entries 50\nweft budget vision --entries 1000 --csv > "
                "ledger.csv\nweft budget set vision --rate 8x24h --cap 8x7d\n"
                "weft budget transfer vision 20h --to anna\n",
    .words = "[PROJECT]",
    COMMAND_OPTIONS(show_options),
    COMMAND_SUBCOMMANDS(&grant, &refund, &set, &transfer),
    .run = budget_show_run,
};
