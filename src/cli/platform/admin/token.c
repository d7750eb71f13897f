/* SPDX-License-Identifier: Apache-2.0 */
/* `weft token`: by what the server knows who asks. */
#include "base/text.h"
#include "cli/frame/command.h"
#include "cli/frame/moments.h"
#include "cli/frame/table.h"
#include "cli/platform/client/client.h"
#include "platform/access/token_file.h"

#include <stdlib.h>
#include <string.h>

#define EXIT_MISUSED 2
#define DAY_SECONDS  86400

static struct {
    bool json, all, administrator;
    const char *user, *project, *most, *ends, *note;
} chosen;

/* ---- list ---- */

static const struct table_column columns[] = {{.title = "token"},
                                              {.title = "user", .least = 6},
                                              {.title = "project", .least = 7},
                                              {.title = "most"},
                                              {.title = "made"},
                                              {.title = "ends"},
                                              {.title = "note", .least = 8}};

static void token_put(struct table *table, const cJSON *token, int64_t now)
{
    char made[MOMENT_BYTES], ends[MOMENT_BYTES];
    table_put(table, "%s", field_text(token, "id"));
    table_put(table, "%s", field_text(token, "user"));
    table_put(table, "%s", *field_text(token, "project") ? field_text(token, "project") : "all");
    table_put(table, "%s", field_true(token, "administrator") ? "administrator" : field_text(token, "most"));
    table_put(table, "%s", moment_ago(field_integer(token, "created"), now, made));
    if (field_present(token, "revoked"))
        table_put(table, "revoked");
    else
        table_put(table, "%s",
                  field_present(token, "ends") ? moment_ago(field_integer(token, "ends"), now, ends) : "never");
    table_put(table, "%s", field_text(token, "note"));
}

static bool token_is_over(const cJSON *token, int64_t now)
{
    return field_present(token, "revoked") || (field_present(token, "ends") && field_integer(token, "ends") <= now);
}

static weft_status token_run_list(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct platform_path path;
    struct table table;
    int64_t now = moment_now();
    cJSON *reply = NULL;
    const cJSON *token;
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    platform_path_begin(&path, "tokens");
    status = platform_get(&platform, &path, &reply, error);
    platform_close(&platform);
    if (status != WEFT_OK)
        return status;
    table_begin(&table, columns, sizeof columns / sizeof *columns);
    cJSON_ArrayForEach(token, field(reply, "tokens"))
    {
        if (!chosen.all && token_is_over(token, now))
            continue;
        if (chosen.json)
            platform_print_json(token, call->output);
        else
            token_put(&table, token, now);
    }
    if (!chosen.json && table_rows(&table) > 0)
        status = table_print(&table, call->output, error);
    else if (!chosen.json)
        fprintf(call->output, "no token is in use\n");
    table_end(&table);
    cJSON_Delete(reply);
    return status;
}

/* ---- make, revoke, save ---- */

/* Whole days until it ends; 0: it does not. */
static weft_status read_days(struct command_call *call, int64_t *days, struct error *error)
{
    int64_t seconds = 0;
    *days = 0;
    if (!chosen.ends)
        return WEFT_OK;
    weft_status status = text_parse_duration(chosen.ends, "weft token make: --ends", &seconds, error);
    if (status == WEFT_OK && (seconds % DAY_SECONDS != 0 || seconds > 3660 * (int64_t)DAY_SECONDS))
        status = error_set(error, WEFT_ERROR_ARGUMENT,
                           "weft token make: --ends is '%s', but must be whole days, at most 3660d", chosen.ends);
    if (status != WEFT_OK)
        call->exit_code = EXIT_MISUSED;
    *days = seconds / DAY_SECONDS;
    return status;
}

static weft_status token_run_make(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct platform_path path;
    struct json_writer body;
    cJSON *reply = NULL;
    char moment[MOMENT_BYTES];
    int64_t days;
    const struct {
        const char *key, *text;
    } texts[] = {{"user", chosen.user}, {"project", chosen.project}, {"most", chosen.most}, {"note", chosen.note}};
    weft_status status = read_days(call, &days, error);
    if (status == WEFT_OK)
        status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    json_begin(&body, JSON_LINE);
    json_open_object(&body, NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].text)
            json_put_text(&body, texts[i].key, texts[i].text);
    if (chosen.administrator)
        json_put_bool(&body, "administrator", true);
    if (days > 0)
        json_put_integer(&body, "days", days);
    json_close(&body);
    platform_path_begin(&path, "tokens");
    status = platform_send(&platform, "POST", &path, &body, NULL, &reply, error);
    if (status == WEFT_OK && chosen.json && reply) {
        platform_print_json(reply, call->output);
    } else if (status == WEFT_OK) {
        fprintf(call->output, "%s\n", field_text(reply, "token"));
        fprintf(stderr, "it is never shown again; whoever it is for keeps it with 'weft token save'\n");
        if (field_present(reply, "ends"))
            fprintf(stderr, "it ends at %s\n", moment_clock(field_integer(reply, "ends"), moment));
    }
    cJSON_Delete(reply);
    json_end(&body);
    platform_close(&platform);
    return status;
}

static weft_status run_revoke(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct platform_path path;
    char id[TOKEN_ID_BYTES];
    const char *word = call->words[0];
    /* The whole token is taken too: what is in its middle names it. */
    bool whole = strncmp(word, "weft_", 5) == 0;
    snprintf(id, sizeof id, "%.12s", whole ? word + 5 : word);
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    platform_path_begin(&path, "tokens");
    platform_path_part(&path, whole ? id : word);
    status = platform_send(&platform, "DELETE", &path, NULL, NULL, NULL, error);
    if (status == WEFT_OK)
        fprintf(call->output, "token %s is revoked\n", id);
    platform_close(&platform);
    return status;
}

static weft_status run_save(struct command_call *call, struct error *error)
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
        return error_set(error, WEFT_ERROR_DATA, "what came on standard input is no token: it begins with weft_");
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
    .run = token_run_make,
};

static const struct command revoke = {
    .name = "revoke",
    .summary = "end a token",
    .description = "TOKEN is its id, as weft token lists it, or the token itself.",
    .examples = "weft token revoke 0123456789ab\n",
    .words = "TOKEN",
    .run = run_revoke,
};

static const struct command save = {
    .name = "save",
    .summary = "put a token from standard input where all commands find it",
    .description =
        "The file is WEFT_TOKEN_FILE, or weft/token in XDG_CONFIG_HOME or ~/.config; only you can read it. A "
        "token on a command line could be seen by others, so it is read from standard input.",
    .examples = "weft token save\n",
    .run = run_save,
};

static const struct command *const subcommands[] = {&make, &revoke, &save};

const struct command command_token = {
    .name = "token",
    .group = COMMAND_PLATFORM,
    .summary = "list your tokens; make, revoke and keep them",
    .description =
        "A token tells the server who asks, where it listens for others than this machine's users. The server "
        "keeps a hash of it.",
    .examples = "weft token\nweft token make --note laptop\nweft token save\n",
    COMMAND_OPTIONS(options),
    COMMAND_SUBCOMMANDS(subcommands),
    .run = token_run_list,
};
