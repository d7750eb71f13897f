/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/slurm/internal/program.h"

#include "base/clock.h"
#include "base/string_list.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOT_FOUND     127 /* exit code of shells and env(1) for a program that does not exist */
#define SSH_FAILED    255
#define KILL_SECONDS  1.0 /* for a killed process to end: on a dead file system it does not */
#define LOOK_MILLISEC 100 /* between two looks whether the program has ended while its children keep its pipes open */
#define READ_AHEAD    65536

const char *slurm_where(const struct slurm_commands *commands, char *text, size_t room)
{
    if (commands->login)
        snprintf(text, room, " on %s", commands->login);
    else
        *text = '\0';
    return text;
}

void slurm_output_free(struct slurm_output *output)
{
    buffer_free(&output->text);
    buffer_free(&output->errors);
}

/* ---- the environment ---- */

static bool begins_with_one_of(const char *text, const char *const *beginnings)
{
    for (; *beginnings; beginnings++)
        if (strncmp(text, *beginnings, strlen(*beginnings)) == 0)
            return true;
    return false;
}

/*
 * Whether a program gets a variable of this process. SBATCH_*, SQUEUE_* and so on act like options, and SLURM_* of a job
 * that this process may run in would, too. sbatch passes its whole environment on to the job.
 */
static bool slurm_variable_passes(const char *variable, bool submits)
{
    static const char *const needed[] = {
        "SLURM_CONF=", "SLURM_CONF_SERVER=", "SLURM_JWT=", "SBATCH_ACCOUNT=", "SBATCH_QOS=", "SBATCH_WCKEY=", NULL};
    static const char *const usual[] = {"PATH=", "HOME=", "USER=", "LOGNAME=", "SHELL=", "LANG=", "LC_", "TZ=", NULL};
    static const char *const options[] = {"SLURM", "SBATCH_", "SQUEUE_", "SCANCEL_", "SCONTROL_", "SRUN_", NULL};
    if (begins_with_one_of(variable, needed))
        return true;
    return submits ? begins_with_one_of(variable, usual) : !begins_with_one_of(variable, options);
}

/* Whether `variables` set the one that `variable` sets. */
static bool slurm_variable_is_set(const char *variable, const char *const *variables)
{
    size_t name = strcspn(variable, "=") + 1;
    for (; variables && *variables; variables++)
        if (strncmp(variable, *variables, name) == 0)
            return true;
    return false;
}

static weft_status slurm_environment(const struct slurm_program *program, bool here, struct string_list *environment,
                                     struct error *error)
{
    weft_status status = WEFT_OK;
    const char *const *added = here ? program->variables : NULL; /* over ssh they are words of env(1) */
    for (char **variable = environ; status == WEFT_OK && *variable; variable++)
        if (!slurm_variable_is_set(*variable, added) && (!here || slurm_variable_passes(*variable, program->submits)))
            status = string_list_add(environment, *variable, error);
    for (; status == WEFT_OK && added && *added; added++)
        status = string_list_add(environment, *added, error);
    return status;
}

/* ---- the command line ---- */

/* A word in single quotes, which every shell reads as it is; a quote in it is '\''. */
static void quote_word(struct buffer *line, const char *word)
{
    buffer_put_string(line, buffer_size(line) ? " '" : "'");
    for (; *word; word++) {
        if (*word == '\'')
            buffer_put_string(line, "'\\''");
        else
            buffer_put(line, word, 1);
    }
    buffer_put_string(line, "'");
}

/* The words to run on this machine: the program, or ssh that runs it. */
static weft_status slurm_words(const struct slurm_commands *commands, const struct slurm_program *program,
                               struct string_list *words, struct error *error)
{
    static const char *const ssh[] = {"ssh",
                                      "-Tax",
                                      "-oBatchMode=yes",
                                      "-oStrictHostKeyChecking=yes",
                                      "-oConnectTimeout=10",
                                      "-oControlMaster=no", /* a master would stay, with our pipes open */
                                      "-oClearAllForwardings=yes",
                                      "-oLogLevel=ERROR",
                                      "--",
                                      NULL};
    weft_status status = WEFT_OK;
    if (!commands->login)
        return string_list_add_all(words, (char *const *)program->words, error);
    struct buffer line = {0};
    if (program->variables && *program->variables)
        quote_word(&line, "env");
    for (const char *const *variable = program->variables; variable && *variable; variable++)
        quote_word(&line, *variable);
    for (const char *const *word = program->words; *word; word++)
        quote_word(&line, *word);
    const char *text = buffer_string(&line);
    status = text ? string_list_add_all(words, (char *const *)ssh, error)
                  : error_memory(error, buffer_size(&line), "a command");
    if (status == WEFT_OK)
        status = string_list_add(words, commands->login, error);
    if (status == WEFT_OK)
        status = string_list_add(words, text, error);
    buffer_free(&line);
    return status;
}

/* ---- the process ---- */

/* Its input as a file: unlike a pipe, it takes all of the text at once and raises no SIGPIPE. -1: errno says why. */
static int slurm_input_open(const char *text)
{
    if (!text)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    size_t size = strlen(text);
    int file = memfd_create("weft-slurm-input", MFD_CLOEXEC);
    if (file < 0)
        return -1;
    for (size_t done = 0; done < size;) {
        ssize_t n = write(file, text + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            close(file);
            return -1;
        }
        done += (size_t)n;
    }
    lseek(file, 0, SEEK_SET);
    return file;
}

/* Start it in a process group of its own, so that it can be killed with its children. Returns an errno. */
static int slurm_process_start(char *const *words, char *const *environment, int input, int output, int errors,
                               pid_t *process)
{
    sigset_t none, all;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int failure = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    failure = failure ? failure : posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    failure = failure ? failure : posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    failure = failure ? failure : posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    failure = failure ? failure : posix_spawnp(process, words[0], &actions, &attributes, words, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return failure;
}

/* Read what is there; false at the end. Nothing is kept once the text is too large. */
static bool slurm_pipe_read(int pipe, struct buffer *text)
{
    for (;;) {
        uint8_t *room = buffer_reserve(text, READ_AHEAD);
        if (!room)
            return false;
        ssize_t n = read(pipe, room, READ_AHEAD);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        if (n == 0)
            return false;
        text->end += (size_t)n;
        if (buffer_size(text) > SLURM_PROGRAM_OUTPUT_BYTES)
            return false;
    }
}

/* Whether it has ended, with `*end`; a process that cannot be waited for has, in an unknown way. */
static bool slurm_process_ended(pid_t process, int *end)
{
    pid_t result;
    while ((result = waitpid(process, end, WNOHANG)) < 0 && errno == EINTR)
        ;
    if (result < 0)
        *end = 127 << 8;
    return result != 0;
}

static bool slurm_process_wait(pid_t process, uint64_t deadline, int *end)
{
    for (useconds_t nap = 200; !slurm_process_ended(process, end); nap = nap < 10000 ? nap * 2 : nap) {
        if (clock_now() >= deadline)
            return false;
        usleep(nap);
    }
    return true;
}

/* Read both pipes until their end, or the program's. False: it has not ended by the deadline, or prints too much. */
static bool slurm_process_read(pid_t process, const int pipes[2], struct buffer *const texts[2], uint64_t deadline,
                               int *end)
{
    bool open[2] = {true, true};
    while (open[0] || open[1]) {
        uint64_t now = clock_now(), left = deadline > now ? (deadline - now) / 1000000u + 1 : 0;
        struct pollfd waits[2] = {{open[0] ? pipes[0] : -1, POLLIN, 0}, {open[1] ? pipes[1] : -1, POLLIN, 0}};
        if (now >= deadline)
            return false;
        int ready = poll(waits, 2, left < LOOK_MILLISEC ? (int)left : LOOK_MILLISEC);
        bool ended = ready == 0 && slurm_process_ended(process, end);
        for (int i = 0; i < 2; i++)
            if (open[i] && (ended || waits[i].revents))
                open[i] = slurm_pipe_read(pipes[i], texts[i]);
        if (ended)
            return true;
        for (int i = 0; i < 2; i++)
            if (buffer_size(texts[i]) > SLURM_PROGRAM_OUTPUT_BYTES)
                return false;
    }
    return slurm_process_wait(process, deadline, end);
}

static void slurm_pipes_close(int pipes[2])
{
    for (int i = 0; i < 2; i++)
        if (pipes[i] >= 0)
            close(pipes[i]);
    pipes[0] = pipes[1] = -1;
}

/* Run `words`; `*started` is an errno if they could not be started, `*end` the wait status otherwise. */
static weft_status slurm_process_run(const struct slurm_commands *commands, const struct slurm_program *program,
                                     char *const *words, char *const *environment, struct slurm_output *output,
                                     int *started, int *end, struct error *error)
{
    char where[300];
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    pid_t process = 0;
    weft_status status = WEFT_OK;
    const char *name = program->words[0];
    int input = slurm_input_open(program->input);
    if (input < 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        status = error_system(error, "cannot run %s", name);
    if (status == WEFT_OK) {
        *started = slurm_process_start(words, environment, input, out[1], err[1], &process);
        close(out[1]);
        close(err[1]);
        out[1] = err[1] = -1;
    }
    if (input >= 0)
        close(input);
    if (status == WEFT_OK && *started == 0) {
        struct buffer *const texts[2] = {&output->text, &output->errors};
        fcntl(out[0], F_SETFL, O_NONBLOCK);
        fcntl(err[0], F_SETFL, O_NONBLOCK);
        if (!slurm_process_read(process, (const int[2]){out[0], err[0]}, texts, clock_after(commands->limit), end)) {
            kill(-process, SIGKILL);
            slurm_process_wait(process, clock_after(KILL_SECONDS), end);
            if (buffer_size(&output->text) > SLURM_PROGRAM_OUTPUT_BYTES ||
                buffer_size(&output->errors) > SLURM_PROGRAM_OUTPUT_BYTES)
                status = error_set(error, WEFT_ERROR_DATA, "%s%s printed more than %u MiB", name,
                                   slurm_where(commands, where, sizeof where), SLURM_PROGRAM_OUTPUT_BYTES >> 20);
            else
                status = error_set(error, WEFT_ERROR_SYSTEM, "%s%s has not ended after %g s and was killed", name,
                                   slurm_where(commands, where, sizeof where), commands->limit);
        }
    }
    slurm_pipes_close(out);
    slurm_pipes_close(err);
    if (status == WEFT_OK && (output->text.failed || output->errors.failed))
        status = error_memory(error, buffer_size(&output->text), "the output of a command");
    return status;
}

/* Whether ssh itself failed: its exit code may also be the program's, which begins its messages with its name. */
static bool ssh_has_failed(const struct slurm_program *program, struct slurm_output *output)
{
    const char *errors = output->code == SSH_FAILED ? buffer_string(&output->errors) : NULL;
    size_t name = strlen(program->words[0]);
    return errors && !(strncmp(errors, program->words[0], name) == 0 && errors[name] == ':');
}

weft_status slurm_program_run(const struct slurm_commands *commands, const struct slurm_program *program,
                              struct slurm_output *output, struct error *error)
{
    struct string_list words = {0}, environment = {0};
    int started = 0, end = 0;
    weft_status status = slurm_words(commands, program, &words, error);
    if (status == WEFT_OK)
        status = slurm_environment(program, !commands->login, &environment, error);
    if (status == WEFT_OK) {
        char *const empty[] = {NULL};
        status = slurm_process_run(commands, program, words.items, environment.items ? environment.items : empty,
                                   output, &started, &end, error);
    }
    if (status == WEFT_OK && started != 0) {
        output->code = NOT_FOUND;
        if (commands->login || (started != ENOENT && started != EACCES && started != ENOTDIR)) {
            errno = started;
            status = error_system(error, "cannot run %s", words.items[0]);
        }
    } else if (status == WEFT_OK) {
        output->code = WIFEXITED(end) ? WEXITSTATUS(end) : 128 + WTERMSIG(end);
        if (commands->login && ssh_has_failed(program, output))
            status = slurm_program_failure(commands, "ssh", output, WEFT_ERROR_SYSTEM, error);
    }
    output->missing = output->code == NOT_FOUND && (started != 0 || commands->login);
    string_list_free(&words);
    string_list_free(&environment);
    return status;
}

weft_status slurm_program_read(const struct slurm_commands *commands, const char *const *words,
                               const char *const *variables, struct slurm_output *output, struct error *error)
{
    weft_status status =
        slurm_program_run(commands, &(struct slurm_program){.words = words, .variables = variables}, output, error);
    if (status == WEFT_OK && output->code != 0)
        status = slurm_program_failure(commands, words[0], output, WEFT_ERROR_SYSTEM, error);
    return status;
}
