/* SPDX-License-Identifier: Apache-2.0 */
/* One writer a run folder: a lock on a file in it, which the kernel takes back when the process ends, however it ends.
 */
#include "base/file.h"
#include "checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#define CLAIM_FILE ".writer"

struct checkpoint_claim {
    int descriptor;
};

/* The sentence about who is there already, as that process wrote it. */
static weft_status claimed_by_another(const char *run, int descriptor, struct error *error)
{
    char owner[256] = "";
    ssize_t length = pread(descriptor, owner, sizeof owner - 1, 0);
    owner[length > 0 ? strcspn(owner, "\n") : 0] = '\0';
    return error_set(error, WEFT_ERROR_STATE,
                     "another process%s%s%s is writing checkpoints to '%s'; stop it or choose another folder",
                     owner[0] ? " (" : "", owner, owner[0] ? ")" : "", run);
}

/* Say who we are, for the sentence that another process would print, and in a second line something nobody else says,
 * by which ranks find out whether they see the same folder. Synced, so that other hosts read it while the file is open.
 */
static weft_status sign(int descriptor, const char *path, struct error *error)
{
    char host[128] = "", owner[CHECKPOINT_CLAIM_BYTES];
    uint64_t drawn[2];
    gethostname(host, sizeof host - 1);
    if (getrandom(drawn, sizeof drawn, 0) != sizeof drawn)
        return error_system(error, "cannot draw a random number");
    int length = snprintf(owner, sizeof owner, "process %ld on %s\n%016" PRIx64 "%016" PRIx64 "\n", (long)getpid(),
                          host, drawn[0], drawn[1]);
    if (ftruncate(descriptor, 0) != 0 || write(descriptor, owner, (size_t)length) != length || fsync(descriptor) != 0)
        return error_system(error, "cannot write '%s'", path);
    return WEFT_OK;
}

weft_status checkpoint_claim(const char *run, struct checkpoint_claim **claim, struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = file_make_folder(run, error);
    if (status == WEFT_OK)
        status = file_join(path, run, CLAIM_FILE, error);
    if (status != WEFT_OK)
        return status;
    struct checkpoint_claim *made = malloc(sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "a claim");
    made->descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (made->descriptor < 0)
        status = error_system(error, "cannot create '%s'", path);
    else if (flock(made->descriptor, LOCK_EX | LOCK_NB) != 0)
        status = errno == EWOULDBLOCK ? claimed_by_another(run, made->descriptor, error)
                                      : error_system(error, "cannot lock '%s'", path);
    else
        status = sign(made->descriptor, path, error);
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
    if (claim->descriptor >= 0)
        close(claim->descriptor);
    free(claim);
}
