/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All jobs, by one squeue.
 *
 * Names and comments may have any bytes, line ends among them. Fields are therefore separated by a random word, which
 * nobody can have put into a job before. It is given in the environment, because arguments can be read by all users
 * while squeue waits for slurmctld.
 */
#include "base/text.h"
#include "platform/engine/slurm/internal/program.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SEPARATOR_BYTES 32
#define FORMAT_BYTES    600

enum queue_field {
    FIELD_ID,
    FIELD_STATE,
    FIELD_NODE_COUNT,
    FIELD_CPUS,
    FIELD_GRES,
    FIELD_PARTITION,
    FIELD_USER,
    FIELD_NODES,
    FIELD_REASON,
    FIELD_NAME,
    FIELD_COMMENT,
    FIELDS
};

/* The letters of squeue --format, by field. */
static const char field_letters[FIELDS + 1] = "ATDCbPuNrjk";

static weft_status make_separator(char separator[SEPARATOR_BYTES], struct error *error)
{
    uint64_t drawn;
    if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn)
        return error_system(error, "cannot draw random numbers");
    snprintf(separator, SEPARATOR_BYTES, "@weft-%016" PRIx64 "@", drawn);
    return WEFT_OK;
}

/* ---- states ---- */

/* States of later releases count as running: a job that may have nodes must not be taken for one that has ended. */
static enum slurm_job_state job_state_read(const char *word)
{
    static const char *const pending[] = {"PENDING",       "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT",
                                          "RESV_DEL_HOLD", NULL};
    static const char *const suspended[] = {"SUSPENDED", "STOPPED", NULL};
    static const char *const completing[] = {"COMPLETING", "STAGE_OUT", NULL};
    static const char *const ended[] = {"COMPLETED", "CANCELLED",     "FAILED",   "TIMEOUT",       "NODE_FAIL",
                                        "PREEMPTED", "BOOT_FAIL",     "DEADLINE", "OUT_OF_MEMORY", "LAUNCH_FAILED",
                                        "REVOKED",   "RECONFIG_FAIL", NULL};
    static const struct {
        const char *const *words;
        enum slurm_job_state state;
    } states[] = {{pending, SLURM_JOB_PENDING},
                  {suspended, SLURM_JOB_SUSPENDED},
                  {completing, SLURM_JOB_COMPLETING},
                  {ended, SLURM_JOB_ENDED}};
    for (size_t i = 0; i < ARRAY_SIZE(states); i++)
        for (const char *const *one = states[i].words; *one; one++)
            if (strcmp(word, *one) == 0)
                return states[i].state;
    return SLURM_JOB_RUNNING;
}

/* Whether a pending job waits for somebody to release it. */
static bool job_is_held(const char *word, const char *reason)
{
    return strcmp(word, "REQUEUE_HOLD") == 0 || strcmp(word, "SPECIAL_EXIT") == 0 ||
           strcmp(word, "RESV_DEL_HOLD") == 0 || strncmp(reason, "JobHeld", 7) == 0 ||
           strcmp(reason, "JobHoldMaxRequeue") == 0 || text_ends_in(reason, "requeued held") ||
           text_ends_in(reason, "requeued in held state") || text_ends_in(reason, "requeued in special exit state");
}

/* ---- reading ---- */

/* Output that is being read; after it is a NUL. */
struct queue_text {
    char *rest, *end;
    const char *separator;
};

/* The text up to the next separator, cut there; NULL: there is none. */
static char *queue_next_field(struct queue_text *text)
{
    size_t size = strlen(text->separator);
    char *field = text->rest;
    for (char *place = field; (place = memchr(place, *text->separator, (size_t)(text->end - place))); place++)
        if ((size_t)(text->end - place) >= size && memcmp(place, text->separator, size) == 0) {
            *place = '\0';
            text->rest = place + size;
            return field;
        }
    return NULL;
}

static bool queue_number(const char *text, uint64_t most, uint64_t *number)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *number = value;
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && value <= most;
}

/* The job of these fields; false: they are not those of a job. */
static bool queue_job(char *const fields[FIELDS], struct slurm_job *job)
{
    uint64_t nodes, cpus;
    if (!queue_number(fields[FIELD_ID], UINT64_MAX, &job->id) ||
        !queue_number(fields[FIELD_NODE_COUNT], UINT32_MAX, &nodes) ||
        !queue_number(fields[FIELD_CPUS], UINT32_MAX, &cpus))
        return false;
    job->name = fields[FIELD_NAME];
    job->comment = slurm_value(fields[FIELD_COMMENT]);
    job->user = fields[FIELD_USER];
    job->partition = slurm_value(fields[FIELD_PARTITION]);
    job->state_word = fields[FIELD_STATE];
    job->reason = slurm_value(fields[FIELD_REASON]);
    job->state = job_state_read(job->state_word);
    job->held = job->state == SLURM_JOB_PENDING && job_is_held(job->state_word, job->reason);
    job->nodes =
        job->state == SLURM_JOB_PENDING || job->state == SLURM_JOB_ENDED ? "" : slurm_value(fields[FIELD_NODES]);
    job->node_count = (uint32_t)nodes;
    job->cpus = (uint32_t)cpus;
    job->gpus_per_node = slurm_gpu_count(fields[FIELD_GRES]);
    return true;
}

static weft_status queue_read(const struct slurm_commands *commands, struct queue_text text, slurm_job_visit *visit,
                              void *context, struct error *error)
{
    char *fields[FIELDS] = {0}, where[300];
    slurm_where(commands, where, sizeof where);
    while (queue_next_field(&text)) { /* what is before a job: the line end of the previous one */
        struct slurm_job job = {0};
        for (int i = 0; i < FIELDS; i++)
            if (!(fields[i] = queue_next_field(&text)))
                return error_set(error, WEFT_ERROR_DATA, "the output of squeue%s ends within a job", where);
        if (!queue_job(fields, &job))
            return error_set(error, WEFT_ERROR_DATA,
                             "squeue%s prints a job '%.40s' with '%.20s' nodes and '%.20s' CPUs", where,
                             text_printable(fields[FIELD_ID]), text_printable(fields[FIELD_NODE_COUNT]),
                             text_printable(fields[FIELD_CPUS]));
        if (!visit(context, &job))
            break;
    }
    return WEFT_OK;
}

weft_status slurm_jobs(struct slurm_commands *commands, slurm_job_visit *visit, void *context, struct error *error)
{
    static const char *const words[] = {"squeue", "--noheader", "--all", "--local", "--states=all", NULL};
    char separator[SEPARATOR_BYTES], format[FORMAT_BYTES] = "SQUEUE_FORMAT=";
    struct slurm_output output = {0};
    weft_status status = make_separator(separator, error);
    if (status != WEFT_OK)
        return status;
    size_t size = strlen(format);
    for (int i = 0; i < FIELDS; i++)
        size += (size_t)snprintf(format + size, sizeof format - size, "%s%%%c", separator, field_letters[i]);
    snprintf(format + size, sizeof format - size, "%s", separator);
    status = slurm_program_read(commands, words, (const char *const[]){format, NULL}, &output, error);
    char *text = status == WEFT_OK ? buffer_string(&output.text) : NULL;
    if (status == WEFT_OK && !text)
        status = error_memory(error, 1, "the output of squeue");
    if (status == WEFT_OK)
        status = queue_read(commands, (struct queue_text){text, text + buffer_size(&output.text), separator}, visit,
                            context, error);
    slurm_output_free(&output);
    return status;
}
