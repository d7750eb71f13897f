/* SPDX-License-Identifier: Apache-2.0 */
/* `weft budget`: what projects have, hold and have spent. */
#include "base/format/csv.h"
#include "cli/frame/amount.h"
#include "cli/frame/command.h"
#include "cli/frame/moments.h"
#include "cli/frame/table.h"
#include "cli/platform/client/list.h"
#include "cli/platform/client/run_reference.h"
#include "platform/service/routes/budget_json.h"

#include <inttypes.h>
#include <string.h>

#define EXIT_MISUSED 2

#define ENTRIES_SHOWN 10

static struct {
    int64_t entries;
    bool json, csv, shared, not_shared;
    const char *rate, *cap, *from, *to, *detail;
} chosen;

static const struct cli_option show_options[] = {
    CLI_INTEGER("entries", 'n', "N", &chosen.entries, NULL, 3, 1e15, "number of ledger entries, newest first",
                .default_text = "10; all with --json and --csv"),
    CLI_FLAG("json", 0, &chosen.json,
             "the project as a line of JSON, then a line for each entry; of several: a line each"),
    CLI_FLAG("csv", 0, &chosen.csv,
             "the entries as a table for spreadsheets, with the fields of JSON; times are milliseconds since 1970"),
};

static weft_status admin_budget_misused(struct command_call *call, weft_status status)
{
    if (status != WEFT_OK)
        call->exit_code = EXIT_MISUSED;
    return status;
}

/* ---- showing ---- */

static weft_status get_project(struct platform *platform, const char *project, cJSON **object, struct error *error)
{
    struct platform_path path;
    platform_path_begin(&path, "projects");
    platform_path_part(&path, project);
    weft_status status = platform_get(platform, &path, object, error);
    return status == WEFT_OK ? WEFT_OK : platform_project_unknown(platform, project, error);
}

static void print_budget(const cJSON *budget, FILE *output)
{
    char text[AMOUNT_BYTES];
    if (!field_true(budget, "limited")) {
        fprintf(output, "  no budget: it is not limited; spent %s slot-minutes\n",
                amount_text(field_number(budget, "spent"), text));
        return;
    }
    static const struct {
        const char *key, *name, *tells;
    } lines[] = {{"pool", "in its pool", ""},
                 {"members", "with members", ""},
                 {"held", "held", "for what runs"},
                 {"spent", "spent", "by what has run"},
                 {"rate_per_day", "comes in a day", ""},
                 {"cap", "up to", "in pool, with members and held together"}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        fprintf(output, "  %-16s %12s%s%s\n", lines[i].name, amount_text(field_number(budget, lines[i].key), text),
                *lines[i].tells ? "  " : "", lines[i].tells);
    fprintf(output, "  %s\n",
            field_true(budget, "shared") ? "members draw on the pool when their own account does not suffice"
                                         : "members have what was handed to them; the pool is the managers'");
}

static const struct table_column member_columns[] = {
    {.title = "member", .least = 8}, {.title = "role"}, {.title = "balance", .right = true}, {.title = "since"}};

static weft_status print_members(const cJSON *members, FILE *output, struct error *error)
{
    struct table table;
    const cJSON *member;
    table_begin(&table, member_columns, sizeof member_columns / sizeof *member_columns);
    cJSON_ArrayForEach(member, members)
    {
        char amount[AMOUNT_BYTES], ago[MOMENT_BYTES];
        table_put(&table, "%s", field_text(member, "user"));
        table_put(&table, "%s", field_text(member, "role"));
        table_put(&table, "%s", amount_text(field_number(member, "balance"), amount));
        table_put(&table, "%s", moment_ago(field_integer(member, "since"), moment_now(), ago));
    }
    fputc('\n', output);
    weft_status status = table_print(&table, output, error);
    table_end(&table);
    return status;
}

static const struct table_column entry_columns[] = {{.title = "time"},
                                                    {.title = "posting", .right = true},
                                                    {.title = "kind"},
                                                    {.title = "account", .least = 8},
                                                    {.title = "amount", .right = true},
                                                    {.title = "run", .right = true},
                                                    {.title = "by", .least = 5},
                                                    {.title = "detail", .least = 10, .wraps = true}};

static void admin_budget_put_entry(struct table *table, const cJSON *entry)
{
    char clock[MOMENT_BYTES], amount[AMOUNT_BYTES], run[32] = "";
    const char *user = field_text(entry, "user");
    if (field_number(entry, "run") > 0)
        snprintf(run, sizeof run, "%" PRId64, field_integer(entry, "run"));
    table_put(table, "%s", moment_clock(field_integer(entry, "time"), clock));
    table_put(table, "%" PRId64, field_integer(entry, "posting"));
    table_put(table, "%s", field_text(entry, "kind"));
    table_put(table, "%s%s%s", field_text(entry, "account"), *user ? " " : "", user);
    table_put(table, "%s", amount_text(field_number(entry, "amount"), amount));
    table_put(table, "%s", run);
    table_put(table, "%s", field_text(entry, "actor"));
    table_put(table, "%s", field_text(entry, "detail"));
}

static void print_csv_entry(void *output, const cJSON *entry)
{
    csv_put_object(output, budget_json_entry_columns, entry);
}

static weft_status print_entries(struct platform *platform, const char *project, FILE *output, struct error *error)
{
    struct platform_path path;
    struct platform_listed listed = {0};
    struct table table;
    const cJSON *entry;
    platform_path_begin(&path, "projects");
    platform_path_part(&path, project);
    platform_path_part(&path, "ledger");
    if (chosen.csv) {
        csv_put_header(output, budget_json_entry_columns);
        return platform_list_each(platform, &path, &platform_list_ledger, chosen.entries, print_csv_entry, output,
                                  error);
    }
    if (chosen.json)
        return platform_list_print(platform, &path, &platform_list_ledger, chosen.entries, output, error);
    weft_status status = platform_list_get(platform, &path, &platform_list_ledger,
                                           chosen.entries ? chosen.entries : ENTRIES_SHOWN, &listed, error);
    if (status != WEFT_OK)
        return status;
    table_begin(&table, entry_columns, sizeof entry_columns / sizeof *entry_columns);
    cJSON_ArrayForEach(entry, listed.items)
    {
        admin_budget_put_entry(&table, entry);
    }
    const int64_t shown = (int64_t)table_rows(&table);
    if (shown > 0) {
        fputc('\n', output);
        status = table_print(&table, output, error);
    }
    if (status == WEFT_OK && listed.more)
        platform_list_cut(output, "entries of the ledger", "newest", -1, shown, "--entries N shows more");
    table_end(&table);
    platform_listed_free(&listed);
    return status;
}

static weft_status show_one(struct platform *platform, const char *project, FILE *output, struct error *error)
{
    cJSON *object = NULL;
    weft_status status = get_project(platform, project, &object, error);
    if (status != WEFT_OK)
        return status;
    if (chosen.json) {
        platform_print_json(object, output);
    } else if (!chosen.csv) {
        fprintf(output, "project %s, in slot-minutes\n", project);
        print_budget(field(object, "budget"), output);
        status = print_members(field(object, "members"), output, error);
    }
    cJSON_Delete(object);
    return status == WEFT_OK ? print_entries(platform, project, output, error) : status;
}

static const struct table_column project_columns[] = {
    {.title = "project", .least = 8},  {.title = "your role"},           {.title = "yours", .right = true},
    {.title = "pool", .right = true},  {.title = "held", .right = true}, {.title = "spent", .right = true},
    {.title = "a day", .right = true}, {.title = "cap", .right = true}};

static double admin_budget_balance_of(const cJSON *members, const char *user)
{
    const cJSON *member;
    cJSON_ArrayForEach(member, members)
    {
        if (strcmp(field_text(member, "user"), user) == 0)
            return field_number(member, "balance");
    }
    return 0;
}

static void admin_budget_put_project(struct table *table, const cJSON *project, const char *user)
{
    static const char *const keys[] = {"pool", "held", "spent", "rate_per_day", "cap"};
    const cJSON *budget = field(project, "budget");
    char amount[AMOUNT_BYTES];
    bool limited = field_true(budget, "limited");
    table_put(table, "%s", field_text(project, "project"));
    table_put(table, "%s", field_text(project, "role"));
    table_put(table, "%s",
              limited ? amount_text(admin_budget_balance_of(field(project, "members"), user), amount) : "");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        bool told = limited || strcmp(keys[i], "spent") == 0 || strcmp(keys[i], "held") == 0;
        table_put(table, "%s", told ? amount_text(field_number(budget, keys[i]), amount) : i == 0 ? "no limit" : "");
    }
}

static weft_status show_all(struct platform *platform, FILE *output, struct error *error)
{
    struct platform_path path;
    struct table table;
    cJSON *reply = NULL;
    const cJSON *item;
    platform_path_begin(&path, "projects");
    weft_status status = platform_get(platform, &path, &reply, error);
    table_begin(&table, project_columns, sizeof project_columns / sizeof *project_columns);
    cJSON_ArrayForEach(item, field(reply, "projects"))
    {
        cJSON *project = NULL;
        if (status == WEFT_OK)
            status = get_project(platform, field_text(item, "project"), &project, error);
        if (status == WEFT_OK && chosen.json)
            platform_print_json(project, output);
        else if (status == WEFT_OK)
            admin_budget_put_project(&table, project, platform->user);
        cJSON_Delete(project);
    }
    const bool any = table_rows(&table) > 0;
    if (status == WEFT_OK && any)
        status = table_print(&table, output, error);
    if (status == WEFT_OK && !chosen.json)
        fputs(any ? "\namounts are slot-minutes\n" : "you are in no project yet\n", output);
    table_end(&table);
    cJSON_Delete(reply);
    return status;
}

static weft_status admin_budget_run_show(struct command_call *call, struct error *error)
{
    struct platform platform;
    if (chosen.csv && (chosen.json || call->word_count == 0))
        return admin_budget_misused(
            call, error_set(error, WEFT_ERROR_ARGUMENT,
                            "%s: --csv is the ledger of a project: name one, and give it without --json", call->name));
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    status = call->word_count > 0 ? show_one(&platform, call->words[0], call->output, error)
                                  : show_all(&platform, call->output, error);
    platform_close(&platform);
    return status;
}

/* ---- changing ---- */

static weft_status admin_budget_change(struct command_call *call, struct platform *platform, const char *method,
                                       const char *what, const struct json_writer *body, struct error *error)
{
    struct platform_path path;
    cJSON *budget = NULL;
    const char *project = call->words[0];
    platform_path_begin(&path, "projects");
    platform_path_part(&path, project);
    platform_path_part(&path, what);
    weft_status status = platform_send(platform, method, &path, body, NULL, &budget, error);
    if (status != WEFT_OK)
        return platform_project_unknown(platform, project, error);
    if (chosen.json && budget) {
        platform_print_json(budget, call->output);
    } else {
        fprintf(call->output, "project %s, in slot-minutes\n", project);
        print_budget(budget, call->output);
    }
    cJSON_Delete(budget);
    return WEFT_OK;
}

/* The budget that there is, with what was given in its place. */
static weft_status write_budget(struct command_call *call, struct platform *platform, double rate, double cap,
                                struct json_writer *body, struct error *error)
{
    cJSON *project = NULL;
    weft_status status = get_project(platform, call->words[0], &project, error);
    if (status != WEFT_OK)
        return status;
    const cJSON *budget = field(project, "budget");
    bool limited = field_true(budget, "limited");
    if (!limited && !chosen.cap)
        status = admin_budget_misused(
            call, error_set(error, WEFT_ERROR_ARGUMENT,
                            "project %s has no budget yet: say how much it may have, with --cap", call->words[0]));
    json_open_object(body, NULL);
    json_put_number(body, "rate_per_day", chosen.rate ? rate : field_number(budget, "rate_per_day"));
    json_put_number(body, "cap", chosen.cap ? cap : field_number(budget, "cap"));
    json_put_bool(body, "shared", chosen.shared || (!chosen.not_shared && (!limited || field_true(budget, "shared"))));
    json_close(body);
    cJSON_Delete(project);
    return status;
}

static weft_status admin_budget_run_set(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct json_writer body;
    double rate = 0, cap = 0;
    weft_status status = WEFT_OK;
    if (chosen.rate)
        status = admin_budget_misused(call, amount_parse(chosen.rate, "weft budget set: --rate", 0, &rate, error));
    if (status == WEFT_OK && chosen.cap)
        status = admin_budget_misused(call, amount_parse(chosen.cap, "weft budget set: --cap", 0, &cap, error));
    if (status == WEFT_OK && chosen.shared && chosen.not_shared)
        status = admin_budget_misused(call, error_set(error, WEFT_ERROR_ARGUMENT,
                                                      "%s: --shared and --not-shared exclude each other", call->name));
    if (status == WEFT_OK && !chosen.rate && !chosen.cap && !chosen.shared && !chosen.not_shared)
        status = admin_budget_misused(
            call, error_set(error, WEFT_ERROR_ARGUMENT,
                            "%s changes nothing without --rate, --cap, --shared or --not-shared", call->name));
    if (status == WEFT_OK)
        status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    json_begin(&body, JSON_LINE);
    status = write_budget(call, &platform, rate, cap, &body, error);
    if (status == WEFT_OK)
        status = admin_budget_change(call, &platform, "PUT", "budget", &body, error);
    json_end(&body);
    platform_close(&platform);
    return status;
}

/* A grant or a transfer: an amount, with the texts that were given. */
static weft_status move(struct command_call *call, const char *what, double least, struct error *error)
{
    struct platform platform;
    struct json_writer body;
    double amount;
    const struct {
        const char *key, *text;
    } texts[] = {{"from", chosen.from}, {"to", chosen.to}, {"detail", chosen.detail}};
    weft_status status = admin_budget_misused(call, amount_parse(call->words[1], "AMOUNT", least, &amount, error));
    if (status == WEFT_OK)
        status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    json_begin(&body, JSON_LINE);
    json_open_object(&body, NULL);
    json_put_number(&body, "amount", amount);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].text)
            json_put_text(&body, texts[i].key, texts[i].text);
    json_close(&body);
    status = admin_budget_change(call, &platform, "POST", what, &body, error);
    json_end(&body);
    platform_close(&platform);
    return status;
}

static weft_status run_grant(struct command_call *call, struct error *error)
{
    return move(call, "grants", -1e10, error);
}

static weft_status run_transfer(struct command_call *call, struct error *error)
{
    if (!chosen.from && !chosen.to)
        return admin_budget_misused(call, error_set(error, WEFT_ERROR_ARGUMENT,
                                                    "%s needs --from or --to: a member; the other side is the pool",
                                                    call->name));
    return move(call, "transfers", 0, error);
}

static weft_status run_refund(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct platform_path path;
    struct json_writer body;
    char text[AMOUNT_BYTES];
    int64_t run = 0;
    cJSON *reply = NULL;
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    json_begin(&body, JSON_LINE);
    json_open_object(&body, NULL);
    if (chosen.detail)
        json_put_text(&body, "detail", chosen.detail);
    json_close(&body);
    status = run_reference_find(&platform, call->words[0], &run, error);
    if (status == WEFT_OK) {
        platform_path_begin(&path, "runs");
        platform_path_number(&path, run);
        platform_path_part(&path, "refund");
        status = platform_send(&platform, "POST", &path, &body, NULL, &reply, error);
        if (status != WEFT_OK)
            status = platform_run_unknown(&platform, run, error);
    }
    if (status == WEFT_OK && chosen.json && reply)
        platform_print_json(reply, call->output);
    else if (status == WEFT_OK)
        fprintf(call->output, "run %" PRId64 ": %s slot-minutes are given back to project %s\n", run,
                amount_text(field_number(reply, "refunded"), text), field_text(reply, "project"));
    cJSON_Delete(reply);
    json_end(&body);
    platform_close(&platform);
    return status;
}

/* ---- tables ---- */

static const struct cli_option set_options[] = {
    CLI_TEXT("rate", 0, "AMOUNT", &chosen.rate, NULL, "what comes to its pool in a day, bit by bit"),
    CLI_TEXT("cap", 0, "AMOUNT", &chosen.cap, NULL,
             "it grows until pool, members and held together are this; what comes beyond is lost"),
    CLI_FLAG("shared", 0, &chosen.shared,
             "members draw on the pool when their own account does not suffice (at first)"),
    CLI_FLAG("not-shared", 0, &chosen.not_shared, "members have only what was handed to them"),
    CLI_FLAG("json", 0, &chosen.json, "the budget as a line of JSON"),
};

static const struct cli_option grant_options[] = {
    CLI_TEXT("detail", 0, "TEXT", &chosen.detail, NULL, "what for; kept in the ledger"),
    CLI_FLAG("json", 0, &chosen.json, "the budget as a line of JSON"),
};

static const struct cli_option transfer_options[] = {
    CLI_TEXT("from", 0, "USER", &chosen.from, NULL, "the member who gives", .default_text = "the pool"),
    CLI_TEXT("to", 0, "USER", &chosen.to, NULL, "the member who gets", .default_text = "the pool"),
    CLI_TEXT("detail", 0, "TEXT", &chosen.detail, NULL, "what for; kept in the ledger"),
    CLI_FLAG("json", 0, &chosen.json, "the budget as a line of JSON"),
};

static const struct command set = {
    .name = "set",
    .summary = "give a project a budget, or change how it grows",
    .description =
        "What is not given stays as it is. Until it has a budget, a project is not limited. For administrators.",
    .examples = "weft budget set vision --rate 8x24h --cap 8x7d\n",
    .words = "PROJECT",
    COMMAND_OPTIONS(set_options),
    .run = admin_budget_run_set,
};

static const struct command grant = {
    .name = "grant",
    .summary = "add an amount to a project's pool",
    .description = "It may go beyond the cap. An amount below 0, behind \"--\", takes away. For administrators.",
    .examples = "weft budget grant vision 8x12h --detail 'the conference'\nweft budget grant vision -- -600\n",
    .words = "PROJECT AMOUNT",
    COMMAND_OPTIONS(grant_options),
    .run = run_grant,
};

static const struct command transfer = {
    .name = "transfer",
    .summary = "move an amount between a project's pool and its members",
    .description = "For managers of the project.",
    .examples = "weft budget transfer vision 20h --to anna\nweft budget transfer vision 600 --from anna --to bert\n",
    .words = "PROJECT AMOUNT",
    COMMAND_OPTIONS(transfer_options),
    .run = run_transfer,
};

static const struct cli_option refund_options[] = {
    CLI_TEXT("detail", 0, "TEXT", &chosen.detail, NULL, "why; kept in the ledger"),
    CLI_FLAG("json", 0, &chosen.json, "what was given back as a line of JSON"),
};

static const struct command refund = {
    .name = "refund",
    .summary = "give back what a run was charged",
    .description = "What the platform has failed costs nothing; where that is found out later, this gives back what "
                   "the run's ended attempts were charged, to whoever paid, once. For administrators.",
    .examples = "weft budget refund 12 --detail 'a bad disk'\n",
    .words = "RUN",
    COMMAND_OPTIONS(refund_options),
    .run = run_refund,
};

static const struct command *const subcommands[] = {&grant, &refund, &set, &transfer};

const struct command command_budget = {
    .name = "budget",
    .group = COMMAND_PLATFORM,
    .summary = "show what a project has, holds and has spent; change it",
    .description =
        "Amounts are slot-minutes: one slot for a minute. They are written as such (1200), as the time of one slot "
        "(20h), or as slots and a time (8x6h is 2880). Without PROJECT: all of yours, a line each.\n\n"
        "A run holds its slots times its time limit while it runs. In the end it is charged with what it has used, and "
        "the rest goes back; what the platform has failed costs nothing.",
    .examples = "weft budget\nweft budget vision --entries 50\nweft budget vision --entries 1000 --csv > "
                "ledger.csv\nweft budget set vision --rate 8x24h --cap 8x7d\n"
                "weft budget transfer vision 20h --to anna\n",
    .words = "[PROJECT]",
    COMMAND_OPTIONS(show_options),
    COMMAND_SUBCOMMANDS(subcommands),
    .run = admin_budget_run_show,
};
