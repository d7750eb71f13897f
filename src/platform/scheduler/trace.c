/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/scheduler/internal/trace.h"

#include "base/buffer.h"
#include "base/string_list.h"
#include "base/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define BYTES_MOST      ((size_t)1 << 30)
#define PIECE_BYTES     (1u << 20)
#define FIELDS_MOST     64
#define SWF_FIELDS      18
#define BYTE_ORDER_MARK "\xef\xbb\xbf"
#define SECONDS_MOST    1e11 /* three thousand years */
#define SLOTS_MOST      1e6

/* ---- lines and fields ---- */

struct scheduler_trace_reader {
    const char *path;
    const char *at, *end;
    size_t line; /* number of the line in `fields` */
    char *copy;  /* of that line, cut into fields */
    size_t room;
    char *fields[FIELDS_MOST];
    unsigned field_count;        /* may be more than are kept */
    struct string_list projects; /* names seen so far */
};

static weft_status bad(const struct scheduler_trace_reader *reader, struct error *error, const char *what)
{
    return error_set(error, WEFT_ERROR_DATA, "%s, line %zu: %s", reader->path, reader->line, what);
}

/* The text is not NUL-terminated. */
static bool scheduler_trace_is_blank(const char *text, size_t length)
{
    while (length > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        length--;
    }
    return length == 0;
}

/* The next line that is neither empty nor a comment, cut at `separator` (' ': any white space); false at the end. */
static weft_status scheduler_trace_next_line(struct scheduler_trace_reader *reader, char separator, bool *more,
                                             struct error *error)
{
    *more = false;
    while (reader->at < reader->end) {
        const char *stop = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
        if (!stop)
            stop = reader->end;
        size_t length = (size_t)(stop - reader->at);
        const char *text = reader->at;
        reader->at = stop < reader->end ? stop + 1 : stop;
        reader->line++;
        if (length && text[length - 1] == '\r')
            length--;
        if (scheduler_trace_is_blank(text, length) || *text == ';' || *text == '#')
            continue;
        if (memchr(text, 0, length))
            return bad(reader, error, "a NUL byte, in what should be text");
        if (ARRAY_RESERVE(reader->copy, reader->room, length + 1, "a line of a trace", error) != WEFT_OK)
            return WEFT_ERROR_MEMORY;
        memcpy(reader->copy, text, length);
        reader->copy[length] = 0;
        reader->field_count = 0;
        for (char *field = reader->copy; field;) {
            if (separator == ' ')
                field += strspn(field, " \t");
            if (separator == ' ' && !*field)
                break;
            if (reader->field_count < FIELDS_MOST)
                reader->fields[reader->field_count] = field;
            reader->field_count++;
            field = separator == ' ' ? strpbrk(field, " \t") : strchr(field, separator);
            if (field)
                *field++ = 0;
        }
        *more = true;
        return WEFT_OK;
    }
    return WEFT_OK;
}

/* A line has as many fields as the first: else it was cut off, or a field has a separator in it. */
static weft_status check_fields(const struct scheduler_trace_reader *reader, unsigned count, const char *first,
                                struct error *error)
{
    if (reader->field_count == count)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_DATA, "%s, line %zu: it has too %s fields: %u, where %s has %u", reader->path,
                     reader->line, reader->field_count < count ? "few" : "many", reader->field_count, first, count);
}

/* A number that a line must have. */
struct trace_field {
    unsigned field;
    const char *name;
    double least, most;
    double *value;
};

static weft_status scheduler_trace_numbers(const struct scheduler_trace_reader *reader,
                                           const struct trace_field *fields, size_t count, struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        const struct trace_field *each = &fields[i];
        if (each->field >= reader->field_count)
            return bad(reader, error, "it has too few fields");
        if (text_parse_number(reader->fields[each->field], each->name, each->least, each->most, each->value, NULL) !=
            WEFT_OK)
            return error_set(error, WEFT_ERROR_DATA, "%s, line %zu: %s is '%.40s', not a number from %g to %g",
                             reader->path, reader->line, each->name, text_printable(reader->fields[each->field]),
                             each->least, each->most);
    }
    return WEFT_OK;
}

/* The number of a project, by its name. */
static weft_status project_of(struct scheduler_trace_reader *reader, const char *name, uint32_t *project,
                              struct error *error)
{
    const size_t found = string_list_find(&reader->projects, name);
    *project = (uint32_t)found;
    return found < reader->projects.count ? WEFT_OK : string_list_add(&reader->projects, name, error);
}

static weft_status scheduler_trace_append(struct job_trace *trace, size_t *room, const struct trace_job *job,
                                          struct error *error)
{
    if (ARRAY_RESERVE(trace->jobs, *room, trace->count + 1, "the jobs of a trace", error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    trace->jobs[trace->count++] = *job;
    return WEFT_OK;
}

/* ---- the two formats ---- */

static weft_status parse_csv(struct scheduler_trace_reader *reader, struct job_trace *trace, struct error *error)
{
    static const char *const names[] = {"submit_s", "duration_s", "num_gpus", "vc"};
    unsigned column[4] = {FIELDS_MOST, FIELDS_MOST, FIELDS_MOST, FIELDS_MOST};
    const unsigned columns = reader->field_count;
    if (columns > FIELDS_MOST)
        return error_set(error, WEFT_ERROR_DATA, "%s, line %zu: there are %u columns, but at most %d are allowed",
                         reader->path, reader->line, columns, FIELDS_MOST);
    for (unsigned i = 0; i < reader->field_count; i++)
        for (unsigned k = 0; k < 4; k++)
            if (!strcmp(reader->fields[i], names[k]))
                column[k] = i;
    for (unsigned k = 0; k < 3; k++)
        if (column[k] == FIELDS_MOST)
            return error_set(error, WEFT_ERROR_DATA,
                             "%s, line %zu: there is no column '%s'; the header must name submit_s, duration_s and "
                             "num_gpus, and may name vc",
                             reader->path, reader->line, names[k]);
    size_t room = 0;
    bool more;
    weft_status status;
    while ((status = scheduler_trace_next_line(reader, ',', &more, error)) == WEFT_OK && more) {
        struct trace_job job = {.name = trace->count + 1, .line = reader->line};
        double slots;
        const struct trace_field fields[] = {{column[0], names[0], 0, SECONDS_MOST, &job.submit},
                                             {column[1], names[1], 0, SECONDS_MOST, &job.duration},
                                             {column[2], names[2], 1, SLOTS_MOST, &slots}};
        status = check_fields(reader, columns, "the header", error);
        if (status == WEFT_OK)
            status = scheduler_trace_numbers(reader, fields, ARRAY_SIZE(fields), error);
        if (status == WEFT_OK && slots != floor(slots))
            status = bad(reader, error, "num_gpus is no whole number");
        if (status == WEFT_OK && column[3] < reader->field_count)
            status = project_of(reader, reader->fields[column[3]], &job.project, error);
        if (status == WEFT_OK) {
            job.slots = (uint32_t)slots;
            status = scheduler_trace_append(trace, &room, &job, error);
        }
        if (status != WEFT_OK)
            break;
    }
    return status;
}

enum { SWF_ID, SWF_SUBMIT, SWF_WAIT, SWF_RUN, SWF_USED, SWF_REQUESTED = 7, SWF_USER = 11 };

static weft_status parse_swf(struct scheduler_trace_reader *reader, struct job_trace *trace, struct error *error)
{
    size_t room = 0;
    bool more = true;
    const unsigned first = reader->field_count;
    weft_status status = first <= SWF_FIELDS ? WEFT_OK : check_fields(reader, SWF_FIELDS, "the format", error);
    for (; status == WEFT_OK && more;
         status = status == WEFT_OK ? scheduler_trace_next_line(reader, ' ', &more, error) : status) {
        double name = 0, submit = 0, run = 0, used = 0, requested = 0;
        const struct trace_field fields[] = {
            {SWF_ID, "the job's number", 0, 1e15, &name},
            {SWF_SUBMIT, "the submit time", -1, SECONDS_MOST, &submit},
            {SWF_RUN, "the run time", -1, SECONDS_MOST, &run},
            {SWF_USED, "the processors used", -1, SLOTS_MOST, &used},
            {SWF_REQUESTED, "the processors requested", -1, SLOTS_MOST, &requested},
        };
        status = check_fields(reader, first, "the first job", error);
        if (status == WEFT_OK)
            status = scheduler_trace_numbers(reader, fields, ARRAY_SIZE(fields), error);
        double slots = used > 0 ? used : requested;
        if (status != WEFT_OK)
            break;
        if (run < 0 || slots < 1 || submit < 0) {
            trace->left_out++;
            continue;
        }
        struct trace_job job = {submit, run, (uint32_t)slots, 0, (uint64_t)name, reader->line};
        if (SWF_USER < reader->field_count)
            status = project_of(reader, reader->fields[SWF_USER], &job.project, error);
        if (status == WEFT_OK)
            status = scheduler_trace_append(trace, &room, &job, error);
    }
    return status;
}

static int by_submission(const void *a, const void *b)
{
    const struct trace_job *left = a, *right = b;
    if (left->submit != right->submit)
        return left->submit < right->submit ? -1 : 1;
    return left->name < right->name ? -1 : left->name > right->name;
}

weft_status trace_parse(const char *path, const char *text, size_t size, struct job_trace *trace, struct error *error)
{
    const size_t mark = size >= 3 && memcmp(text, BYTE_ORDER_MARK, 3) == 0 ? 3 : 0;
    struct scheduler_trace_reader reader = {.path = path, .at = text + mark, .end = text + size};
    struct job_trace read = {0};
    bool more;
    weft_status status = scheduler_trace_next_line(&reader, ',', &more, error);
    if (status == WEFT_OK && !more)
        status = error_set(error, WEFT_ERROR_DATA, "%s: there is nothing in it", path);
    if (status == WEFT_OK && reader.field_count > 1) {
        status = parse_csv(&reader, &read, error);
    } else if (status == WEFT_OK) {
        reader.at = text + mark; /* the first line again, cut at white space */
        reader.line = 0;
        status = scheduler_trace_next_line(&reader, ' ', &more, error);
        if (status == WEFT_OK)
            status = parse_swf(&reader, &read, error);
    }
    if (status == WEFT_OK && !read.count && read.left_out)
        status =
            error_set(error, WEFT_ERROR_DATA,
                      "%s: of none of its %zu jobs are submission, run time and processors known", path, read.left_out);
    else if (status == WEFT_OK && !read.count)
        status = error_set(error, WEFT_ERROR_DATA, "%s: there is no job in it", path);
    read.projects = reader.projects.count ? (uint32_t)reader.projects.count : 1;
    string_list_free(&reader.projects);
    free(reader.copy);
    if (status != WEFT_OK) {
        trace_free(&read);
        return status;
    }
    qsort(read.jobs, read.count, sizeof *read.jobs, by_submission);
    *trace = read;
    return WEFT_OK;
}

weft_status trace_read(const char *path, struct job_trace *trace, struct error *error)
{
    gzFile file = gzopen(path, "rb"); /* reads what is not compressed as it is */
    if (!file)
        return error_system(error, "cannot open the trace '%s'", path);
    struct buffer text = {0};
    weft_status status = WEFT_OK;
    for (int got = 1; got > 0 && status == WEFT_OK;) {
        uint8_t *piece = buffer_reserve(&text, PIECE_BYTES);
        got = piece ? gzread(file, piece, PIECE_BYTES) : 0;
        int code;
        const char *why = got < 0 ? gzerror(file, &code) : "";
        if (!piece)
            status = error_memory(error, PIECE_BYTES, "a trace");
        else if (got < 0)
            status = code == Z_ERRNO ? error_system(error, "cannot read the trace '%s'", path)
                                     : error_set(error, WEFT_ERROR_DATA, "%s: cannot be uncompressed: %s", path, why);
        else
            text.end += (size_t)got;
        if (buffer_size(&text) > BYTES_MOST)
            status = error_set(error, WEFT_ERROR_DATA, "%s: it is larger than %zu bytes", path, BYTES_MOST);
    }
    if (gzclose(file) == Z_BUF_ERROR && status == WEFT_OK)
        status = error_set(error, WEFT_ERROR_DATA, "%s: it is cut off within what is compressed: copy it again, whole",
                           path);
    if (status == WEFT_OK)
        status = trace_parse(path, (const char *)buffer_begin(&text), buffer_size(&text), trace, error);
    buffer_free(&text);
    return status;
}

void trace_free(struct job_trace *trace)
{
    free(trace->jobs);
    *trace = (struct job_trace){0};
}
