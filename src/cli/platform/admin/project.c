/* SPDX-License-Identifier: Apache-2.0 */
/* `weft project`: projects and who is in them. */
#include "base/text.h"
#include "cli/frame/command.h"
#include "cli/frame/moments.h"
#include "cli/frame/table.h"
#include "cli/platform/client/client.h"
#include "platform/registry/name.h"

#include <string.h>

#define EXIT_MISUSED 2

static struct {
    bool json;
    const char *title, *role;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each"),
};

/* ---- looking ---- */

static const struct table_column columns[] = {{.title = "project", .least = 8},
                                              {.title = "your role"},
                                              {.title = "made"},
                                              {.title = "disk"},
                                              {.title = "title", .least = 10}};

static weft_status admin_project_list(struct platform *platform, FILE *output, struct error *error)
{
    struct platform_path path;
    struct table table;
    cJSON *reply = NULL;
    const cJSON *project;
    platform_path_begin(&path, "projects");
    weft_status status = platform_get(platform, &path, &reply, error);
    if (status != WEFT_OK)
        return status;
    table_begin(&table, columns, sizeof columns / sizeof *columns);
    cJSON_ArrayForEach(project, field(reply, "projects"))
    {
        char ago[MOMENT_BYTES], disk[32];
        if (chosen.json) {
            platform_print_json(project, output);
            continue;
        }
        table_put(&table, "%s", field_text(project, "project"));
        table_put(&table, "%s", field_text(project, "role"));
        table_put(&table, "%s", moment_ago(field_integer(project, "created"), moment_now(), ago));
        table_put(&table, "%s", text_bytes((uint64_t)field_integer(project, "disk_bytes"), disk, sizeof disk));
        const char *title = field_text(project, "title"), *closed = *title ? "(closed) " : "(closed)";
        table_put(&table, "%s%s", field_present(project, "closed") ? closed : "", title);
    }
    if (!chosen.json && table_rows(&table) > 0)
        status = table_print(&table, output, error);
    else if (!chosen.json)
        fprintf(output, "you are in no project yet\n");
    table_end(&table);
    cJSON_Delete(reply);
    return status;
}

static const struct table_column member_columns[] = {
    {.title = "member", .least = 8}, {.title = "role"}, {.title = "since"}};

static weft_status members(struct platform *platform, const char *project, FILE *output, struct error *error)
{
    struct platform_path path;
    struct table table;
    cJSON *reply = NULL;
    const cJSON *member;
    platform_path_begin(&path, "projects");
    platform_path_part(&path, project);
    weft_status status = platform_get(platform, &path, &reply, error);
    if (status != WEFT_OK)
        return platform_project_unknown(platform, project, error);
    table_begin(&table, member_columns, sizeof member_columns / sizeof *member_columns);
    cJSON_ArrayForEach(member, field(reply, "members"))
    {
        char ago[MOMENT_BYTES];
        if (chosen.json) {
            platform_print_json(member, output);
            continue;
        }
        table_put(&table, "%s", field_text(member, "user"));
        table_put(&table, "%s", field_text(member, "role"));
        table_put(&table, "%s", moment_ago(field_integer(member, "since"), moment_now(), ago));
    }
    if (!chosen.json)
        status = table_print(&table, output, error);
    table_end(&table);
    cJSON_Delete(reply);
    return status;
}

static weft_status admin_project_run_show(struct command_call *call, struct error *error)
{
    struct platform platform;
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    status = call->word_count > 0 ? members(&platform, call->words[0], call->output, error)
                                  : admin_project_list(&platform, call->output, error);
    platform_close(&platform);
    return status;
}

/* ---- changing ---- */

static weft_status admin_project_check_name(struct command_call *call, size_t word, const char *what,
                                            struct error *error)
{
    weft_status status = platform_name_check(call->words[word], what, error);
    if (status != WEFT_OK)
        call->exit_code = EXIT_MISUSED;
    return status;
}

static weft_status admin_project_run_make(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct platform_path path;
    struct json_writer body;
    cJSON *reply = NULL;
    weft_status status = admin_project_check_name(call, 0, "the project", error);
    if (status == WEFT_OK)
        status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    json_begin(&body, JSON_LINE);
    json_open_object(&body, NULL);
    json_put_text(&body, "project", call->words[0]);
    if (chosen.title)
        json_put_text(&body, "title", chosen.title);
    json_close(&body);
    platform_path_begin(&path, "projects");
    status = platform_send(&platform, "POST", &path, &body, NULL, &reply, error);
    if (status == WEFT_OK && chosen.json && reply)
        platform_print_json(reply, call->output);
    else if (status == WEFT_OK)
        fprintf(call->output, "project %s is made, and you are its manager\n", call->words[0]);
    cJSON_Delete(reply);
    json_end(&body);
    platform_close(&platform);
    return status;
}

static weft_status admin_project_close_or_reopen(struct command_call *call, const char *what, const char *done,
                                                 struct error *error)
{
    struct platform platform;
    struct platform_path path;
    cJSON *reply = NULL;
    weft_status status = admin_project_check_name(call, 0, "the project", error);
    if (status == WEFT_OK)
        status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    platform_path_begin(&path, "projects");
    platform_path_part(&path, call->words[0]);
    platform_path_part(&path, what);
    status = platform_send(&platform, "POST", &path, NULL, NULL, &reply, error);
    if (status != WEFT_OK)
        status = platform_project_unknown(&platform, call->words[0], error);
    else if (chosen.json && reply)
        platform_print_json(reply, call->output);
    else
        fprintf(call->output, "project %s %s\n", call->words[0], done);
    cJSON_Delete(reply);
    platform_close(&platform);
    return status;
}

static weft_status run_close(struct command_call *call, struct error *error)
{
    return admin_project_close_or_reopen(call, "close", "takes no more runs; those that it has go on", error);
}

static weft_status run_reopen(struct command_call *call, struct error *error)
{
    return admin_project_close_or_reopen(call, "reopen", "takes runs again", error);
}

/* Put or delete a member. */
static weft_status admin_project_change_member(struct command_call *call, const char *method, struct error *error)
{
    struct platform platform;
    struct platform_path path;
    struct json_writer body;
    const char *project = call->words[0], *user = call->words[1];
    weft_status status = admin_project_check_name(call, 0, "the project", error);
    if (status == WEFT_OK)
        status = admin_project_check_name(call, 1, "the user", error);
    if (status == WEFT_OK)
        status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    bool put = strcmp(method, "PUT") == 0;
    platform_path_begin(&path, "projects");
    platform_path_part(&path, project);
    platform_path_part(&path, "members");
    platform_path_part(&path, user);
    json_begin(&body, JSON_LINE);
    json_open_object(&body, NULL);
    json_put_text(&body, "role", chosen.role);
    json_close(&body);
    status = platform_send(&platform, method, &path, put ? &body : NULL, NULL, NULL, error);
    if (status != WEFT_OK)
        status = platform_project_unknown(&platform, project, error);
    else if (put)
        fprintf(call->output, "%s is a %s of project %s\n", user, chosen.role, project);
    else
        fprintf(call->output, "%s is in project %s no more\n", user, project);
    json_end(&body);
    platform_close(&platform);
    return status;
}

static weft_status run_add(struct command_call *call, struct error *error)
{
    return admin_project_change_member(call, "PUT", error);
}

static weft_status admin_project_run_remove(struct command_call *call, struct error *error)
{
    return admin_project_change_member(call, "DELETE", error);
}

/* ---- tables ---- */

static const char *const roles[] = {"viewer", "member", "manager", NULL};

static const struct cli_option make_options[] = {
    CLI_TEXT("title", 0, "TEXT", &chosen.title, NULL, "what it is about, for people"),
    CLI_FLAG("json", 0, &chosen.json, "the project as a line of JSON"),
};

static const struct cli_option add_options[] = {
    CLI_CHOICE("role", 'r', "ROLE", &chosen.role, "member", roles,
               "a viewer looks; a member submits runs; a manager stops any run, and has members and budget in hand"),
};

static const struct command make = {
    .name = "make",
    .summary = "make a project, of which you are the first manager",
    .description = "A name has 1 to 63 small letters, digits, '-', '_' and '.'. For administrators.",
    .examples = "weft project make vision --title 'Segmentation of street scenes'\n",
    .words = "PROJECT",
    COMMAND_OPTIONS(make_options),
    .run = admin_project_run_make,
};

static const struct cli_option close_options[] = {
    CLI_FLAG("json", 0, &chosen.json, "the project as a line of JSON"),
};

static const struct command close_project = {
    .name = "close",
    .summary = "take no more runs into a project",
    .description = "Its runs go on, also those that wait, and all that is known of it stays. 'weft project reopen' "
                   "undoes it. For administrators.",
    .words = "PROJECT",
    COMMAND_OPTIONS(close_options),
    .run = run_close,
};

static const struct command reopen = {
    .name = "reopen",
    .summary = "take runs into a closed project again",
    .description = "For administrators.",
    .words = "PROJECT",
    COMMAND_OPTIONS(close_options),
    .run = run_reopen,
};

static const struct command add = {
    .name = "add",
    .summary = "take a user into a project, or change their role in it",
    .description = "For managers of the project.",
    .examples = "weft project add vision anna --role manager\n",
    .words = "PROJECT USER",
    COMMAND_OPTIONS(add_options),
    .run = run_add,
};

static const struct command remove_member = {
    .name = "remove",
    .summary = "take a user's role in a project away",
    .description = "What they have run stays. For managers of the project.",
    .words = "PROJECT USER",
    .run = admin_project_run_remove,
};

static const struct command *const subcommands[] = {&add, &close_project, &make, &remove_member, &reopen};

const struct command command_project = {
    .name = "project",
    .group = COMMAND_PLATFORM,
    .summary = "list projects, or the members of one; make and close them, take users in",
    .examples = "weft project\nweft project vision\nweft project make vision\nweft project add vision anna\n",
    .words = "[PROJECT]",
    COMMAND_OPTIONS(options),
    COMMAND_SUBCOMMANDS(subcommands),
    .run = admin_project_run_show,
};
