/* SPDX-License-Identifier: Apache-2.0 */
#include "service/exits.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#define ALIVE_PERIOD 5000 /* milliseconds */
#define RECORD_BYTES 4096

static weft_status write_record(const struct exits *exits, bool paused, unsigned count, struct error *error)
{
    char text[RECORD_BYTES];
    int length = snprintf(text, sizeof text, "running %d\npaused %d\n", exits->running, paused);
    for (unsigned i = 0; i < count; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "unclean %" PRId64 "\n", exits->times[i]);
    return file_write(exits->path, text, (size_t)length, error);
}

static void write_or_complain(struct exits *exits)
{
    struct error error = {0};
    if (write_record(exits, exits->paused, exits->count, &error) != WEFT_OK)
        complain(&exits->trouble, "cannot record unclean exits of the server", &error);
    else
        complain_no_more(&exits->trouble, "unclean exits of the server are recorded again");
}

static void add(struct exits *exits, int64_t time)
{
    if (exits->count == EXITS_KEPT)
        memmove(exits->times, exits->times + 1, --exits->count * sizeof *exits->times);
    exits->times[exits->count++] = time;
}

/* Read what the last server left; a record that is missing or cannot be read has no exits. Returns whether the last
 * exit was unclean. */
static bool read_record(struct exits *exits)
{
    char *text, *rest, *line;
    size_t size;
    struct stat found;
    if (file_read(exits->path, RECORD_BYTES, &text, &size, NULL) != WEFT_OK)
        return false;
    bool was_running = false;
    char word[16];
    int64_t value;
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "%15s %" SCNd64, word, &value) != 2)
            continue;
        if (strcmp(word, "running") == 0)
            was_running = value != 0;
        else if (strcmp(word, "paused") == 0)
            exits->paused = value != 0;
        else if (strcmp(word, "unclean") == 0)
            add(exits, value);
    }
    free(text);
    if (was_running && stat(exits->path, &found) == 0)
        add(exits, (int64_t)found.st_mtim.tv_sec * 1000 + found.st_mtim.tv_nsec / 1000000);
    return was_running;
}

/* How many exits there were in the window that ends with the last one. */
static unsigned recent(const struct exits *exits)
{
    unsigned count = 0;
    for (unsigned i = exits->count; i-- > 0 && exits->times[exits->count - 1] - exits->times[i] <= EXITS_WINDOW;)
        count++;
    return count;
}

static void say_why(struct exits *exits)
{
    char clock[32] = "";
    const time_t last = exits->count ? (time_t)(exits->times[exits->count - 1] / 1000) : 0;
    struct tm local;
    strftime(clock, sizeof clock, "%Y-%m-%d %H:%M:%S", localtime_r(&last, &local));
    snprintf(exits->why, sizeof exits->why,
             "scheduling is paused: the server ended uncleanly %u time%s within %d s, last at %s. Running runs go on, "
             "and no run starts until an administrator runs 'weft queue --resume'",
             recent(exits), recent(exits) == 1 ? "" : "s", EXITS_WINDOW / 1000, clock);
}

weft_status exits_begin(struct exits *exits, const char *folder, int64_t most, int64_t now, struct error *error)
{
    *exits = (struct exits){.alive_at = now};
    weft_status status = file_join(exits->path, folder, "exits", error);
    if (status != WEFT_OK)
        return status;
    const bool unclean = read_record(exits);
    exits->running = true;
    exits->paused = most && (exits->paused || (unclean && recent(exits) >= most));
    if (exits->paused)
        say_why(exits);
    write_or_complain(exits);
    return WEFT_OK;
}

int64_t exits_alive(struct exits *exits, int64_t now)
{
    if (now - exits->alive_at >= ALIVE_PERIOD || now < exits->alive_at) {
        exits->alive_at = now;
        if (utimensat(AT_FDCWD, exits->path, NULL, 0) != 0)
            write_or_complain(exits);
    }
    return exits->alive_at + ALIVE_PERIOD - now;
}

const char *exits_why(const struct exits *exits)
{
    return exits->paused ? exits->why : NULL;
}

weft_status exits_resume(struct exits *exits, struct error *error)
{
    weft_status status = write_record(exits, false, 0, error);
    if (status != WEFT_OK)
        return status;
    exits->count = 0;
    exits->paused = false;
    return WEFT_OK;
}

void exits_end(struct exits *exits)
{
    if (!*exits->path)
        return;
    exits->running = false;
    write_or_complain(exits);
    *exits->path = '\0';
}
