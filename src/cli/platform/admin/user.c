/* SPDX-License-Identifier: Apache-2.0 */
/* `weft user`: who may use the platform. */
#include "cli/frame/command.h"
#include "cli/frame/moments.h"
#include "cli/frame/table.h"
#include "cli/platform/client/client.h"
#include "platform/registry/name.h"

#include <string.h>

#define EXIT_MISUSED 2

static struct {
    bool json, administrator, none;
    const char *account;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each"),
};

static const struct table_column columns[] = {{.title = "user", .least = 8},
                                              {.title = "administrator"},
                                              {.title = "account"},
                                              {.title = "made"},
                                              {.title = "state"}};

static weft_status admin_user_run_list(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct platform_path path;
    struct table table;
    cJSON *reply = NULL;
    const cJSON *user;
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    platform_path_begin(&path, "users");
    status = platform_get(&platform, &path, &reply, error);
    platform_close(&platform);
    if (status != WEFT_OK)
        return status;
    table_begin(&table, columns, sizeof columns / sizeof *columns);
    cJSON_ArrayForEach(user, field(reply, "users"))
    {
        char ago[MOMENT_BYTES];
        if (chosen.json) {
            platform_print_json(user, call->output);
            continue;
        }
        table_put(&table, "%s", field_text(user, "user"));
        table_put(&table, "%s", field_true(user, "administrator") ? "yes" : "no");
        table_put(&table, "%s", field_text(user, "account"));
        table_put(&table, "%s", moment_ago(field_integer(user, "created"), moment_now(), ago));
        table_put(&table, "%s", field_true(user, "disabled") ? "disabled" : "");
    }
    if (!chosen.json)
        status = table_print(&table, call->output, error);
    table_end(&table);
    cJSON_Delete(reply);
    return status;
}

/* Send `body`, which is ended, about the user whom the first word names; NULL: the user is disabled. */
static weft_status admin_user_change(struct command_call *call, struct json_writer *body, struct error *error)
{
    struct platform platform;
    struct platform_path path;
    weft_status status = platform_name_check(call->words[0], "the user", error);
    if (status != WEFT_OK)
        call->exit_code = EXIT_MISUSED;
    else
        status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status == WEFT_OK) {
        platform_path_begin(&path, "users");
        platform_path_part(&path, call->words[0]);
        status = platform_send(&platform, body ? "PUT" : "DELETE", &path, body, NULL, NULL, error);
        platform_close(&platform);
    }
    if (body)
        json_end(body);
    return status;
}

static weft_status admin_user_run_make(struct command_call *call, struct error *error)
{
    struct json_writer body;
    json_begin(&body, JSON_LINE);
    json_open_object(&body, NULL);
    json_put_bool(&body, "administrator", chosen.administrator);
    if (chosen.account)
        json_put_text(&body, "account", chosen.account);
    json_close(&body);
    weft_status status = admin_user_change(call, &body, error);
    if (status == WEFT_OK)
        fprintf(call->output, "%s is a user%s%s%s\n", call->words[0],
                chosen.administrator ? ", and an administrator" : "", chosen.account ? ", with the account " : "",
                chosen.account ? chosen.account : "");
    return status;
}

static weft_status run_account(struct command_call *call, struct error *error)
{
    struct json_writer body;
    const char *account = call->word_count > 1 ? call->words[1] : "";
    if (chosen.none == (*account != '\0')) {
        call->exit_code = EXIT_MISUSED;
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "say which account the runs of %s belong to from now on, or --none", call->words[0]);
    }
    json_begin(&body, JSON_LINE);
    json_open_object(&body, NULL);
    json_put_text(&body, "account", account);
    json_close(&body);
    weft_status status = admin_user_change(call, &body, error);
    if (status == WEFT_OK && *account)
        fprintf(call->output, "%s's runs belong to the account %s from now on\n", call->words[0], account);
    else if (status == WEFT_OK)
        fprintf(call->output, "%s has no account any more\n", call->words[0]);
    return status;
}

static weft_status run_disable(struct command_call *call, struct error *error)
{
    weft_status status = admin_user_change(call, NULL, error);
    if (status == WEFT_OK)
        fprintf(call->output, "%s may do nothing any more; what they did is kept\n", call->words[0]);
    return status;
}

static const struct cli_option make_options[] = {
    CLI_FLAG("administrator", 0, &chosen.administrator,
             "may do everything: users, projects, budgets, nodes; without it, somebody who was one is none any more"),
    CLI_TEXT("account", 0, "ACCOUNT", &chosen.account, NULL,
             "their runs' processes and files belong to this account of the machine: needed where the server runs as "
             "root"),
};

static const struct cli_option account_options[] = {
    CLI_FLAG("none", 0, &chosen.none, "they have none any more, and can submit nothing where the server runs as root"),
};

static const struct command make = {
    .name = "make",
    .summary = "make a user, or change whether they are an administrator",
    .description =
        "Who was disabled is not any more. 'weft token make --user NAME' gives them a token. For administrators.",
    .examples = "weft user make anna\nweft user make ben --account ben\nweft token make --user anna\n",
    .words = "USER",
    COMMAND_OPTIONS(make_options),
    .run = admin_user_run_make,
};

static const struct command account = {
    .name = "account",
    .summary = "say which account of the machine the runs of a user belong to",
    .description =
        "Where the server runs as root, the processes and files of every run belong to the account of its owner, and "
        "who has none can submit nothing; root can be nobody's. Two users with one account are not kept apart by the "
        "machine. Runs that have begun stay with the account that they have. Where the server does not run as root, "
        "all runs are processes of its own user. For administrators.",
    .examples = "weft user account anna anna\nweft user account anna --none\n",
    .words = "USER [ACCOUNT]",
    COMMAND_OPTIONS(account_options),
    .run = run_account,
};

static const struct command disable = {
    .name = "disable",
    .summary = "let nobody act as a user any more",
    .description = "For administrators.",
    .words = "USER",
    .run = run_disable,
};

static const struct command *const subcommands[] = {&account, &disable, &make};

const struct command command_user = {
    .name = "user",
    .group = COMMAND_PLATFORM,
    .summary = "list who may use the platform; make and disable users; give them accounts",
    .examples = "weft user\nweft user make anna\n",
    COMMAND_OPTIONS(options),
    COMMAND_SUBCOMMANDS(subcommands),
    .run = admin_user_run_list,
};
