/* SPDX-License-Identifier: Apache-2.0 */
/* `weft user` and `weft audit`: who may use the platform, and who did what. */
#include "cli/platform/admin/request.h"

static struct {
    bool json, administrator, none;
    const char *account, *user, *project;
    int64_t entries;
} chosen;

/* ---- users ---- */

static const struct table_column user_columns[] = {{.title = "user", .least = 8, .cell = "{user}"},
                                                   {.title = "administrator", .cell = "[{administrator}|no]"},
                                                   {.title = "account", .cell = "{account}"},
                                                   {.title = "made", .cell = "{created:ago}"},
                                                   {.title = "state", .cell = "[{disabled?}disabled]"}};

static weft_status user_check_account(struct command_call *call, struct error *error)
{
    const char *account = cells_given(call, "1");
    if (chosen.none != (account && *account))
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_ARGUMENT, "say which account the runs of %s belong to, or --none",
                     call->words[0]);
}

static weft_status user_write_account(struct command_call *call, struct platform *platform, struct json_writer *body,
                                      struct error *error)
{
    const char *account = cells_given(call, "1");
    json_put_text(body, "account", account ? account : "");
    return WEFT_OK;
}

static const struct cli_option make_options[] = {
    CLI_FLAG("administrator", 0, &chosen.administrator,
             "may do everything: users, projects, budgets, nodes; without it, an administrator is demoted"),
    CLI_TEXT("account", 0, "ACCOUNT", &chosen.account, NULL,
             "account of the machine that runs their processes and owns their files; needed if the server runs as "
             "root"),
};

static const struct command make = {
    .name = "make",
    .summary = "make a user, or change whether they are an administrator",
    .description = "A disabled user is enabled again. 'weft token make --user NAME' makes a token for them. For "
                   "administrators.",
    .examples = "weft user make anna\nweft user make ben --account ben\nweft token make --user anna\n",
    .words = "USER",
    COMMAND_OPTIONS(make_options),
    ADMIN_REQUEST(.method = "PUT", .path = "users/{0}", .names = {"the user"},
                  ADMIN_FIELDS({"administrator", "--administrator", ADMIN_BOOL}, {"account", "--account", ADMIN_TEXT}),
                  .done = "{0} is a user[{--administrator?}, and an administrator][, with the account {--account}]"),
};

static const struct cli_option account_options[] = {
    CLI_FLAG("none", 0, &chosen.none, "remove their account; they cannot submit runs if the server runs as root"),
};

static const struct command account = {
    .name = "account",
    .summary = "set the account of the machine that a user's runs belong to",
    .description =
        "If the server runs as root, the processes and files of each run belong to the account of its owner. Users "
        "without an account cannot submit runs, and root cannot be anybody's account. The machine does not protect two "
        "users with the same account from each other. Runs that have started keep their account. If the server does "
        "not run as root, all runs are processes of its own user. For administrators.",
    .examples = "weft user account anna anna\nweft user account anna --none\n",
    .words = "USER [ACCOUNT]",
    COMMAND_OPTIONS(account_options),
    ADMIN_REQUEST(.method = "PUT", .path = "users/{0}", .names = {"the user"}, .check = user_check_account,
                  .write = user_write_account,
                  .done = "{0}['s runs belong to the account {1} from now on| has no account any more]"),
};

static const struct command disable = {
    .name = "disable",
    .summary = "refuse a user from now on",
    .description = "Their runs and records stay. For administrators.",
    .words = "USER",
    ADMIN_REQUEST(.method = "DELETE", .path = "users/{0}", .names = {"the user"},
                  .done = "{0} may do nothing any more; what they did is kept"),
};

static const struct cli_option options[] = {
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each"),
};

const struct command command_user = {
    .name = "user",
    .group = COMMAND_PLATFORM,
    .summary = "list who may use the platform; make and disable users, set their accounts",
    .examples = "weft user\nweft user make anna\n",
    COMMAND_OPTIONS(options),
    COMMAND_SUBCOMMANDS(&account, &disable, &make),
    ADMIN_REQUEST(.path = "users", .items = "users", ADMIN_COLUMNS(user_columns)),
};

/* ---- the audit log ---- */

static const struct cli_option audit_options[] = {
    CLI_INTEGER("number", 'n', "N", &chosen.entries, NULL, 1, 1e15, "number of entries, newest first",
                .default_text = "20; all with --json"),
    CLI_TEXT("user", 'u', "USER", &chosen.user, NULL, "only actions of this user"),
    CLI_TEXT("project", 'p', "NAME", &chosen.project, NULL, "only actions that concern this project"),
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each entry"),
};

static const struct table_column audit_columns[] = {{.title = "when", .cell = "{time:ago}"},
                                                    {.title = "user", .least = 6, .cell = "{user}"},
                                                    {.title = "from", .least = 9, .cell = "{address}"},
                                                    {.title = "project", .least = 7, .cell = "{project}"},
                                                    {.title = "what", .least = 10, .cell = "{what}"},
                                                    {.title = "of", .least = 8, .cell = "{target}"},
                                                    {.title = "status", .right = true, .cell = "{status}"}};

static const char *const audit_queries[] = {"user", "project", NULL};

const struct command command_audit = {
    .name = "audit",
    .group = COMMAND_PLATFORM,
    .summary = "show who did what on the platform",
    .description =
        "Lists changes and refused requests, newest first: when, by whom, from which address, in which project, the "
        "action (as the HTTP interface names it), its target, and the HTTP status of the reply, which is 4xx for a "
        "refusal. For administrators.",
    .examples = "weft audit\nweft audit --user anna -n 100\nweft audit --project vision --json > audit.jsonl\n",
    COMMAND_OPTIONS(audit_options),
    ADMIN_REQUEST(.path = "audit", .queries = audit_queries, ADMIN_COLUMNS(audit_columns),
                  .empty = "nothing [{--user?}of that kind was done|{--project?}of that kind was done|was done yet]",
                  .pages = &platform_list_audit, .noun = "entries", .more = "--number N shows more",
                  .limit = &chosen.entries, .shown = 20),
};
