/* SPDX-License-Identifier: Apache-2.0 */
/* `weft user`: who may use the platform. */
#include "cli/command.h"
#include "cli/moments.h"
#include "cli/platform_client.h"
#include "cli/table.h"
#include "platform/name.h"

#include <string.h>

#define EXIT_MISUSED 2

static struct {
    bool json, administrator;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each"),
};

static const struct table_column columns[] = {
    {.title = "user", .least = 8}, {.title = "administrator"}, {.title = "made"}, {.title = "state"}};

static weft_status run_list(struct command_call *call, struct error *error)
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
        table_put(&table, "%s", moment_ago(field_integer(user, "created"), moment_now(), ago));
        table_put(&table, "%s", field_true(user, "disabled") ? "disabled" : "");
    }
    if (!chosen.json)
        status = table_print(&table, call->output, error);
    table_end(&table);
    cJSON_Delete(reply);
    return status;
}

static weft_status change(struct command_call *call, const char *method, const char *done, struct error *error)
{
    struct platform platform;
    struct platform_path path;
    struct json_writer body;
    bool put = strcmp(method, "PUT") == 0;
    weft_status status = platform_name_check(call->words[0], "the user", error);
    if (status != WEFT_OK)
        call->exit_code = EXIT_MISUSED;
    else
        status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    platform_path_begin(&path, "users");
    platform_path_part(&path, call->words[0]);
    json_begin(&body, JSON_LINE);
    json_open_object(&body, NULL);
    json_put_bool(&body, "administrator", chosen.administrator);
    json_close(&body);
    status = platform_send(&platform, method, &path, put ? &body : NULL, NULL, NULL, error);
    if (status == WEFT_OK)
        fprintf(call->output, "%s %s%s\n", call->words[0], done,
                put && chosen.administrator ? ", and an administrator" : "");
    json_end(&body);
    platform_close(&platform);
    return status;
}

static weft_status run_make(struct command_call *call, struct error *error)
{
    return change(call, "PUT", "is a user", error);
}

static weft_status run_disable(struct command_call *call, struct error *error)
{
    return change(call, "DELETE", "may do nothing any more; what they did is kept", error);
}

static const struct cli_option make_options[] = {
    CLI_FLAG("administrator", 0, &chosen.administrator,
             "may do everything: users, projects, budgets, nodes; without it, somebody who was one is none any more"),
};

static const struct command make = {
    .name = "make",
    .summary = "make a user, or change whether they are an administrator",
    .description =
        "Who was disabled is not any more. 'weft token make --user NAME' gives them a token. For administrators.",
    .examples = "weft user make anna\nweft token make --user anna\n",
    .words = "USER",
    .least_words = 1,
    .most_words = 1,
    .options = make_options,
    .option_count = sizeof make_options / sizeof *make_options,
    .run = run_make,
};

static const struct command disable = {
    .name = "disable",
    .summary = "let nobody act as a user any more",
    .description = "For administrators.",
    .words = "USER",
    .least_words = 1,
    .most_words = 1,
    .run = run_disable,
};

static const struct command *const subcommands[] = {&disable, &make};

const struct command command_user = {
    .name = "user",
    .group = COMMAND_PLATFORM,
    .summary = "list who may use the platform; make and disable users",
    .examples = "weft user\nweft user make anna\n",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .subcommands = subcommands,
    .subcommand_count = sizeof subcommands / sizeof *subcommands,
    .run = run_list,
};
