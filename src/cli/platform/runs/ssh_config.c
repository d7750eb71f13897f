/* SPDX-License-Identifier: Apache-2.0 */
/* `weft ssh-config`: settings with which OpenSSH's programs reach the nodes of runs, and the connection that those ask for. */
#include "base/buffer.h"
#include "base/text.h"
#include "cli/frame/command.h"
#include "cli/platform/client/client.h"
#include "cli/platform/runs/node_session.h"
#include "cli/platform/runs/ssh_keys.h"
#include "platform/agent/ssh_server.h"
#include "platform/registry/run_specification.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BEGIN_MARK    "# weft ssh-config: begin"
#define END_MARK      "# weft ssh-config: end"
#define SETTINGS_MOST ((size_t)4 << 20)

static struct {
    bool install;
    const char *connect;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("install", 0, &chosen.install,
             "put the settings at the beginning of ~/.ssh/config, in place of older ones"),
    CLI_TEXT("connect", 0, "NAME", &chosen.connect, NULL,
             "be the connection to this node ([LOGIN@]run-12-node-0): what the settings tell ssh to run",
             .advanced = true),
};

/* ---- the settings ---- */

/* Without what a shell or ssh_config would take for more than itself within quotes. */
static weft_status check_quotable(const char *what, const char *value, struct error *error)
{
    for (const char *byte = value; *byte; byte++)
        if ((unsigned char)*byte < ' ' || strchr("\"'\\", *byte) || (byte[0] == '$' && byte[1] == '{'))
            return error_set(
                error, WEFT_ERROR_ARGUMENT,
                "%s is '%s': quotes, backslashes, '${' and control characters cannot be in settings of ssh", what,
                value);
    return WEFT_OK;
}

/* Within quotes. ssh replaces %n and the like. */
static void put_without_tokens(struct buffer *text, const char *value)
{
    for (; *value; value++)
        buffer_put_string(text, *value == '%' ? "%%" : (const char[]){*value, '\0'});
}

static void put_key_path(struct buffer *text, const char *directory, const char *file)
{
    buffer_put_string(text, "\"");
    put_without_tokens(text, directory);
    buffer_print(text, "/%%n/%s\"\n", file);
}

/* The variables that say how the server is reached: ssh may be started where they are not set, and in any directory. */
static weft_status put_connection(struct buffer *text, const char *program, struct error *error)
{
    static const struct {
        const char *name;
        bool path;
    } variables[] = {{"WEFT_SERVER", false},
                     {"WEFT_SERVER_CERTIFICATE", true},
                     {"WEFT_SERVER_USER", false},
                     {"WEFT_TOKEN_FILE", true},
                     {"XDG_CONFIG_HOME", false}};
    buffer_put_string(text, "    ProxyCommand env");
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof variables / sizeof *variables && status == WEFT_OK; i++) {
        char whole[PATH_MAX];
        const char *value = getenv(variables[i].name);
        if (!value || !*value)
            continue;
        if (variables[i].path && realpath(value, whole))
            value = whole;
        status = check_quotable(variables[i].name, value, error);
        buffer_print(text, " %s='", variables[i].name);
        put_without_tokens(text, value);
        buffer_put_string(text, "'");
    }
    if (status == WEFT_OK)
        status = check_quotable("the path of this program", program, error);
    buffer_put_string(text, " '");
    put_without_tokens(text, program);
    buffer_put_string(text, "' ssh-config --connect '%r@%n'\n");
    return status;
}

static weft_status write_settings_text(const char *account, struct buffer *text, struct error *error)
{
    char program[PATH_MAX], directory[FILE_PATH_BYTES];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return error_system(error, "cannot find out where this program is");
    program[length] = '\0';
    weft_status status = ssh_keys_directory(directory, error);
    if (status == WEFT_OK)
        status = check_quotable("the directory of keys", directory, error);
    if (status != WEFT_OK)
        return status;
    buffer_put_string(text, BEGIN_MARK "\n"
                                       "# The nodes of runs: ssh run-12-node-0\n"
                                       "Host run-*-node-*\n");
    status = put_connection(text, program, error);
    if (status != WEFT_OK)
        return status;
    buffer_print(text, "    User %s\n    Port 22\n    IdentityFile ", account);
    put_key_path(text, directory, "key");
    buffer_put_string(text, "    UserKnownHostsFile ");
    put_key_path(text, directory, "known_hosts");
    buffer_put_string(text, "    IdentitiesOnly yes\n"
                            "    StrictHostKeyChecking yes\n"
                            "    UpdateHostKeys no\n"
                            "Host *\n" END_MARK "\n");
    return text->failed ? error_memory(error, text->room, "settings of ssh") : WEFT_OK;
}

/* Ask the server for the account that the caller's runs have. */
static weft_status find_account(char account[PLATFORM_NAME_BYTES], struct error *error)
{
    struct platform platform;
    const weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    const char *found = field_text(platform.server, "account");
    snprintf(account, PLATFORM_NAME_BYTES, "%s", *found ? found : platform.user);
    platform_close(&platform);
    /* It becomes a line of settings, in which a server must not say anything else. */
    for (const char *byte = account; *byte; byte++)
        if (!isalnum((unsigned char)*byte) && (byte == account || !strchr("._-", *byte)))
            return error_set(error, WEFT_ERROR_DATA,
                             "the server says that your runs are those of the account '%.80s', "
                             "which is no name of an account",
                             account);
    return *account ? WEFT_OK : error_set(error, WEFT_ERROR_DATA, "the server does not say whose your runs are");
}

/* ---- ~/.ssh/config ---- */

/* `before` without what an older call has put there. */
static void put_without_settings(struct buffer *text, const char *before)
{
    const char *begin = strstr(before, BEGIN_MARK), *end = begin ? strstr(begin, END_MARK) : NULL;
    if (!end) {
        buffer_put_string(text, before);
        return;
    }
    end += strlen(END_MARK);
    buffer_put(text, before, (size_t)(begin - before));
    buffer_put_string(text, end + (*end == '\n'));
}

static weft_status install_settings(const struct buffer *settings, FILE *output, struct error *error)
{
    char directory[FILE_PATH_BYTES], path[FILE_PATH_BYTES], real[PATH_MAX], *before = NULL;
    const char *home = getenv("HOME");
    struct buffer text = {0};
    size_t size = 0;
    if (!home || *home != '/')
        return error_set(error, WEFT_ERROR_ARGUMENT, "HOME is not the absolute path of a directory");
    weft_status status = file_join(directory, home, ".ssh", error);
    if (status == WEFT_OK)
        status = file_join(path, directory, "config", error);
    if (status == WEFT_OK && mkdir(directory, 0700) != 0 && !file_is_directory(directory))
        status = error_system(error, "cannot make the directory '%s'", directory);
    if (status == WEFT_OK && realpath(path, real)) /* it may be a link to where settings are kept */
        snprintf(path, sizeof path, "%s", real);
    if (status == WEFT_OK && file_exists(path))
        status = file_read(path, SETTINGS_MOST, &before, &size, error);
    if (status != WEFT_OK)
        return status;
    buffer_put(&text, buffer_begin(settings), buffer_size(settings));
    put_without_settings(&text, before ? before : "");
    const mode_t mask = umask(077); /* ssh refuses settings that others may write */
    status = text.failed ? error_memory(error, text.room, "settings of ssh")
                         : file_write(path, buffer_begin(&text), buffer_size(&text), error);
    umask(mask);
    buffer_free(&text);
    free(before);
    if (status == WEFT_OK)
        fprintf(output, "%s now has settings for the nodes of runs: ssh run-12-node-0\n", path);
    return status;
}

/* ---- the connection ---- */

/* "run-12-node-0" is 12/node-0; what comes before an '@' is whom to log in as. */
static weft_status read_node_name(const char *name, char place[RUN_NAME_BYTES + 32], struct error *error)
{
    static const char prefix[] = "run-", middle[] = "-node-";
    const char *at = NULL;
    for (const char *next = strstr(name, middle); next; next = strstr(next + 1, middle))
        at = next;
    const size_t begin = sizeof prefix - 1, length = at ? (size_t)(at - name) : 0;
    const char *number = at ? at + sizeof middle - 1 : "";
    if (strncmp(name, prefix, begin) != 0 || length <= begin || length - begin >= RUN_NAME_BYTES || !*number ||
        strlen(number) > 6 || number[strspn(number, "0123456789")] || strchr(name, '/'))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%.80s' is not the name of a node of a run, such as run-12-node-0", name);
    snprintf(place, RUN_NAME_BYTES + 32, "%.*s/node-%s", (int)(length - begin), name + begin, number);
    return WEFT_OK;
}

static char *name_value(const char *name, const char *value)
{
    char *entry;
    return asprintf(&entry, "%s=%s", name, value) < 0 ? NULL : entry;
}

static weft_status ssh_config_connect(const char *name, int *exit_code, struct error *error)
{
    char place[RUN_NAME_BYTES + 32], login[PLATFORM_NAME_BYTES] = "";
    char program[] = "weft", server[] = "node-ssh", *command[] = {program, server, NULL}, *environment[4] = {0};
    const char *at = strrchr(name, '@'), *node = at ? at + 1 : name;
    struct ssh_keys keys = {0};
    if (at)
        snprintf(login, sizeof login, "%.*s", (int)(at - name), name);
    weft_status status = read_node_name(node, place, error);
    if (status == WEFT_OK)
        status = ssh_keys_get(node, &keys, error);
    if (status == WEFT_OK) {
        environment[0] = name_value(SSH_HOST_KEY_VARIABLE, keys.host);
        environment[1] = name_value(SSH_USER_KEY_VARIABLE, keys.user);
        environment[2] = name_value(SSH_LOGIN_VARIABLE, login);
        if (!environment[0] || !environment[1] || !environment[2])
            status = error_memory(error, strlen(keys.host), "a key");
    }
    const struct node_session_config config = {
        .place = place, .command = command, .environment = environment, .input = STDIN_FILENO, .output = STDOUT_FILENO};
    if (status == WEFT_OK)
        status = node_session_run(&config, exit_code, error);
    for (size_t i = 0; i < 3; i++)
        free(environment[i]);
    ssh_keys_free(&keys);
    return status;
}

/* ---- the command ---- */

static weft_status ssh_config_run(struct command_call *call, struct error *error)
{
    char account[PLATFORM_NAME_BYTES];
    struct buffer text = {0};
    if (chosen.connect)
        return ssh_config_connect(chosen.connect, &call->exit_code, error);
    weft_status status = find_account(account, error);
    if (status == WEFT_OK)
        status = write_settings_text(account, &text, error);
    if (status == WEFT_OK && chosen.install)
        status = install_settings(&text, call->output, error);
    else if (status == WEFT_OK)
        fwrite(buffer_begin(&text), 1, buffer_size(&text), call->output);
    buffer_free(&text);
    return status;
}

const struct command command_ssh_config = {
    .name = "ssh-config",
    .group = COMMAND_PLATFORM,
    .summary = "let ssh, scp, rsync and editors reach the nodes of runs",
    .description =
        "Prints settings for ~/.ssh/config, or puts them there with --install. With these, programs that use OpenSSH "
        "reach node N of run RUN as run-RUN-node-N: ssh, scp, sftp, rsync, and editors such as VS Code with its "
        "Remote - SSH extension. RUN is the run's number, or its name.\n\n"
        "The connection is made by weft through the server, with your token: who may use weft exec on a run may "
        "connect, every connection is in the audit log, and no port is opened anywhere. In the node OpenSSH's sshd "
        "(package openssh-server) runs for this connection alone, as the user of the run, among the run's processes and "
        "within their limits, with the run's environment; it ends with the run. Keys are made for each node at the "
        "first connection, kept in ~/.config/weft/ssh, and removed after 30 days without use.\n\n"
        "The settings name the account of your own runs. In a run of somebody else that you may enter, log in as its "
        "account: ssh ACCOUNT@run-12-node-0.",
    .examples = "weft ssh-config --install\nssh run-12-node-0\nrsync -a data/ run-12-node-0:data/\n",
    COMMAND_OPTIONS(options),
    .run = ssh_config_run,
};
