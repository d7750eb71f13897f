/* SPDX-License-Identifier: Apache-2.0 */
/* One writer per run directory: a lock on a file in it, which the kernel releases when the process ends, even if it
 * crashes. */
#include "base/file/file.h"
#include "base/file/lock.h"
#include "training/checkpoint/checkpoint.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define CLAIM_FILE ".writer"

struct checkpoint_claim {
    int descriptor;
    char *made; /* the directory, if it was not there before */
};

/* Whether there is nothing but the claim in a directory. */
static bool holds_claim_only(const char *path)
{
    DIR *directory = opendir(path);
    bool only = directory;
    for (const struct dirent *entry; only && (entry = readdir(directory));)
        only = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || !strcmp(entry->d_name, CLAIM_FILE);
    if (directory)
        closedir(directory);
    return only;
}

/* A directory that was made for a run that left nothing in it goes with it. */
static void remove_unused(const char *run)
{
    char path[FILE_PATH_BYTES];
    if (!holds_claim_only(run) || file_join(path, run, CLAIM_FILE, NULL) != WEFT_OK)
        return;
    unlink(path);
    rmdir(run);
}

/* A second line with a unique number, by which ranks detect whether they see the same directory. Synced, so that other
 * hosts read it while the file is open. */
static weft_status claim_sign(int descriptor, const char *path, struct error *error)
{
    char line[40];
    uint64_t drawn[2];
    if (getrandom(drawn, sizeof drawn, 0) != sizeof drawn)
        return error_system(error, "cannot draw a random number");
    int length = snprintf(line, sizeof line, "%016" PRIx64 "%016" PRIx64 "\n", drawn[0], drawn[1]);
    if (write(descriptor, line, (size_t)length) != length || fsync(descriptor) != 0)
        return error_system(error, "cannot write '%s'", path);
    return WEFT_OK;
}

weft_status checkpoint_claim(const char *run, struct checkpoint_claim **claim, struct error *error)
{
    char path[FILE_PATH_BYTES], use[FILE_PATH_BYTES + 32];
    const bool is_new = access(run, F_OK) != 0;
    weft_status status = file_make_directory(run, error);
    if (status == WEFT_OK)
        status = file_join(path, run, CLAIM_FILE, error);
    if (status != WEFT_OK)
        return status;
    struct checkpoint_claim *made = malloc(sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "a claim");
    *made = (struct checkpoint_claim){.descriptor = -1, .made = is_new ? strdup(run) : NULL};
    snprintf(use, sizeof use, "writing checkpoints to '%s'", run);
    status = lock_take(path, 0666, use, &made->descriptor, error);
    if (status == WEFT_OK)
        status = claim_sign(made->descriptor, path, error);
    if (status != WEFT_OK) {
        checkpoint_release(made);
        return status;
    }
    *claim = made;
    return WEFT_OK;
}

void checkpoint_claim_text(const char *run, char text[CHECKPOINT_CLAIM_BYTES])
{
    char path[FILE_PATH_BYTES];
    memset(text, 0, CHECKPOINT_CLAIM_BYTES);
    if (file_join(path, run, CLAIM_FILE, NULL) != WEFT_OK)
        return;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return;
    if (read(descriptor, text, CHECKPOINT_CLAIM_BYTES - 1) <= 0)
        text[0] = '\0';
    close(descriptor);
}

void checkpoint_release(struct checkpoint_claim *claim)
{
    if (!claim)
        return;
    if (claim->descriptor >= 0 && claim->made)
        remove_unused(claim->made);
    if (claim->descriptor >= 0)
        close(claim->descriptor);
    free(claim->made);
    free(claim);
}
