/* SPDX-License-Identifier: Apache-2.0 */
/* `weft backup` and `weft restore`: a copy of a server's state, and a state from it. */
#include "platform/backup/backup.h"

#include "base/file/file.h"
#include "base/format/quantity.h"
#include "base/text.h"
#include "cli/frame/command.h"
#include "cli/frame/moments.h"

#include <inttypes.h>

static struct {
    const char *state;
    bool without_run_files;
} chosen;

/* The directory of --state, or the server's usual one. */
static weft_status find_state_directory(char directory[FILE_PATH_BYTES], const char **state, struct error *error)
{
    *state = chosen.state ? chosen.state : directory;
    return chosen.state ? WEFT_OK : file_state_directory(directory, "platform", error);
}

static void print_backup(const char *what, const char *path, const struct backup_summary *summary, FILE *output)
{
    char bytes[QUANTITY_TEXT_BYTES];
    fprintf(output, "%s %s: %" PRIu64 " files, %s%s\n", path, what, summary->files,
            quantity_text((double)summary->bytes, QUANTITY_BYTES, bytes),
            summary->run_files ? "" : ", without the files of runs");
}

#define STATE_OPTION(meaning)                                                                                          \
    CLI_TEXT("state", 's', "DIR", &chosen.state, NULL, meaning,                                                        \
             .default_text = "$XDG_STATE_HOME/weft/platform or ~/.local/state/weft/platform")

static const struct cli_option backup_options[] = {
    STATE_OPTION("directory of the server's state"),
    CLI_FLAG("without-run-files", 0, &chosen.without_run_files,
             "leave out working directories and checkpoints of runs, which may be large"),
};

static weft_status backup_backup_run(struct command_call *call, struct error *error)
{
    char directory[FILE_PATH_BYTES];
    const char *state;
    struct backup_summary summary;
    weft_status status = find_state_directory(directory, &state, error);
    if (status == WEFT_OK)
        status = backup_make(state, call->words[0], !chosen.without_run_files, &summary, error);
    if (status != WEFT_OK)
        return status;
    print_backup("is a backup", call->words[0], &summary, call->output);
    if (summary.left_out)
        fprintf(stderr,
                "weft: %" PRIu64
                " files or directories of runs are not in it, as they cannot be read or are too deep; the "
                "first is '%s'\n",
                summary.left_out, text_printable(summary.first_left_out));
    return WEFT_OK;
}

const struct command command_backup = {
    .name = "backup",
    .group = COMMAND_PLATFORM,
    .summary = "copy the state of a server, while it runs",
    .description =
        "Copies the state of weft serve on this machine to a new directory: runs, projects, budgets, users, metrics, "
        "secrets, code, output, and the files of runs. Each database is copied as of one point in time, and the server "
        "does not wait. The directory appears when it is complete and on disk.\n\n"
        "The copy has a SHA-256 of each file: 'sha256sum -c SHA256SUMS' in it checks it without weft. It holds secrets "
        "together with their key, so keep it as safe as the state itself.",
    .examples =
        "weft backup /backups/weft-monday\nweft backup --without-run-files --state /srv/weft /backups/weft-monday\n",
    .words = "DIR",
    COMMAND_OPTIONS(backup_options),
    .run = backup_backup_run,
};

static const struct cli_option restore_options[] = {
    STATE_OPTION("directory of the new state: absent or empty"),
};

static weft_status backup_restore_run(struct command_call *call, struct error *error)
{
    char directory[FILE_PATH_BYTES], made[MOMENT_BYTES];
    const char *state;
    struct backup_summary summary;
    weft_status status = find_state_directory(directory, &state, error);
    if (status == WEFT_OK)
        status = backup_restore(call->words[0], state, &summary, error);
    if (status != WEFT_OK)
        return status;
    print_backup("is restored", state, &summary, call->output);
    fprintf(call->output, "the state is that of %s; weft serve begins with it\n", moment_clock(summary.made, made));
    return WEFT_OK;
}

const struct command command_restore = {
    .name = "restore",
    .group = COMMAND_PLATFORM,
    .summary = "make the state of a server from a backup",
    .description =
        "Makes the state of weft serve from a directory that weft backup has made. Every file is compared with its "
        "SHA-256 on the way; if one is damaged or missing, or if there is something in the state's directory already, "
        "nothing is changed.\n\n"
        "The next weft serve goes on from there. What ran when the backup was made counts as lost, and is run again "
        "where it may be. Runs that came after the backup are unknown, and their numbers are not used again as long as "
        "anything of them is found in the state.",
    .examples = "weft restore /backups/weft-monday\nweft restore --state /srv/weft /backups/weft-monday\n",
    .words = "DIR",
    COMMAND_OPTIONS(restore_options),
    .run = backup_restore_run,
};
