/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/agent.h"

#include "launch/node.h"
#include "launch/spawn.h"
#include "launch/takeover/succession.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool agent_is_local(const char *host, bool chosen)
{
    char name[256] = "";
    if (strcmp(host, "localhost") == 0)
        return true;
    return !chosen && gethostname(name, sizeof name - 1) == 0 && strcmp(host, name) == 0;
}

/* Append `word` so that a remote shell reads it as one word: unchanged where that is safe, otherwise in quotes. */
static weft_status agent_quoted_add(struct string_list *words, const char *word, struct error *error)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@%";
    if (*word && word[strspn(word, safe)] == '\0')
        return string_list_add(words, word, error);
    struct buffer text = {0};
    buffer_put(&text, "'", 1);
    for (; *word; word++)
        buffer_put(&text, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    buffer_put(&text, "'", 1);
    weft_status status =
        text.failed ? error_memory(error, buffer_size(&text), "an agent's command")
                    : string_list_add_bytes(words, (const char *)buffer_begin(&text), buffer_size(&text), error);
    buffer_free(&text);
    return status;
}

static bool agent_is_escaped(const char *at)
{
    return at[0] == '\\' && (at[1] == ' ' || at[1] == '\\');
}

bool agent_words(const char *agent, struct string_list *words)
{
    char *word = malloc(strlen(agent) + 1);
    bool good = word != NULL;
    while (good && *(agent += strspn(agent, " "))) {
        size_t length = 0;
        while (*agent && *agent != ' ') {
            agent += agent_is_escaped(agent);
            word[length++] = *agent++;
        }
        word[length] = '\0';
        good = string_list_add(words, word, NULL) == WEFT_OK;
    }
    free(word);
    return good;
}

void agent_put_word(struct buffer *agent, const char *word)
{
    if (buffer_size(agent) > 0)
        buffer_put(agent, " ", 1);
    for (; *word; word++) {
        if (*word == ' ' || *word == '\\')
            buffer_put(agent, "\\", 1);
        buffer_put(agent, word, 1);
    }
}

/* The command to execute; empty for the helper on this machine. */
static weft_status agent_command_make(const char *agent, const char *host, const char *executable, const char *command,
                                      const char *attach, struct string_list *words, struct error *error)
{
    if (!agent)
        return WEFT_OK;
    if (!agent_words(agent, words))
        return error_memory(error, strlen(agent), "an agent's command");
    if (words->count == 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--agent names no program");
    weft_status status = string_list_add(words, host, error);
    if (status == WEFT_OK)
        status = agent_quoted_add(words, executable, error);
    if (status == WEFT_OK)
        status = string_list_add(words, command, error);
    if (status == WEFT_OK)
        status = string_list_add(words, "--node", error);
    if (status == WEFT_OK && attach)
        status = string_list_add(words, "--attach", error);
    return status == WEFT_OK && attach ? string_list_add(words, attach, error) : status;
}

static void launch_agent_become_agent(struct string_list *words, const char *command, const char *attach, bool local,
                                      bool forks, int input, int output, int errors, int report, pid_t parent)
{
    /*
     * The local helper detects the launcher's end at its pipe and must survive it to kill the ranks; an agent need not.
     */
    spawn_settle(parent, local ? 0 : SIGTERM, input, output, errors);
    if (local && forks && strcmp(command, "run") == 0) {
        /* Fork without exec: loading the program's libraries again would take 0.2 s. */
        close_range(STDERR_FILENO + 1, ~0u, 0);
        _exit(attach ? succession_proxy(attach) : node_main(STDIN_FILENO, STDOUT_FILENO));
    }
    if (local)
        execl("/proc/self/exe", "weft", command, "--node", attach ? "--attach" : (char *)NULL, attach, (char *)NULL);
    else
        execvp(words->items[0], words->items);
    int code = errno;
    ssize_t ignored = write(report, &code, sizeof code);
    (void)ignored;
    _exit(127);
}

static void launch_agent_close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
}

weft_status agent_start(const char *agent, const char *host, const char *executable, const char *command, bool forks,
                        const char *attach, struct agent_process *result, struct error *error)
{
    int input[2] = {-1, -1}, output[2] = {-1, -1}, errors[2] = {-1, -1}, report[2] = {-1, -1};
    struct string_list words = {0};
    weft_status status = agent_command_make(agent, host, executable, command, attach, &words, error);
    if (status == WEFT_OK && (pipe2(input, O_CLOEXEC) || pipe2(output, O_CLOEXEC) || pipe2(report, O_CLOEXEC) ||
                              (agent && pipe2(errors, O_CLOEXEC))))
        status = error_system(error, "cannot make the pipes to host %s", host);
    if (status == WEFT_OK) {
        pid_t parent = getpid(), process = fork();
        if (process == 0)
            launch_agent_become_agent(&words, command, attach, !agent, forks, input[0], output[1], errors[1], report[1],
                                      parent);
        close(report[1]);
        report[1] = -1;
        int code = 0;
        if (process < 0)
            status = error_system(error, "cannot start the helper of host %s", host);
        else if (read(report[0], &code, sizeof code) == (ssize_t)sizeof code)
            status = error_set(error, WEFT_ERROR_ARGUMENT, "cannot run the agent '%s' to reach host %s: %s",
                               agent ? words.items[0] : executable, host, strerror(code));
        else
            setpgid(process, process);
        if (status == WEFT_OK) {
            *result = (struct agent_process){process, input[1], output[0], errors[0]};
            fcntl(result->input, F_SETFL, O_NONBLOCK);
            fcntl(result->output, F_SETFL, O_NONBLOCK);
            if (result->errors >= 0)
                fcntl(result->errors, F_SETFL, O_NONBLOCK);
            input[1] = output[0] = errors[0] = -1;
        }
    }
    launch_agent_close_pair(input);
    launch_agent_close_pair(output);
    launch_agent_close_pair(errors);
    launch_agent_close_pair(report);
    string_list_free(&words);
    return status;
}
