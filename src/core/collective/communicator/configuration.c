/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/communicator/configuration.h"

#include "base/text.h"
#include "core/collective/internal/trace.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define BOOTSTRAP_LIMIT_DEFAULT 60.0
#define TIME_LIMIT_DEFAULT      600.0
#define LATE_DEFAULT            10.0
#define LIVENESS_DEFAULT        1.5
#define LIMIT_LEAST             0.001
#define LIMIT_MOST              1e9

/* Sorted by name; tests/policy/environment compares it with what the sources read. */
static const struct configuration_variable variables[] = {
    {"PATH", "folders", "the system's",
     "where programs are looked for; those of a run of weft serve find the directory of its weft at the end"},
    {"TERM", "a terminal's name", "dumb", "weft train writes over its live line on terminals other than dumb"},
    {"WEFT_AGENT", "a program, called as ssh is", "ssh", "remote shell by which weft run reaches other hosts"},
    {"WEFT_CHECK_MESSAGES", "0 or 1", "0",
     "1 on any rank: messages between hosts carry a CRC-32C, and a damaged one is an error that names both ranks"},
    {"WEFT_CHECKPOINT_DIR", "a directory", "none",
     "where weft train writes checkpoints, and resumes from the last one, without --checkpoint-dir"},
    {"WEFT_COLUMNS", "from 0", "set by weft run", "columns for a line of progress on the launcher's terminal; 0: none"},
    {"WEFT_FABRIC", "a libfabric provider, or none", "the best that is usable here",
     "carry messages between nodes by this provider"},
    {"WEFT_GRACE", "seconds, from 0.001", "30",
     "time for a training to write a checkpoint and end after SIGTERM or SIGUSR1"},
    {"WEFT_HANG_LIMIT", "seconds, from 0.001", "none",
     "a rank that calls weft_progress() hangs after this long without a call, and ends; also of weft train"},
    {"WEFT_HEAP", "bytes: 512M, 8G", "from the machine's limits", "limit of the memory that weft_alloc() hands out"},
    {"WEFT_HOST", "any text", "the system's host name", "name of this rank's host in messages"},
    {"WEFT_HOST_TOKEN", "64 hexadecimal digits", "set by the platform",
     "what a job of weft serve --engine slurm proves to the server that it is the attempt's; runs do not get it"},
    {"WEFT_INTERFACE", "interfaces or addresses", "those that reach the other ranks",
     "bind to this network interface, or to these, side by side, with commas between"},
    {"WEFT_JOB_DIR", "a directory", "set by weft run --job-dir", "weft train appends its events to events.jsonl there"},
    {"WEFT_LATE_SECONDS", "seconds, from 0.001", "10",
     "name a rank on stderr when another has waited this long for it in an operation"},
    {"WEFT_LIVENESS_LIMIT", "seconds, from 0.001", "1.5",
     "declare a rank dead after this long without a sign of life; raise it to stop a rank in a debugger"},
    {"WEFT_LOCAL_RANK", "from 0", "set by weft run", "this rank's number among those of its host"},
    {"WEFT_LOCAL_RANKS", "from 1", "set by weft run", "how many ranks this host has"},
    {"WEFT_RENDEZVOUS", "host:port, several with commas between", "set by weft run", "where the ranks meet"},
    {"WEFT_RENDEZVOUS_HOST", "a host or address", "the step's first node, or MASTER_ADDR",
     "where the ranks meet under srun or torchrun: at this host"},
    {"WEFT_RENDEZVOUS_LIMIT", "seconds, from 0.001", "60", "longest wait for all ranks to arrive"},
    {"WEFT_RENDEZVOUS_PORT", "1 to 65535", "from job and step, or MASTER_PORT",
     "where the ranks meet under srun or torchrun: at this port"},
    {"WEFT_RENDEZVOUS_SERVED", "any text", "set by weft run", "the launcher serves the rendezvous, rank 0 need not"},
    {"WEFT_METRICS", "a file, a pipe or a directory", "none",
     "where weft_report() and weft train write metrics; in a directory, each rank writes a file of its own"},
    {"WEFT_MIN_RANKS", "from 0", "set by weft run --min-ranks",
     "a training continues after ranks are lost, as long as so many are left; 0: it ends"},
    {"WEFT_RESTARTS", "from 0", "set by weft run --restarts and --job-dir",
     "how many ranks weft run may start in place of lost ones; if it is set, the others tell it where newcomers find them"},
    {"WEFT_NODE", "any text", "none", "share no memory with ranks of this machine that have another value"},
    {"WEFT_NODE_HOSTS", "HOST:SLOTS, several with commas between", "set by the platform",
     "the hosts of a run's nodes, for weft run --hosts on one of them"},
    {"WEFT_PROJECT", "a project's name", "the server's", "the project of weft submit"},
    {"WEFT_RANK", "from 0", "set by weft run", "this rank's number"},
    {"WEFT_RANKS", "from 1", "set by weft run", "how many ranks the job has"},
    {"WEFT_RUN", "a run's id", "set by weft run", "the name under which weft ps and weft inspect show the job"},
    {"WEFT_SECRET", "any text", "drawn by weft run; otherwise see the threat model",
     "shared secret by which the ranks of a job recognize each other"},
    {"WEFT_SERVER", "http://HOST:PORT or https://HOST:PORT", "http://127.0.0.1:8400",
     "the Weft server that the platform's commands use"},
    {"WEFT_SERVER_CERTIFICATE", "a PEM file", "the system's certificates",
     "certificates that may sign that server's own, where it is not a public one"},
    {"WEFT_SERVER_USER", "a user or a number; *: any", "root and you",
     "a user besides root and you whose server on this machine is trusted without TLS"},
    {"WEFT_SSHD", "an absolute path", "/usr/sbin/sshd", "the sshd that weft ssh-config runs in nodes"},
    {"WEFT_TIME_LIMIT", "seconds, from 0.001", "600", "longest wait of an operation for a rank that is alive"},
    {"WEFT_TOKEN_FILE", "a file of mode 0600", "weft/token in XDG_CONFIG_HOME",
     "holds your token for that server, readable by you alone"},
    {"WEFT_TOPOLOGY", "a cluster file", "measured links", "take the links between ranks from this file"},
    {"WEFT_TRACE", "a file", "none", "write a timeline of all ranks to this file, for Perfetto and weft trace show"},
    {"WEFT_TRACE_EVENTS", "64 to 67108864", "65536", "events of the timeline that a rank keeps, 64 bytes each"},
    {"WEFT_VERBOSE", "any text", "none",
     "report on stderr how long each phase of the start took, and which network was chosen"},
    {"ONEDNN_MAX_CPU_ISA", "SSE41, AVX2, AVX512_CORE, AVX512_CORE_BF16, AVX512_CORE_AMX or another name of oneDNN",
     "the highest that the processor has",
     "highest instruction set that weft train and weft eval may use on this rank, as oneDNN calls it; so does "
     "DNNL_MAX_CPU_ISA"},
    {"XDG_CACHE_HOME", "a directory", "HOME and .cache",
     "where measured links and sweeps are kept, in weft, and code that weft submit has sent, for a week"},
    {"XDG_CONFIG_HOME", "a directory", "HOME and .config",
     "where your token for a Weft server and your keys for weft ssh-config are, in weft"},
    {"XDG_STATE_HOME", "a directory", "HOME and .local/state",
     "where weft run keeps its records, in weft/runs, and weft serve its state, in weft/platform"},
};

const struct configuration_variable *configuration_variables(size_t *count)
{
    *count = ARRAY_SIZE(variables);
    return variables;
}

static const char *configuration_read_variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

const char *configuration_run(void)
{
    return configuration_read_variable("WEFT_RUN");
}

bool configuration_verbose(void)
{
    return configuration_read_variable("WEFT_VERBOSE") != NULL;
}

bool configuration_checks_messages(void)
{
    const char *text = configuration_read_variable("WEFT_CHECK_MESSAGES");
    return text && strcmp(text, "0") != 0;
}

weft_status configuration_trace(const char **path, uint64_t *events, struct error *error)
{
    const char *text = configuration_read_variable("WEFT_TRACE_EVENTS");
    int64_t count = TRACE_EVENTS;
    weft_status status = WEFT_OK;
    if (text)
        status = text_parse_integer(text, "WEFT_TRACE_EVENTS", TRACE_EVENTS_LEAST, TRACE_EVENTS_MOST, &count, error);
    if (status != WEFT_OK)
        return status;
    *path = configuration_read_variable("WEFT_TRACE");
    *events = (uint64_t)count;
    return WEFT_OK;
}

static weft_status check_limit(const char *what, double seconds, struct error *error)
{
    if (seconds >= LIMIT_LEAST && seconds <= LIMIT_MOST)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "weft_config.%s is %g seconds; it must be from %g to %g, or 0 for the default", what, seconds,
                     LIMIT_LEAST, LIMIT_MOST);
}

/* A field that is 0 is completed from its variable, or by the default. */
static weft_status complete_limit(const char *field, const char *name, double standard, double *seconds,
                                  struct error *error)
{
    const char *text = configuration_read_variable(name);
    if (*seconds == 0 && !text) {
        *seconds = standard;
        return WEFT_OK;
    }
    if (*seconds == 0)
        return text_parse_number(text, name, LIMIT_LEAST, LIMIT_MOST, seconds, error);
    return check_limit(field, *seconds, error);
}

/* Fields are only ever added: a caller of an older header has a shorter struct. */
static weft_status copy_given(const weft_config *given, weft_config *complete, struct error *error)
{
    if (!given)
        return WEFT_OK;
    if (given->size < offsetof(weft_config, process) || given->size > 4096)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "weft_config.size is %zu: set it to sizeof(weft_config), as WEFT_CONFIG_DEFAULT does",
                         given->size);
    memcpy(complete, given, given->size < sizeof *complete ? given->size : sizeof *complete);
    return WEFT_OK;
}

weft_status configuration_complete(const weft_config *given, weft_config *complete, struct error *error)
{
    weft_config made = WEFT_CONFIG_DEFAULT;
    weft_status status = copy_given(given, &made, error);
    const char *text;
    if (status != WEFT_OK)
        return status;
    if (!made.fabric)
        made.fabric = configuration_read_variable("WEFT_FABRIC");
    if (!made.interface)
        made.interface = configuration_read_variable("WEFT_INTERFACE");
    if (!made.node)
        made.node = configuration_read_variable("WEFT_NODE");
    if (!made.topology)
        made.topology = configuration_read_variable("WEFT_TOPOLOGY");
    if (!made.heap_bytes && (text = configuration_read_variable("WEFT_HEAP")))
        status = text_parse_bytes(text, "WEFT_HEAP", &made.heap_bytes, error);
    if (status == WEFT_OK)
        status = complete_limit("time_limit", "WEFT_TIME_LIMIT", TIME_LIMIT_DEFAULT, &made.time_limit, error);
    if (status == WEFT_OK)
        status = complete_limit("rendezvous_limit", "WEFT_RENDEZVOUS_LIMIT", BOOTSTRAP_LIMIT_DEFAULT,
                                &made.rendezvous_limit, error);
    if (status == WEFT_OK)
        status = complete_limit("late_seconds", "WEFT_LATE_SECONDS", LATE_DEFAULT, &made.late_seconds, error);
    if (status == WEFT_OK)
        status = complete_limit("liveness_limit", "WEFT_LIVENESS_LIMIT", LIVENESS_DEFAULT, &made.liveness_limit, error);
    if (status == WEFT_OK)
        status = complete_limit("hang_limit", "WEFT_HANG_LIMIT", 0, &made.hang_limit, error);
    if (status == WEFT_OK)
        *complete = made;
    return status;
}
