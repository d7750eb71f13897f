/* SPDX-License-Identifier: Apache-2.0 */
/* `weft secret`: values that runs get as environment variables and that nobody can read back. */
#include "cli/platform/admin/request.h"
#include "platform/registry/secret_store.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static struct {
    bool json;
    const char *project, *file;
} chosen;

static void secret_print_names(const struct command_call *call, const cJSON *reply)
{
    const cJSON *name;
    cJSON_ArrayForEach(name, field(reply, "secrets"))
        fprintf(call->output, "%s\n", cJSON_GetStringValue(name));
    if (!cJSON_GetArraySize(field(reply, "secrets")))
        fprintf(call->output, "there are no secrets yet: 'weft secret set NAME' keeps one\n");
}

static weft_status secret_check_name(struct command_call *call, struct error *error)
{
    if (secret_name_is_valid(call->words[0]))
        return WEFT_OK;
    return error_set(
        error, WEFT_ERROR_ARGUMENT,
        "'%.80s' cannot name a secret: use at most %d letters, digits and _, not beginning with a digit, as "
        "for an environment variable; the value is read from standard input",
        call->words[0], SECRET_NAME_BYTES - 1);
}

/* ---- set ---- */

/* The terminal does not show what is typed. */
static size_t secret_read_value(const char *name, FILE *input, char *value, size_t size)
{
    struct termios before, hidden;
    const bool terminal = isatty(fileno(input)) && tcgetattr(fileno(input), &before) == 0;
    size_t count = 0;
    if (terminal) {
        hidden = before;
        hidden.c_lflag &= ~(tcflag_t)ECHO;
        tcsetattr(fileno(input), TCSAFLUSH, &hidden);
        fprintf(stderr, "value of %s (not shown): ", name);
        count = fgets(value, (int)size, input) ? strlen(value) : 0;
        tcsetattr(fileno(input), TCSAFLUSH, &before);
        fputc('\n', stderr);
    } else {
        count = fread(value, 1, size - 1, input);
    }
    value[count] = '\0';
    if (count && value[count - 1] == '\n')
        value[--count] = '\0';
    return count;
}

static weft_status secret_write_value(struct command_call *call, struct platform *platform, struct json_writer *body,
                                      struct error *error)
{
    const size_t room = SECRET_MOST + 3;
    const char *name = call->words[0];
    weft_status status = WEFT_OK;
    FILE *input = chosen.file ? fopen(chosen.file, "re") : stdin;
    if (!input)
        return error_system(error, "cannot read '%s'", chosen.file);
    char *value = calloc(1, room);
    const size_t size = value ? secret_read_value(name, input, value, room) : 0;
    if (!value)
        status = error_memory(error, room, "a secret");
    else if (size < SECRET_LEAST || size > SECRET_MOST || strlen(value) != size)
        status =
            error_set(error, WEFT_ERROR_ARGUMENT, "the value of %s must be text of %d to %d bytes without NUL; %s %zu",
                      name, SECRET_LEAST, SECRET_MOST, size > SECRET_MOST ? "it has more than" : "it has",
                      size > SECRET_MOST ? (size_t)SECRET_MOST : size);
    else
        json_put_text(body, "value", value);
    if (value)
        sodium_memzero(value, room);
    free(value);
    if (chosen.file)
        fclose(input);
    return status;
}

/* ---- the commands ---- */

#define PROJECT_OPTION                                                                                                 \
    CLI_TEXT("project", 'p', "PROJECT", &chosen.project, NULL, "a secret of this project; without it, one of your own")

static const struct cli_option list_options[] = {PROJECT_OPTION,
                                                 CLI_FLAG("json", 0, &chosen.json, "print the server's reply")};
static const struct cli_option set_options[] = {
    PROJECT_OPTION, CLI_TEXT("file", 'f', "FILE", &chosen.file, NULL, "read the value from FILE, not standard input")};
static const struct cli_option remove_options[] = {PROJECT_OPTION};

static const struct admin_request list_request = {
    .path = "secrets", .project_path = "projects/{--project}/secrets", .print = secret_print_names};

static const struct command list_secrets = {.name = "list",
                                            .summary = "list the names of secrets",
                                            COMMAND_OPTIONS(list_options),
                                            .run = admin_request_run,
                                            .details = &list_request};

static const struct command set = {
    .name = "set",
    .summary = "keep a secret, or change its value",
    .description = "The value is read from standard input, without being shown on a terminal, or from --file; a final "
                   "newline is removed. It must have 8 to 65536 bytes. Secrets of a project are set by its managers.",
    .examples = "weft secret set HF_TOKEN\nweft secret set WANDB_API_KEY --project vision --file key.txt\n",
    .words = "NAME",
    COMMAND_OPTIONS(set_options),
    ADMIN_REQUEST(.method = "PUT", .path = "secrets/{0}", .project_path = "projects/{--project}/secrets/{0}",
                  .check = secret_check_name, .write = secret_write_value,
                  .done = "{0} is kept[ for project {--project}]; runs get it with --secret {0}"),
};

static const struct command remove_secret = {
    .name = "remove",
    .summary = "remove a secret",
    .words = "NAME",
    COMMAND_OPTIONS(remove_options),
    ADMIN_REQUEST(.method = "DELETE", .path = "secrets/{0}", .project_path = "projects/{--project}/secrets/{0}",
                  .check = secret_check_name, .done = "{0} is removed"),
};

const struct command command_secret = {
    .name = "secret",
    .group = COMMAND_PLATFORM,
    .summary = "keep secrets for runs: tokens and passwords that no one can read back",
    .description =
        "A run gets a secret as an environment variable: 'weft submit --secret NAME'. Your own secret of that "
        "name is used, or else the project's. The server keeps values encrypted and never shows them; in a run's "
        "output, a value is replaced by [secret NAME].",
    .examples = "weft secret set HF_TOKEN\nweft submit --secret HF_TOKEN -- python3 train.py\nweft secret list\n",
    COMMAND_OPTIONS(list_options),
    COMMAND_SUBCOMMANDS(&list_secrets, &remove_secret, &set),
    .run = admin_request_run,
    .details = &list_request,
};
