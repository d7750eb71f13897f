/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/launch/run_submit.h"

#include "base/format/json_put.h"
#include "base/text.h"
#include "cli/frame/moments.h"
#include "cli/frame/table.h"
#include "cli/platform/client/run_lines.h"
#include "platform/client/snapshot_upload.h"
#include "platform/registry/run/state.h"
#include "platform/snapshot/git_state.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define NAMED_MOST      5     /* files of a kind that were left out */
#define LINES_BEFORE    10000 /* printed before the run is followed */
#define STANDARD_OUTPUT 1     /* the stream of a line */

/* Name the first few of `count` files of a kind that were left out, and why. */
static void tell_omissions(const struct snapshot_omissions *omissions, bool secret, uint64_t count, FILE *output)
{
    uint64_t told = 0;
    for (size_t i = 0; i < omissions->count && told < NAMED_MOST; i++) {
        const struct snapshot_omission *one = &omissions->list[i];
        char path[FILE_PATH_BYTES];
        if (one->secret != secret)
            continue;
        snprintf(path, sizeof path, "%s", one->path);
        fprintf(output, "  %-24s", text_printable(path));
        snprintf(path, sizeof path, "%s", one->why);
        fprintf(output, "  %s\n", text_printable(path));
        told++;
    }
    if (count > told)
        fprintf(output, "  and %" PRIu64 " more, which --json names\n", count - told);
}

static void tell_code(const struct snapshot_omissions *omissions, const struct snapshot *taken, FILE *output)
{
    uint64_t secrets = 0, others = 0;
    for (size_t i = 0; i < omissions->count; i++) {
        secrets += omissions->list[i].secret;
        others += !omissions->list[i].secret;
    }
    secrets = taken->secrets > secrets ? taken->secrets : secrets;
    if (secrets)
        fprintf(output,
                "left out as secrets, by name or content: %" PRIu64 " (a line '!PATH' in .weftignore includes one)\n",
                secrets);
    tell_omissions(omissions, true, secrets, output);
    if (others)
        fprintf(output, "left out by .weftignore and git's ignore files: %" PRIu64 "%s\n", others,
                omissions->count == SNAPSHOT_OMISSIONS_MOST ? " or more" : "");
    tell_omissions(omissions, false, others, output);
    if (taken->owner_only)
        fprintf(output, "%" PRIu64 " file%s that only you may read: the run gets %s, and nobody else can fork it\n",
                taken->owner_only, taken->owner_only == 1 ? "" : "s", taken->owner_only == 1 ? "it" : "them");
}

static void put_omissions(cJSON *reply, const struct snapshot_omissions *omissions)
{
    cJSON *list = cJSON_AddArrayToObject(reply, "left_out");
    for (size_t i = 0; list && i < omissions->count; i++) {
        cJSON *one = cJSON_CreateObject();
        char path[FILE_PATH_BYTES];
        snprintf(path, sizeof path, "%s", omissions->list[i].path);
        cJSON_AddStringToObject(one, "path", text_printable(path));
        cJSON_AddStringToObject(one, "why", omissions->list[i].why);
        cJSON_AddBoolToObject(one, "secret", omissions->list[i].secret);
        cJSON_AddItemToArray(list, one);
    }
}

weft_status run_submit_code(struct platform *platform, const char *project, bool snapshot,
                            struct run_submit_shown *shown, struct json_writer *body, struct error *error)
{
    char directory[FILE_PATH_BYTES], commit[RUN_SNAPSHOT_BYTES] = "";
    struct snapshot taken = {.id = ""};
    bool changed = false;
    if (!getcwd(directory, sizeof directory))
        return error_system(error, "cannot tell which directory this is");
    weft_status status =
        snapshot ? snapshot_upload(platform->client, project, directory, &shown->omissions, &taken, error) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    if (!shown->quiet && !shown->json)
        tell_code(&shown->omissions, &taken, stderr);
    git_state_read(directory, commit, sizeof commit, &changed);
    /* All of them, since a fork begins with those of its parent. */
    JSON_PUT(body, "snapshot", taken.id, "commit", commit, "commit_changed", changed);
    return WEFT_OK;
}

void run_submit_words(char *const *words, struct json_writer *body)
{
    json_open_array(body, "command");
    for (; *words; words++)
        json_put_text(body, NULL, *words);
    json_close(body);
}

/* A run that can never start is cancelled at once. */
static weft_status run_submit_refused(int64_t run, const char *done, const cJSON *why, struct error *error)
{
    char message[512];
    snprintf(message, sizeof message, "%s", field_text(why, "why"));
    return error_set(error, WEFT_ERROR_STATE, "run %" PRId64 " is %s, and cancelled at once: %s", run, done,
                     text_printable(message));
}

static const char *made_for_it(const cJSON *reply)
{
    return field_true(reply, "project_made") ? ", which was made for it" : "";
}

/* Notes on differences from the request. */
static void tell_limited(const cJSON *reply, FILE *output)
{
    char message[ERROR_TEXT_BYTES];
    int64_t secrets = field_integer(reply, "secrets_left_out");
    if (secrets > 0)
        fprintf(output,
                "  note: left out as secrets, by name or content: %" PRId64 " (a line '!PATH' in .weftignore "
                "includes one)\n",
                secrets);
    snprintf(message, sizeof message, "%s", field_text(reply, "limited"));
    if (*message)
        wrap_print(output, text_printable(message), fprintf(output, "  note:"), 2);
    snprintf(message, sizeof message, "%s", field_text(reply, "storage"));
    if (*message)
        wrap_print(output, text_printable(message), fprintf(output, "  note:"), 2);
}

/* Print the state of the new run, why it waits, and what to do next. */
static weft_status run_submit_tell(struct platform *platform, int64_t run, const char *done, const cJSON *reply,
                                   bool enter, FILE *output, struct error *error)
{
    struct platform_path path;
    cJSON *why = NULL;
    weft_status status = WEFT_OK;
    platform_path_run(&path, run, "why");
    bool known = platform_get(platform, &path, &why, NULL) == WEFT_OK;
    if (known && strcmp(field_text(why, "state"), run_state_name(RUN_CANCELLED)) == 0) {
        status = run_submit_refused(run, done, why, error);
        cJSON_Delete(why);
        return status;
    }
    fprintf(output, "run %" PRId64 " is %s%s\n", run, done, made_for_it(reply));
    tell_limited(reply, output);
    if (known && *field_text(why, "why")) {
        char message[ERROR_TEXT_BYTES], expected[MOMENT_BYTES];
        snprintf(message, sizeof message, "%s", field_text(why, "why"));
        int column = fprintf(output, "  %s:", field_text(why, "state"));
        wrap_print(output, text_printable(message), column, 2);
        if (field_present(why, "expected_start") && !strstr(message, "expected to start") &&
            !strstr(message, " accrues in "))
            fprintf(output, "  expected to start %s\n",
                    moment_ago(field_integer(why, "expected_start"), moment_now(), expected));
    }
    fprintf(output, "next: weft %s %" PRId64 "    weft why %" PRId64 "    weft stop %" PRId64 "\n",
            enter ? "shell" : "logs -f", run, run, run);
    cJSON_Delete(why);
    return status;
}

static void run_line_print(void *context, const cJSON *line, bool several)
{
    FILE *output = field_integer(line, "stream") == STANDARD_OUTPUT ? context : stderr;
    run_lines_print_origin(line, several, output);
    /* Unchanged: colors and progress bars belong to the program. */
    fprintf(output, "%s\n", field_text(line, "text"));
}

/* Print the lines of all nodes until the run has ended, to `output`, or to stderr if they were printed there; then how
 * the run ended, on stderr. `*exit_code` is 0 if it succeeded, else 1; with an error, RUN_LINES_LOST. */
static weft_status run_follow(struct platform *platform, int64_t run, FILE *output, int *exit_code, struct error *error)
{
    struct platform_path path;
    cJSON *object = NULL;
    platform_path_run(&path, run, "logs");
    const struct run_lines lines = {
        .run = run, .last = LINES_BEFORE, .path = &path, .output = output, .take = run_line_print, .context = output};
    weft_status status = run_lines_follow(platform, &lines, &object, error);
    if (status != WEFT_OK) {
        *exit_code = RUN_LINES_LOST;
        return status;
    }
    char reason[512];
    const char *state = field_text(object, "state");
    snprintf(reason, sizeof reason, "%s", field_text(object, "reason"));
    bool well = strcmp(state, "succeeded") == 0;
    fprintf(stderr, "run %" PRId64 " has %s%s%s\n", run, strcmp(state, "cancelled") == 0 ? "been cancelled" : state,
            *reason ? ": " : "", text_printable(reason));
    *exit_code = well ? 0 : 1;
    cJSON_Delete(object);
    return WEFT_OK;
}

weft_status run_submit_send(struct command_call *call, struct platform *platform, const struct platform_path *path,
                            const struct json_writer *body, const char *done, struct run_submit_shown *shown,
                            struct error *error)
{
    char key[CLIENT_KEY_BYTES];
    cJSON *reply = NULL;
    client_make_key(key);
    weft_status status = platform_send(platform, "POST", path, body, key, &reply, error);
    if (status != WEFT_OK)
        return status;
    int64_t run = field_integer(reply, "run");
    if (run < 1)
        status = error_set(error, WEFT_ERROR_NETWORK, "the reply of %s does not name the new run",
                           client_server(platform->client));
    else if (shown->json) {
        if (shown->omissions.count)
            put_omissions(reply, &shown->omissions);
        platform_print_json(reply, call->output);
    } else if (shown->quiet)
        fprintf(call->output, "%" PRId64 "\n", run);
    else if (shown->follow) {
        fprintf(stderr, "run %" PRId64 " is %s%s; Ctrl-C leaves it alone, 'weft stop %" PRId64 "' ends it\n", run, done,
                made_for_it(reply), run);
        tell_limited(reply, stderr);
    } else
        status = run_submit_tell(platform, run, done, reply, shown->enter, call->output, error);
    cJSON_Delete(reply);
    snapshot_omissions_free(&shown->omissions);
    if (status == WEFT_OK && shown->follow)
        status = run_follow(platform, run, call->output, &call->exit_code, error);
    return status;
}
