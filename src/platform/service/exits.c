/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/exits.h"

#include "base/crc32c.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ALIVE_PERIOD 5000 /* milliseconds */
#define RECORD_BYTES 4096 /* of each of the two records */
#define RECORDS      2
#define CHECKSUM     "checksum "

static void format_record(const struct exits *exits, uint64_t number, bool paused, unsigned count,
                          char record[RECORD_BYTES])
{
    memset(record, 0, RECORD_BYTES);
    int length =
        snprintf(record, RECORD_BYTES, "number %" PRIu64 "\nrunning %d\npaused %d\n", number, exits->running, paused);
    for (unsigned i = 0; i < count; i++)
        length += snprintf(record + length, RECORD_BYTES - (size_t)length, "unclean %" PRId64 "\n", exits->times[i]);
    snprintf(record + length, RECORD_BYTES - (size_t)length, CHECKSUM "%08" PRIx32 "\n",
             crc32c(record, (size_t)length));
}

/* In the place of the older of the two, whose blocks are allocated: that needs no space. */
static weft_status overwrite(const char *path, uint64_t number, const char *record, struct error *error)
{
    const int file = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return error_system(error, "cannot open '%s'", path);
    const ssize_t written = pwrite(file, record, RECORD_BYTES, (off_t)(number % RECORDS * RECORD_BYTES));
    weft_status status = WEFT_OK;
    if (written != RECORD_BYTES || fdatasync(file) != 0)
        status = error_system(error, "cannot write '%s'", path);
    close(file);
    return status;
}

static weft_status exits_write_record(struct exits *exits, bool paused, unsigned count, struct error *error)
{
    char records[RECORDS * RECORD_BYTES] = {0};
    const uint64_t number = exits->number + 1;
    char *record = records + number % RECORDS * RECORD_BYTES;
    format_record(exits, number, paused, count, record);
    weft_status status = exits->number && file_exists(exits->path)
                             ? overwrite(exits->path, number, record, error)
                             : file_write(exits->path, records, sizeof records, error);
    if (status == WEFT_OK)
        exits->number = number;
    return status;
}

static void write_or_complain(struct exits *exits)
{
    struct error error = {0};
    if (exits_write_record(exits, exits->paused, exits->count, &error) != WEFT_OK)
        complain(&exits->trouble, "cannot record unclean exits of the server", &error);
    else
        complain_no_more(&exits->trouble, "unclean exits of the server are recorded again");
}

static void exits_add(struct exits *exits, int64_t time)
{
    if (exits->count == EXITS_KEPT)
        memmove(exits->times, exits->times + 1, --exits->count * sizeof *exits->times);
    exits->times[exits->count++] = time;
}

/* The number of a record; 0 if it was not written as a whole. */
static uint64_t record_number(const char record[RECORD_BYTES + 1])
{
    const char *const sum = strstr(record, CHECKSUM);
    uint64_t number;
    uint32_t expected;
    if (!sum || sscanf(sum, CHECKSUM "%8" SCNx32, &expected) != 1 ||
        expected != crc32c(record, (size_t)(sum - record)) || sscanf(record, "number %" SCNu64, &number) != 1)
        return 0;
    return number;
}

/* Returns whether a server ran. */
static bool exits_take_record(struct exits *exits, char *record)
{
    bool was_running = false;
    char word[16], *rest, *line;
    int64_t value;
    for (line = strtok_r(record, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "%15s %" SCNd64, word, &value) != 2)
            continue;
        if (strcmp(word, "running") == 0)
            was_running = value != 0;
        else if (strcmp(word, "paused") == 0)
            exits->paused = value != 0;
        else if (strcmp(word, "unclean") == 0)
            exits_add(exits, value);
    }
    return was_running;
}

/* Read what the last server left; without a record that is whole there are no exits. Returns whether the last exit was
 * unclean. */
static bool exits_read_record(struct exits *exits)
{
    char *content, newest[RECORD_BYTES + 1] = {0};
    size_t size;
    struct stat found;
    if (file_read(exits->path, RECORDS * RECORD_BYTES, &content, &size, NULL) != WEFT_OK)
        return false;
    for (unsigned i = 0; i < RECORDS && size == RECORDS * RECORD_BYTES; i++) {
        char record[RECORD_BYTES + 1] = {0};
        memcpy(record, content + (size_t)i * RECORD_BYTES, RECORD_BYTES);
        const uint64_t number = record_number(record);
        if (number > exits->number) {
            exits->number = number;
            memcpy(newest, record, sizeof newest);
        }
    }
    free(content);
    const bool unclean = exits->number && exits_take_record(exits, newest);
    if (unclean && stat(exits->path, &found) == 0)
        exits_add(exits, (int64_t)found.st_mtim.tv_sec * 1000 + found.st_mtim.tv_nsec / 1000000);
    return unclean;
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

weft_status exits_begin(struct exits *exits, const char *directory, int64_t most, int64_t now, struct error *error)
{
    *exits = (struct exits){.alive_at = now};
    weft_status status = file_join(exits->path, directory, "exits", error);
    if (status != WEFT_OK)
        return status;
    const bool unclean = exits_read_record(exits);
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
        if (!exits->number || utimensat(AT_FDCWD, exits->path, NULL, 0) != 0)
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
    weft_status status = exits_write_record(exits, false, 0, error);
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
