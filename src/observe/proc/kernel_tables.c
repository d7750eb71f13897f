/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/proc/kernel_tables.h"

#include <stdlib.h>
#include <string.h>

#define KIB    1024
#define SECTOR 512

/* Read at most `most` numbers separated by spaces or tabs. Returns how many there were. */
static unsigned kernel_tables_read_numbers(const char *text, uint64_t *numbers, unsigned most)
{
    unsigned count = 0;
    while (count < most) {
        while (*text == ' ' || *text == '\t')
            text++;
        if (*text < '0' || *text > '9')
            break;
        char *end;
        numbers[count++] = strtoull(text, &end, 10);
        text = end;
    }
    return count;
}

static uint64_t kernel_tables_add(uint64_t left, uint64_t right)
{
    return left > UINT64_MAX - right ? UINT64_MAX : left + right;
}

static uint64_t multiply(uint64_t number, uint64_t factor)
{
    return number > UINT64_MAX / factor ? UINT64_MAX : number * factor;
}

/* The beginning of the next line, or NULL where this one has no end. */
static const char *kernel_tables_next_line(const char *text)
{
    const char *end = strchr(text, '\n');
    return end ? end + 1 : NULL;
}

bool kernel_processors_parse(const char *text, struct kernel_processors *processors)
{
    enum { USER, NICE, SYSTEM, IDLE, WAITING, INTERRUPT, SOFT_INTERRUPT, STOLEN, FIELDS };
    uint64_t fields[FIELDS] = {0};
    *processors = (struct kernel_processors){0};
    if (strncmp(text, "cpu ", 4) != 0 || kernel_tables_read_numbers(text + 4, fields, FIELDS) < IDLE + 1)
        return false;
    processors->busy =
        kernel_tables_add(kernel_tables_add(kernel_tables_add(fields[USER], fields[NICE]), fields[SYSTEM]),
                          kernel_tables_add(fields[INTERRUPT], fields[SOFT_INTERRUPT]));
    processors->idle = fields[IDLE];
    processors->waiting = fields[WAITING];
    processors->stolen = fields[STOLEN];
    for (const char *line = kernel_tables_next_line(text); line && strncmp(line, "cpu", 3) == 0;
         line = kernel_tables_next_line(line))
        processors->count++;
    return processors->count > 0;
}

uint64_t kernel_number_of(const char *text, const char *key, uint64_t missing)
{
    const size_t length = strlen(key);
    for (const char *line = text; line; line = kernel_tables_next_line(line)) {
        uint64_t number;
        if (strncmp(line, key, length) != 0 || !strchr(": \t", line[length]) || !line[length])
            continue;
        if (kernel_tables_read_numbers(line + length + (line[length] == ':'), &number, 1) == 1 && strchr(line, '\n'))
            return number;
    }
    return missing;
}

bool kernel_memory_parse(const char *text, struct kernel_memory *memory)
{
    const uint64_t none = UINT64_MAX;
    const uint64_t total = kernel_number_of(text, "MemTotal", none);
    const uint64_t available = kernel_number_of(text, "MemAvailable", none);
    *memory = (struct kernel_memory){.total = multiply(total, KIB), .available = multiply(available, KIB)};
    memory->swap_total = multiply(kernel_number_of(text, "SwapTotal", 0), KIB);
    memory->swap_free = multiply(kernel_number_of(text, "SwapFree", 0), KIB);
    return total != none && available != none && available <= total && memory->swap_free <= memory->swap_total;
}

/* Copy a name of `length` bytes. False if it is empty or too long. */
static bool take_name(const char *text, size_t length, struct kernel_traffic *traffic)
{
    if (length == 0 || length >= sizeof traffic->name)
        return false;
    memcpy(traffic->name, text, length);
    traffic->name[length] = '\0';
    return true;
}

static bool parse_interface(const char *line, struct kernel_traffic *interface)
{
    enum { RECEIVED = 0, SENT = 8, FIELDS };
    uint64_t fields[FIELDS];
    line += strspn(line, " ");
    /* The name may have a colon of its own ("eth0:1"): the last one before a blank or a number ends it. */
    const size_t word = strcspn(line, " \n");
    const char *colon = memrchr(line, ':', word);
    if (!colon || kernel_tables_read_numbers(colon + 1, fields, FIELDS) < FIELDS)
        return false;
    interface->in = fields[RECEIVED];
    interface->out = fields[SENT];
    return take_name(line, (size_t)(colon - line), interface);
}

static bool parse_disk(const char *line, struct kernel_traffic *disk)
{
    enum { READ = 2, WRITTEN = 6, FIELDS };
    uint64_t numbers[2], fields[FIELDS];
    if (kernel_tables_read_numbers(line, numbers, 2) < 2)
        return false;
    for (int i = 0; i < 2; i++) {
        line += strspn(line, " ");
        line += strspn(line, "0123456789");
    }
    line += strspn(line, " ");
    const size_t length = strcspn(line, " \n");
    if (kernel_tables_read_numbers(line + length, fields, FIELDS) < FIELDS)
        return false;
    disk->in = multiply(fields[READ], SECTOR);
    disk->out = multiply(fields[WRITTEN], SECTOR);
    return take_name(line, length, disk);
}

static bool kernel_tables_take_next(const char **text, bool (*parse)(const char *, struct kernel_traffic *),
                                    struct kernel_traffic *traffic)
{
    for (const char *next = kernel_tables_next_line(*text); next; next = kernel_tables_next_line(*text)) {
        const char *line = *text;
        *text = next;
        if (parse(line, traffic))
            return true;
    }
    return false;
}

bool kernel_interface_next(const char **text, struct kernel_traffic *interface)
{
    return kernel_tables_take_next(text, parse_interface, interface);
}

bool kernel_disk_next(const char **text, struct kernel_traffic *disk)
{
    return kernel_tables_take_next(text, parse_disk, disk);
}

bool kernel_process_parse(const char *text, struct kernel_process *process)
{
    /* Where they stand after the name and the state: proc(5) counts from 1, and these two are 2 and 3. */
    enum {
        PARENT = 0,
        GROUP = 1,
        USER = 10,
        SYSTEM,
        CHILDREN_USER,
        CHILDREN_SYSTEM,
        START = 18,
        RESIDENT = 20,
        FIELDS
    };
    uint64_t fields[FIELDS];
    const char *rest = strrchr(text, ')'); /* the name may hold anything, ')' too */
    const int64_t number = strtoll(text, NULL, 10);
    if (!rest || rest[1] != ' ' || !rest[2])
        return false;
    rest += 3;
    for (int i = 0; i < FIELDS; i++) {
        rest += strspn(rest, " ");
        const bool negative = *rest == '-'; /* some are; none that is of use here */
        if (kernel_tables_read_numbers(rest + negative, &fields[i], 1) != 1)
            return false;
        fields[i] = negative ? UINT64_MAX : fields[i];
        rest += strcspn(rest, " ");
    }
    if (number < 1 || number > INT32_MAX || fields[PARENT] > INT32_MAX || fields[GROUP] > INT32_MAX)
        return false;
    *process = (struct kernel_process){
        .process = (int32_t)number,
        .parent = (int32_t)fields[PARENT],
        .group = (int32_t)fields[GROUP],
        .start = fields[START],
        .own = kernel_tables_add(fields[USER], fields[SYSTEM]),
        .children = kernel_tables_add(fields[CHILDREN_USER], fields[CHILDREN_SYSTEM]),
        .resident = fields[RESIDENT],
    };
    return true;
}
