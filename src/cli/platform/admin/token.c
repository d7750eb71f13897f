/* SPDX-License-Identifier: Apache-2.0 */
/* `weft token`: how the server recognizes its users. */
#include "base/text.h"
#include "cli/frame/moments.h"
#include "cli/platform/admin/request.h"
#include "platform/access/token_file.h"

#include <string.h>

static struct {
    bool json, all, administrator;
    const char *user, *project, *most, *ends, *note;
} chosen;

/* ---- list ---- */

static const struct table_column columns[] = {
    {.title = "token", .cell = "{id}"},
    {.title = "user", .least = 6, .cell = "{user}"},
    {.title = "project", .least = 7, .cell = "[{project}|all]"},
    {.title = "most", .cell = "[{administrator?}administrator|{most}]"},
    {.title = "made", .cell = "{created:ago}"},
    {.title = "ends", .cell = "[{revoked?}revoked|{ends:ago}|never]"},
    {.title = "note", .least = 8, .cell = "{note}"},
};

static bool token_hides(const cJSON *token)
{
    const bool expired = field_present(token, "ends") && field_integer(token, "ends") <= moment_now();
    return !chosen.all && (field_present(token, "revoked") || expired);
}

/* ---- make, revoke, save ---- */

static void token_print_made(const struct command_call *call, const cJSON *reply)
{
    char time[MOMENT_BYTES];
    fprintf(call->output, "%s\n", field_text(reply, "token"));
    fprintf(stderr, "the token is never shown again; its user stores it with 'weft token save'\n");
    if (field_present(reply, "ends"))
        fprintf(stderr, "it ends at %s\n", moment_clock(field_integer(reply, "ends"), time));
}

/* A whole token is accepted too: its id follows the prefix. */
static weft_status token_find_id(struct command_call *call, struct error *error)
{
    static char id[TOKEN_ID_BYTES];
    if (strncmp(call->words[0], "weft_", 5) == 0) {
        snprintf(id, sizeof id, "%.12s", call->words[0] + 5);
        call->words[0] = id;
    }
    return WEFT_OK;
}

static weft_status token_save_run(struct command_call *call, struct error *error)
{
    char path[FILE_PATH_BYTES], line[256];
    weft_status status = token_file_path(path, error);
    if (status != WEFT_OK)
        return status;
    if (!*path)
        return error_set(error, WEFT_ERROR_ARGUMENT, "you have no home directory; name a file in WEFT_TOKEN_FILE");
    if (!fgets(line, sizeof line, stdin))
        return error_set(error, WEFT_ERROR_DATA, "no token came on standard input");
    line[strcspn(line, " \t\r\n")] = '\0';
    if (strncmp(line, "weft_", 5) != 0 || strlen(line) >= TOKEN_TEXT_BYTES || !text_is_printable(line, false))
        return error_set(error, WEFT_ERROR_DATA, "standard input is no token: it must begin with weft_");
    status = token_file_write(path, line, error);
    if (status == WEFT_OK)
        fprintf(call->output, "the token is in %s, for you alone to read\n", path);
    return status;
}

/* ---- tables ---- */

static const char *const most[] = {"viewer", "member", "manager", NULL};

static const struct cli_option options[] = {
    CLI_FLAG("all", 'a', &chosen.all, "also expired and revoked tokens"),
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each"),
};

static const struct cli_option make_options[] = {
    CLI_TEXT("user", 'u', "USER", &chosen.user, NULL, "whose token it is; for administrators", .default_text = "you"),
    CLI_TEXT("project", 'p', "NAME", &chosen.project, NULL, "only for this project"),
    CLI_CHOICE("most", 0, "ROLE", &chosen.most, NULL, most, "allow at most this role"),
    CLI_FLAG("administrator", 0, &chosen.administrator, "allow what administrators may do"),
    CLI_TEXT("ends", 0, "TIME", &chosen.ends, NULL,
             "expire after this time (30d), at the latest with the token that makes it",
             .default_text = "with that token"),
    CLI_TEXT("note", 0, "TEXT", &chosen.note, NULL, "what it is for"),
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON"),
};

static const struct command make = {
    .name = "make",
    .summary = "make a token and print it, once",
    .examples = "weft token make --note laptop\n"
                "weft token make --user anna --ends 90d\n"
                "weft token make --project vision --most viewer --note dashboard\n",
    COMMAND_OPTIONS(make_options),
    ADMIN_REQUEST(.method = "POST", .path = "tokens",
                  ADMIN_FIELDS({"user", "--user", ADMIN_TEXT}, {"project", "--project", ADMIN_TEXT},
                               {"most", "--most", ADMIN_TEXT}, {"note", "--note", ADMIN_TEXT},
                               {"administrator", "--administrator", ADMIN_FLAG}, {"days", "--ends", ADMIN_DAYS}),
                  .print = token_print_made),
};

static const struct command revoke_token = {
    .name = "revoke",
    .summary = "end a token",
    .description = "TOKEN is its id, as weft token lists it, or the token itself.",
    .examples = "weft token revoke 0123456789ab\n",
    .words = "TOKEN",
    ADMIN_REQUEST(.method = "DELETE", .path = "tokens/{0}", .check = token_find_id, .done = "token {0} is revoked"),
};

static const struct command save = {
    .name = "save",
    .summary = "store a token from standard input where all commands find it",
    .description =
        "The file is WEFT_TOKEN_FILE, or weft/token in XDG_CONFIG_HOME or ~/.config; only you can read it. The token "
        "is read from standard input because others could see it on a command line.",
    .examples = "weft token save\n",
    .run = token_save_run,
};

const struct command command_token = {
    .name = "token",
    .group = COMMAND_PLATFORM,
    .summary = "list your tokens; make, revoke and store them",
    .description =
        "A token identifies its user to a server that accepts requests from other machines. The server keeps only a "
        "hash of it.",
    .examples = "weft token\nweft token make --note laptop\nweft token save\n",
    COMMAND_OPTIONS(options),
    COMMAND_SUBCOMMANDS(&make, &revoke_token, &save),
    ADMIN_REQUEST(.path = "tokens", .items = "tokens", ADMIN_COLUMNS(columns), .hides = token_hides,
                  .empty = "no token is in use"),
};
