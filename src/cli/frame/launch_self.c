/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame/launch_self.h"

#include "base/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_OF_NAME 4 /* "bench", "profile machine" */

weft_status launch_self(const struct command_call *call, int64_t ranks, struct error *error)
{
    char count_text[24], self[4096] = "/proc/self/exe", name[sizeof call->name];
    /* Bound, so that the kernel does not measure two ranks on one core while another idles. */
    char *start[] = {"weft", "run", "-n", count_text, "--bind", "cores", "--no-prefix", "--no-record", "--", self};
    size_t used = ARRAY_SIZE(start), count = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0)
        self[length] = '\0';
    snprintf(count_text, sizeof count_text, "%" PRId64, ranks);
    snprintf(name, sizeof name, "%s", call->name);
    while (call->arguments[count])
        count++;
    char **words = calloc(used + WORDS_OF_NAME + count + 1, sizeof *words), *rest = name;
    if (!words)
        return error_memory(error, (used + WORDS_OF_NAME + count + 1) * sizeof *words, "the command line of weft run");
    memcpy(words, start, sizeof start);
    strsep(&rest, " "); /* "weft" */
    for (char *word; used < ARRAY_SIZE(start) + WORDS_OF_NAME && (word = strsep(&rest, " "));)
        words[used++] = word;
    memcpy(words + used, call->arguments, count * sizeof *words);
    fflush(NULL);
    execv(self, words);
    free(words);
    return error_system(error, "cannot start %s", self);
}
