/* SPDX-License-Identifier: Apache-2.0 */
/* `weft serve`: the control plane, until a signal ends it. */
#include "base/file/file.h"
#include "base/text.h"
#include "cli/frame/command.h"
#include "cli/frame/table.h"
#include "cli/platform/client/cluster_view.h"
#include "core/topology/limits.h"
#include "observe/telemetry/gpu_metrics.h"
#include "platform/agent/cgroup/cgroup.h"
#include "platform/agent/limits.h"
#include "platform/engine/local/local.h"
#include "platform/engine/slurm/slurm.h"
#include "platform/service/service.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOCAL_POD   "local"
#define SLURM_POD   "slurm"     /* of all nodes, where Slurm knows no switches */
#define SLURM_FILES 2048        /* descriptors: a connection and a journal for each node that runs */
#define SLOTS_MOST  64          /* of a host */
#define HEAPS       2           /* of malloc() */
#define LARGE_BYTES (128 << 10) /* from here on, malloc() maps each block separately */

static struct {
    const char *policy, *state, *listen, *web_ports, *certificate, *key, *pods;
    const char *engine, *login, *partition, *address, *weft, *scratch, *shared, *hold;
    int64_t slots, unclean_exits, port;
    bool tokens;
} chosen;

static const struct cli_option options[] = {
    CLI_GROUP("State and address"),
    CLI_TEXT("state", 's', "DIR", &chosen.state, NULL, "directory of the server's state",
             .default_text = "$XDG_STATE_HOME/weft/platform or ~/.local/state/weft/platform"),
    CLI_TEXT("listen", 'l', "HOST:PORT", &chosen.listen, "127.0.0.1:8400",
             "address to listen on; other than loopback only with --tokens and a certificate; port 0 picks a free one"),
    CLI_TEXT("web-ports", 0, "FIRST[-LAST]", &chosen.web_ports, NULL,
             "ports of the same host, such as 8401-8408, at which web servers in runs (TensorBoard, Jupyter) can be "
             "opened from the runs' pages; a user can have as many open at once",
             .default_text = "none: with weft forward only"),
    CLI_GROUP("Access"),
    CLI_TEXT("certificate", 0, "FILE", &chosen.certificate, NULL, "use TLS with this certificate (PEM)"),
    CLI_TEXT("key", 0, "FILE", &chosen.key, NULL, "private key of the certificate (PEM)"),
    CLI_FLAG("tokens", 't', &chosen.tokens, "require a token; the first start prints an administrator's token"),
    CLI_GROUP("Machine"),
    CLI_INTEGER("slots", 0, "N", &chosen.slots, "0", 0, 64, "number of slots of this machine",
                .default_text = "one per GPU, or one per processor where there are no GPUs"),
    CLI_GROUP("Slurm"),
    CLI_TEXT("engine", 'e', "ENGINE", &chosen.engine, "local",
             "what runs things: local (this machine), or slurm (the nodes of a Slurm cluster)"),
    CLI_TEXT("login", 0, "USER@HOST", &chosen.login, NULL, "run Slurm's commands there, over ssh without a password",
             .default_text = "they run on this machine"),
    CLI_TEXT("partition", 0, "NAME", &chosen.partition, NULL, "partition whose nodes are used",
             .default_text = "Slurm's default partition"),
    CLI_TEXT("address", 0, "HOST", &chosen.address, NULL, "name or address by which nodes reach this server",
             .default_text = "this machine's name"),
    CLI_INTEGER("node-port", 0, "PORT", &chosen.port, "0", 0, 65535, "port that nodes connect to",
                .default_text = "that of the last time, or a free one"),
    CLI_TEXT("node-weft", 0, "PATH", &chosen.weft, NULL, "the command weft on the nodes",
             .default_text = "the path of this one"),
    CLI_TEXT(
        "shared", 0, "DIR", &chosen.shared, NULL,
        "directory that this machine and all nodes have under the same path, for the directories of runs; may be that "
        "of the state",
        .default_text = "none: files are sent to the nodes, and checkpoints stay on their disks"),
    CLI_TEXT("node-directory", 0, "DIR", &chosen.scratch, "/tmp/weft",
             "directory on each node's own disk, for the files of what runs there"),
    CLI_TEXT("hold-pods", 0, "TIME", &chosen.hold, NULL,
             "hold the free nodes of each Pod by one job of this length, such as 7d, and start runs in it without "
             "waiting for Slurm",
             .default_text = "each run has jobs of its own"),
    CLI_GROUP("Faults"),
    CLI_INTEGER("unclean-exits", 0, "N", &chosen.unclean_exits, "2", 0, 16,
                "start with scheduling paused after N unclean exits (crash, kill -9) within 60 s; 0: never",
                .advanced = true),
    CLI_TEXT("policy", 0, "FILE", &chosen.policy, NULL,
             "policy as YAML: shares, limits of classes of runs, retention; see docs/platform.md"),
    CLI_TEXT("pods", 'p', "PxHxS", &chosen.pods, NULL,
             "simulate this many Pods, hosts per Pod and slots per host, to try things out; runs that ask for GPUs get "
             "slots"),
};

/* ---- what there is to run on ---- */

/* The hosts of the engine, with their names. */
struct hosts {
    struct engine_local_host *list;
    char (*names)[32], (*pods)[32];
    uint32_t count;
};

static uint32_t count_gpus(void)
{
    struct gpu_metrics *metrics;
    uint32_t count = 0;
    if (gpu_metrics_open(NULL, &metrics, NULL) != WEFT_OK)
        return 0;
    gpu_metrics_gpus(metrics, &count);
    gpu_metrics_close(metrics);
    return count;
}

static weft_status serve_choose_hosts(struct hosts *hosts, struct error *error)
{
    struct pod_shape shape = {1, 1, (uint32_t)chosen.slots};
    uint32_t gpus = chosen.pods ? 0 : count_gpus();
    weft_status status = chosen.pods ? pod_shape_parse(chosen.pods, &shape, error) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    if (!shape.slots) {
        struct limits limits;
        status = limits_read(&limits, error);
        if (status != WEFT_OK)
            return status;
        shape.slots = gpus ? gpus : limits_processors(&limits);
    }
    if (shape.slots > SLOTS_MOST)
        shape.slots = SLOTS_MOST;
    hosts->count = shape.pods * shape.hosts;
    hosts->list = calloc(hosts->count, sizeof *hosts->list);
    hosts->names = calloc(hosts->count, sizeof *hosts->names);
    hosts->pods = calloc(hosts->count, sizeof *hosts->pods);
    if (!hosts->list || !hosts->names || !hosts->pods)
        return error_memory(error, hosts->count * sizeof *hosts->list, "the hosts");
    for (uint32_t i = 0; i < hosts->count; i++) {
        snprintf(hosts->names[i], sizeof hosts->names[i], chosen.pods ? "host-%u" : "local", i + 1);
        if (chosen.pods)
            snprintf(hosts->pods[i], sizeof hosts->pods[i], "pod-%u", i / shape.hosts + 1);
        hosts->list[i] = (struct engine_local_host){hosts->names[i], shape.slots, gpus > 0, hosts->pods[i]};
    }
    return WEFT_OK;
}

/* ---- the policy ---- */

/* With several users, a tenth of the machines is for everybody's small runs, unless a file says otherwise. */
static weft_status choose_policy(struct service_policy *policy, struct error *error)
{
    if (chosen.policy)
        return policy_read(chosen.policy, policy, error);
    policy_default(policy);
    if (chosen.tokens) {
        policy->personal_share = 0.1;
        policy->personal_slots = 2;
        policy->personal_runs = 2;
    }
    return WEFT_OK;
}

/* ---- where it listens ---- */

/* "127.0.0.1:8400", "[::1]:8400". */
static weft_status divide_address(char *host, size_t room, uint16_t *port, struct error *error)
{
    const char *colon = strrchr(chosen.listen, ':');
    const char *begin = chosen.listen, *end = colon;
    int64_t number;
    if (!colon || colon == begin)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--listen is '%s'; it must be HOST:PORT, such as 127.0.0.1:8400",
                         chosen.listen);
    weft_status status = text_parse_integer(colon + 1, "the port of --listen", 0, 65535, &number, error);
    if (status != WEFT_OK)
        return status;
    if (*begin == '[' && end[-1] == ']') {
        begin++;
        end--;
    }
    if ((size_t)(end - begin) >= room)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--listen is '%s': the name of the host is too long",
                         chosen.listen);
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    *port = (uint16_t)number;
    return WEFT_OK;
}

/* "8401-8408", or one port. */
static weft_status choose_web_ports(struct service_config *config, struct error *error)
{
    const char *dash = chosen.web_ports ? strchr(chosen.web_ports, '-') : NULL;
    char text[16] = "";
    int64_t first = 0, last = 0;
    if (!chosen.web_ports)
        return WEFT_OK;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(chosen.web_ports, "-"), chosen.web_ports);
    weft_status status = text_parse_integer(text, "the first port of --web-ports", 1, 65535, &first, error);
    last = first;
    if (status == WEFT_OK && dash)
        status = text_parse_integer(dash + 1, "the last port of --web-ports", 1, 65535, &last, error);
    if (status == WEFT_OK && (last < first || last - first >= WEB_PORTS_MOST))
        status = error_set(error, WEFT_ERROR_ARGUMENT,
                           "--web-ports is '%s'; it must be 1 to %d ports in a row, such as 8401-8408",
                           chosen.web_ports, WEB_PORTS_MOST);
    config->web_port = (uint16_t)first;
    config->web_port_count = status == WEFT_OK ? (unsigned)(last - first + 1) : 0;
    return status;
}

/* Raise the limit of open files: connections and journals need them. Returns the limit before, which programs get,
 * because some close every possible descriptor or use select(). */
static rlim_t allow_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return before;
}

/* Keep malloc() from growing: few heaps despite many threads, and large blocks in mappings of their own, which are
 * returned to the system whole. */
static void keep_memory_small(void)
{
    mallopt(M_ARENA_MAX, HEAPS);
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
}

/* ---- serving ---- */

/* What opens the engine needs. */
struct serving {
    char program[FILE_PATH_BYTES], files[24];
    struct hosts hosts; /* of the local engine */
    bool slurm;
    const char *shared;
};

static weft_status open_local(void *context, const char *directory, const char *platform, bool adopts,
                              struct engine **engine, struct error *error)
{
    struct serving *serving = context;
    char *agent[] = {serving->program, "node-agent", serving->files, NULL},
         *reach[] = {serving->program, "node-reach", NULL}, *run[] = {serving->program, "run", NULL};
    const struct engine_local_config config = {.directory = directory,
                                               .platform = platform,
                                               .adopts = adopts,
                                               .hosts = serving->hosts.list,
                                               .host_count = serving->hosts.count,
                                               .agent = agent,
                                               .reach = reach,
                                               .run = run};
    return engine_local_open(&config, engine, error);
}

static weft_status open_slurm(void *context, const char *directory, const char *platform, bool adopts,
                              struct engine **engine, struct error *error)
{
    struct serving *serving = context;
    int64_t hold = 0;
    if (chosen.hold && text_parse_duration(chosen.hold, "--hold-pods", &hold, error) != WEFT_OK)
        return WEFT_ERROR_ARGUMENT;
    const struct engine_slurm_config config = {.directory = directory,
                                               .platform = platform,
                                               .login = chosen.login,
                                               .partition = chosen.partition,
                                               .address = chosen.address,
                                               .port = (uint16_t)chosen.port,
                                               .weft = chosen.weft ? chosen.weft : serving->program,
                                               .shared = serving->shared,
                                               .scratch = chosen.scratch,
                                               .hold = (uint64_t)hold};
    (void)adopts;
    return engine_slurm_open(&config, engine, error);
}

static void greet_machine(const struct hosts *hosts, FILE *output)
{
    const struct engine_local_host *host = &hosts->list[0];
    if (hosts->count == 1)
        fprintf(output, "  slots  %u %s%s\n", host->slots, host->gpus ? "GPU" : "processor",
                host->slots == 1 ? "" : "s");
    else
        fprintf(output, "  slots  %u: %u hosts of %u each, all of them this machine\n", hosts->count * host->slots,
                hosts->count, host->slots);
}

static void greet(const struct service *service, const char *directory, const struct serving *serving, FILE *output)
{
    char address[320], limits[NODE_LIMITS_TEXT_BYTES];
    fprintf(output, "weft serves at %s\n", service_address(service, address, sizeof address));
    fprintf(output, "  state  %s\n", directory);
    if (serving->slurm)
        fprintf(output, "  slots  those of Slurm's %s%s\n", chosen.partition ? "partition " : "default partition",
                chosen.partition ? chosen.partition : "");
    else
        greet_machine(&serving->hosts, output);
    if (*service_first_token(service))
        fprintf(output,
                "  token  %s\n"
                "         an administrator's, shown this once: give it to 'weft token save', which keeps it\n",
                service_first_token(service));
    if (chosen.web_ports)
        fprintf(output, "  ports  web servers in runs are opened at %s\n", chosen.web_ports);
    if (!serving->slurm) {
        fprintf(output, "  limits ");
        wrap_print(output, node_limits_describe(limits), 9, 9);
    }
    fflush(output);
    if (service_paused(service))
        fprintf(stderr, "weft: %s\n", service_paused(service));
}

static weft_status serve_serve(const struct service_config *config, const struct serving *serving, FILE *output,
                               struct error *error)
{
    struct service *service;
    sigset_t ends;
    int number;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, NULL); /* before there are threads, so that none of them gets one */
    signal(SIGPIPE, SIG_IGN);
    weft_status status = service_open(config, &service, error);
    if (status != WEFT_OK)
        return status;
    greet(service, config->directory, serving, output);
    status = service_start(service, error);
    if (status == WEFT_OK)
        sigwait(&ends, &number);
    service_close(service);
    return status;
}

/* Options that belong to the other engine. Errors: ARGUMENT. */
static weft_status check_engine(struct command_call *call, bool *slurm, struct error *error)
{
    const struct {
        const char *name;
        bool given, of_slurm;
    } options_of_one[] = {{"--pods", chosen.pods != NULL, false},      {"--slots", chosen.slots != 0, false},
                          {"--login", chosen.login != NULL, true},     {"--partition", chosen.partition != NULL, true},
                          {"--address", chosen.address != NULL, true}, {"--node-port", chosen.port != 0, true},
                          {"--node-weft", chosen.weft != NULL, true},  {"--shared", chosen.shared != NULL, true},
                          {"--hold-pods", chosen.hold != NULL, true}};
    *slurm = strcmp(chosen.engine, "slurm") == 0;
    call->exit_code = 2;
    if (!*slurm && strcmp(chosen.engine, "local") != 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--engine is '%.80s'; there are local and slurm", chosen.engine);
    for (size_t i = 0; i < ARRAY_SIZE(options_of_one); i++)
        if (options_of_one[i].given && options_of_one[i].of_slurm != *slurm)
            return error_set(error, WEFT_ERROR_ARGUMENT, "%s is for --engine %s, and this one is %s",
                             options_of_one[i].name, *slurm ? "local" : "slurm", chosen.engine);
    if (chosen.pods && chosen.slots)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%s: --pods says how many slots a host has; give it without --slots", call->name);
    call->exit_code = 0;
    return WEFT_OK;
}

static weft_status serve_run(struct command_call *call, struct error *error)
{
    char directory[FILE_PATH_BYTES], host[256];
    struct serving serving = {0};
    struct service_policy policy;
    struct service_config config = {.policy = &policy,
                                    .host = host,
                                    .certificate = chosen.certificate,
                                    .key = chosen.key,
                                    .tokens = chosen.tokens,
                                    .pod = LOCAL_POD,
                                    .pretended = chosen.pods != NULL,
                                    .unclean_exits = chosen.unclean_exits,
                                    .open_engine = open_local,
                                    .context = &serving};
    weft_status status = check_engine(call, &serving.slurm, error);
    if (status != WEFT_OK)
        return status;
    ssize_t length = readlink("/proc/self/exe", serving.program, sizeof serving.program - 1);
    if (length < 0)
        return error_system(error, "cannot find this program's file by /proc/self/exe");
    serving.program[length] = '\0';
    status = divide_address(host, sizeof host, &config.port, error);
    if (status == WEFT_OK)
        status = choose_web_ports(&config, error);
    if (status == WEFT_OK && !chosen.state)
        status = file_state_directory(directory, "platform", error);
    if (status == WEFT_OK)
        status = choose_policy(&policy, error);
    if (serving.slurm) {
        config.open_engine = open_slurm;
        config.pod = SLURM_POD;
        config.engine_files = SLURM_FILES;
        config.shared = serving.shared = chosen.shared;
    } else if (status == WEFT_OK) {
        status = serve_choose_hosts(&serving.hosts, error);
        for (uint32_t i = 0; i < serving.hosts.count; i++)
            config.engine_files += ENGINE_LOCAL_FILES * serving.hosts.list[i].slots;
    }
    config.directory = chosen.state ? chosen.state : directory;
    snprintf(serving.files, sizeof serving.files, "%llu", (unsigned long long)allow_files());
    keep_memory_small();
    if (!serving.slurm)
        cgroup_prepare("");
    if (status == WEFT_OK)
        status = serve_serve(&config, &serving, call->output, error);
    free(serving.hosts.list);
    free(serving.hosts.names);
    free(serving.hosts.pods);
    return status;
}

const struct command command_serve = {
    .name = "serve",
    .group = COMMAND_PLATFORM,
    .summary = "start the server of the platform: queue, scheduler, records and web pages",
    .description =
        "Serves projects, runs and nodes: an HTTP interface under /api/v1 that the commands use (weft submit, ps, "
        "logs ...), and web pages at the same address. All of its state is in one directory, which needs no setup; "
        "a second server on the same directory is refused.\n\n"
        "Runs do not depend on the server: they continue if it ends or crashes, and it finds them again when it is "
        "restarted on the same directory.\n\n"
        "Without --tokens, it listens on this machine only and serves only you: your processes act as its "
        "administrator, and other users are refused.\n\n"
        "If root starts it, it runs each user's programs under the account that 'weft user account' gave them, and "
        "root's as root; otherwise all programs are processes of the user that runs the server.\n\n"
        "Runs are limited to the processors, memory and number of processes that they asked for, or that come with "
        "their slots. This needs control groups that the server can write to: as root, or as a systemd service "
        "with Delegate=yes. At start-up it prints whether it can.\n\n"
        "With --engine slurm, runs are jobs of a Slurm cluster, which Weft starts when their turn has come. If nodes share "
        "storage with this machine, name a directory there by --shared: directories of runs are in it, and an attempt "
        "finds the checkpoints of the attempt before on any node. Without --shared, the code of a run is sent to each of its nodes "
        "once; what the run writes, its checkpoints too, stays on their own disks in --node-directory until somebody removes it. "
        "Choose before the first run: directories of runs are not moved. Backups have no files of runs outside the state.\n\n"
        "With --hold-pods, Slurm gives whole Pods to this server and is not asked again until that time is over; then "
        "runs are asked for a checkpoint and continue in the next job. Nodes that become free meanwhile are taken when "
        "nothing runs in their Pod. Started without --hold-pods, the server gives the Pods back.\n\n"
        "With --web-ports, the page of a run opens what listens on a port of its nodes in the browser, for those who may enter "
        "the run. What runs serve is not trusted: each open port is at a web port of its own, which is another origin than the "
        "platform's pages.",
    .examples = "weft serve\nweft serve --slots 4 --state /srv/weft\nweft serve --pods 1x4x8 --listen 127.0.0.1:0\n"
                "weft serve --web-ports 8401-8408\n"
                "weft serve --engine slurm --partition gpu --address login1 --shared /shared/weft\n",
    COMMAND_OPTIONS(options),
    .run = serve_run,
};
