/* SPDX-License-Identifier: Apache-2.0 */
/* Submitting and canceling. */
#include "base/string_list.h"
#include "base/text.h"
#include "platform/engine/slurm/host_list.h"
#include "platform/engine/slurm/internal/program.h"

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANCEL_MOST 1000 /* jobs for one scancel: within the limit of a word's size, as all are one word of ssh's */
#define MEBIBYTE    (1024 * 1024)

/* ---- the account ---- */

/* Whose job it is. sbatch takes neither the group nor the environment from --uid: they would stay those of root. */
struct slurm_account {
    char uid[16], gid[16];
    char *variables[5]; /* HOME, USER, LOGNAME, SHELL; ends with NULL */
};

static void slurm_account_free(struct slurm_account *account)
{
    for (size_t i = 0; i < ARRAY_SIZE(account->variables); i++)
        free(account->variables[i]);
}

/* From a line of passwd(5), "name:password:uid:gid:comment:home:shell". */
static weft_status slurm_account_read(char *line, const char *user, struct slurm_account *account, struct error *error)
{
    char *fields[7];
    size_t count = 0;
    line[strcspn(line, "\n")] = '\0';
    for (char *rest = line; rest && count < ARRAY_SIZE(fields); count++)
        fields[count] = strsep(&rest, ":");
    if (count < ARRAY_SIZE(fields) || strspn(fields[2], "0123456789") != strlen(fields[2]) || !*fields[2] ||
        strspn(fields[3], "0123456789") != strlen(fields[3]) || !*fields[3] ||
        strlen(fields[2]) >= sizeof account->uid || strlen(fields[3]) >= sizeof account->gid)
        return error_set(error, WEFT_ERROR_DATA, "getent prints no account for the user '%s'", user);
    strcpy(account->uid, fields[2]);
    strcpy(account->gid, fields[3]);
    bool made = asprintf(&account->variables[0], "HOME=%s", fields[5]) >= 0 &&
                asprintf(&account->variables[1], "USER=%s", fields[0]) >= 0 &&
                asprintf(&account->variables[2], "LOGNAME=%s", fields[0]) >= 0 &&
                asprintf(&account->variables[3], "SHELL=%s", *fields[6] ? fields[6] : "/bin/sh") >= 0;
    return made ? WEFT_OK : error_memory(error, strlen(fields[5]), "the environment of a job");
}

static weft_status slurm_account_find(const struct slurm_commands *commands, const char *user,
                                      struct slurm_account *account, struct error *error)
{
    char where[300];
    struct slurm_output output = {0};
    const char *const words[] = {"getent", "passwd", user, NULL};
    weft_status status = slurm_program_run(commands, &(struct slurm_program){.words = words}, &output, error);
    char *line = buffer_string(&output.text);
    if (status == WEFT_OK && output.code == 2)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "there is no user '%s'%s", user,
                           slurm_where(commands, where, sizeof where));
    else if (status == WEFT_OK && (output.code != 0 || !line))
        status = slurm_program_failure(commands, "getent", &output, WEFT_ERROR_SYSTEM, error);
    else if (status == WEFT_OK)
        status = slurm_account_read(line, user, account, error);
    slurm_output_free(&output);
    return status;
}

/* ---- options ---- */

static bool is_printable_token(const char *text)
{
    if (!text || !*text)
        return false;
    for (; *text; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

/* Slurm takes a list shorter than the number of nodes, and adds other nodes to it. */
static weft_status check_node_list(const struct slurm_submission *submission, struct error *error)
{
    struct error list = {0};
    struct string_list nodes = {0};
    weft_status status = slurm_host_list(submission->node_list, &nodes, &list);
    if (status != WEFT_OK)
        status = error_set(error, status == WEFT_ERROR_DATA ? WEFT_ERROR_ARGUMENT : status, "%s", list.text);
    else if (nodes.count != submission->nodes)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "a job of %" PRIu32 " nodes has %zu in its list, '%.200s'",
                           submission->nodes, nodes.count, submission->node_list);
    string_list_free(&nodes);
    return status;
}

static weft_status slurm_submission_check(const struct slurm_submission *submission, struct error *error)
{
    const struct {
        const char *what, *text;
        bool needed;
    } tokens[] = {{"name", submission->name, true},
                  {"comment", submission->comment, true},
                  {"list of nodes", submission->node_list, false},
                  {"user", submission->user, false},
                  {"reservation", submission->reservation, false}};
    for (size_t i = 0; i < ARRAY_SIZE(tokens); i++)
        if (tokens[i].text ? !is_printable_token(tokens[i].text) : tokens[i].needed)
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "the %s of a job is '%.60s', not printable ASCII without spaces", tokens[i].what,
                             tokens[i].text ? tokens[i].text : "");
    if (submission->user && *submission->user == '-')
        return error_set(error, WEFT_ERROR_ARGUMENT, "there is no user '%.60s'", submission->user);
    if (submission->nodes == 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "a job needs at least one node");
    weft_status status = submission->node_list ? check_node_list(submission, error) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    const char *paths[] = {submission->directory, submission->output};
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
        if (!paths[i] || *paths[i] != '/' || strchr(paths[i], '\n'))
            return error_set(error, WEFT_ERROR_ARGUMENT, "the %s of a job is '%.200s', not an absolute path",
                             i == 0 ? "directory" : "output file", paths[i] ? paths[i] : "");
    if (!submission->script || strncmp(submission->script, "#!", 2) != 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the script of a job does not begin with '#!'");
    return WEFT_OK;
}

/* Append an option that is formatted as printf does; nothing after an error. */
static void add_option(struct string_list *words, weft_status *status, struct error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void add_option(struct string_list *words, weft_status *status, struct error *error, const char *format, ...)
{
    char *option;
    va_list arguments;
    if (*status != WEFT_OK)
        return;
    va_start(arguments, format);
    int size = vasprintf(&option, format, arguments);
    va_end(arguments);
    *status = size < 0 ? error_memory(error, 256, "an option of sbatch") : string_list_add(words, option, error);
    if (size >= 0)
        free(option);
}

/* The name of the output file, in which "%" begins a pattern; a NULL is left to the caller. */
static char *double_percents(const char *path)
{
    size_t size = strlen(path), at = 0;
    char *doubled = malloc(2 * size + 1);
    for (; doubled && *path; path++) {
        doubled[at++] = *path;
        if (*path == '%')
            doubled[at++] = '%';
    }
    if (doubled)
        doubled[at] = '\0';
    return doubled;
}

static weft_status slurm_submit_words(const struct slurm_commands *commands, const struct slurm_submission *job,
                                      const struct slurm_account *account, struct string_list *words,
                                      struct error *error)
{
    weft_status status = WEFT_OK;
    char *output = double_percents(job->output);
    if (!output)
        return error_memory(error, 2 * strlen(job->output), "an option of sbatch");
#define OPTION(...) add_option(words, &status, error, __VA_ARGS__)
    OPTION("sbatch");
    OPTION("--parsable");
    OPTION("--no-requeue");
    OPTION("--no-kill");
    OPTION("--wait-all-nodes=1");
    OPTION("--open-mode=append");
    OPTION("--input=/dev/null");
    OPTION("--export=ALL"); /* anything else makes slurmd run `su` for the user's environment before the script */
    OPTION("--output=%s", output);
    OPTION("--chdir=%s", job->directory);
    OPTION("--job-name=%s", job->name);
    OPTION("--comment=%s", job->comment);
    OPTION("--nodes=%" PRIu32, job->nodes);
    OPTION("--ntasks-per-node=1");
    if (commands->partition)
        OPTION("--partition=%s", commands->partition);
    if (job->node_list)
        OPTION("--nodelist=%s", job->node_list);
    if (job->cpus_per_node)
        OPTION("--cpus-per-task=%" PRIu32, job->cpus_per_node);
    if (job->gpus_per_node)
        OPTION("--gres=gpu:%" PRIu32, job->gpus_per_node);
    if (job->memory_per_node)
        OPTION("--mem=%" PRIu64 "M", job->memory_per_node / MEBIBYTE + (job->memory_per_node % MEBIBYTE != 0));
    else if (job->exclusive)
        OPTION("--mem=0");
    if (job->seconds)
        OPTION("--time=%" PRIu64, job->seconds / 60 + (job->seconds % 60 != 0));
    if (job->exclusive)
        OPTION("--exclusive");
    if (job->reservation)
        OPTION("--reservation=%s", job->reservation);
    if (job->user) {
        OPTION("--uid=%s", account->uid);
        OPTION("--gid=%s", account->gid);
    }
#undef OPTION
    free(output);
    return status;
}

/* ---- submitting ---- */

/* The id in "123" or "123;cluster". Login scripts may have printed lines before it. */
static bool read_job_id(char *text, uint64_t *job)
{
    char *end, *line;
    size_t size = strlen(text);
    while (size && isspace((unsigned char)text[size - 1]))
        text[--size] = '\0';
    line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    unsigned long long id = strtoull(line, &end, 10);
    *job = id;
    return isdigit((unsigned char)*line) && id > 0 && (*end == '\0' || *end == ';');
}

weft_status slurm_submit(struct slurm_commands *commands, const struct slurm_submission *submission, uint64_t *job,
                         struct error *error)
{
    struct slurm_account account = {0};
    struct string_list words = {0};
    struct slurm_output output = {0};
    weft_status status = slurm_submission_check(submission, error);
    if (status == WEFT_OK && submission->user)
        status = slurm_account_find(commands, submission->user, &account, error);
    if (status == WEFT_OK)
        status = slurm_submit_words(commands, submission, &account, &words, error);
    if (status == WEFT_OK)
        status = slurm_program_run(commands,
                                   &(struct slurm_program){.words = (const char *const *)words.items,
                                                           .variables = (const char *const *)account.variables,
                                                           .input = submission->script,
                                                           .submits = true},
                                   &output, error);
    if (status == WEFT_OK && output.code != 0) {
        const char *errors = buffer_string(&output.errors);
        bool killed = output.code > 128 && output.code <= 128 + SIGRTMAX;
        bool again = killed || output.missing || !errors || slurm_failure_is_temporary(errors);
        status =
            slurm_program_failure(commands, "sbatch", &output, again ? WEFT_ERROR_SYSTEM : WEFT_ERROR_ARGUMENT, error);
    } else if (status == WEFT_OK) {
        uint64_t id;
        char *text = buffer_string(&output.text);
        if (!text || !read_job_id(text, &id))
            status = error_set(error, WEFT_ERROR_DATA, "sbatch prints '%.100s', not the number of a job",
                               text ? text_printable(text) : "");
        else
            *job = id;
    }
    slurm_output_free(&output);
    string_list_free(&words);
    slurm_account_free(&account);
    return status;
}

/* ---- canceling ---- */

/* Whether the job of a line of scancel's errors has ended or is not known. */
static bool line_is_fine(const char *line)
{
    static const char *const fine[] = {"Invalid job id specified", "already completing or completed",
                                       "Job has already finished", "Job is not running"};
    for (size_t i = 0; i < ARRAY_SIZE(fine); i++)
        if (strstr(line, fine[i]))
            return true;
    return false;
}

/* Remove the lines that are fine from the errors; returns whether others are left. */
static bool drop_fine_lines(char *errors)
{
    char *kept = errors;
    for (char *line = errors, *next; *line; line = next) {
        size_t size = strcspn(line, "\n");
        bool last = line[size] == '\0';
        line[size] = '\0';
        next = line + size + !last;
        if (*line && !line_is_fine(line)) {
            memmove(kept, line, size);
            kept += size;
            *kept++ = '\n'; /* in place of the NUL, or of a line end before it */
        }
        if (last)
            break;
    }
    if (kept > errors)
        kept[-1] = '\0';
    else
        *errors = '\0';
    return *errors != '\0';
}

static weft_status slurm_cancel_some(struct slurm_commands *commands, const uint64_t *jobs, size_t count,
                                     struct error *error)
{
    weft_status status = WEFT_OK;
    struct string_list words = {0};
    struct slurm_output output = {0};
    add_option(&words, &status, error, "scancel");
    for (size_t i = 0; i < count; i++)
        add_option(&words, &status, error, "%" PRIu64, jobs[i]);
    if (status == WEFT_OK)
        status = slurm_program_run(commands, &(struct slurm_program){.words = (const char *const *)words.items},
                                   &output, error);
    char *errors = buffer_string(&output.errors);
    if (status == WEFT_OK && output.missing)
        status = slurm_program_failure(commands, "scancel", &output, WEFT_ERROR_SYSTEM, error);
    else if (status == WEFT_OK && output.code != 0 && errors && (!*errors || drop_fine_lines(errors))) {
        output.errors.end = output.errors.start + strlen(errors);
        bool refused = strstr(errors, "ermission denied") && !slurm_failure_is_temporary(errors);
        status = slurm_program_failure(commands, "scancel", &output, refused ? WEFT_ERROR_ARGUMENT : WEFT_ERROR_SYSTEM,
                                       error);
    }
    slurm_output_free(&output);
    string_list_free(&words);
    return status;
}

weft_status slurm_cancel(struct slurm_commands *commands, const uint64_t *jobs, size_t count, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t done = 0; done < count && (status == WEFT_OK || status == WEFT_ERROR_ARGUMENT); done += CANCEL_MOST) {
        size_t part = count - done < CANCEL_MOST ? count - done : CANCEL_MOST;
        weft_status result = slurm_cancel_some(commands, jobs + done, part, error);
        status = result != WEFT_OK ? result : status;
    }
    return status;
}
