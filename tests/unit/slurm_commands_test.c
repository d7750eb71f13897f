/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's commands: what is asked of them, here and over ssh, and what is read from them. They are scripts that print
 * what Slurm 22.05 printed (golden/slurm), and record how they were called. */
#include "platform/engine/slurm/commands.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "temporary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Prints NAME.LASTWORD or NAME.out and NAME.err, and exits with NAME.code; a separator of squeue's is @SEP@ there. */
static const char program[] = "#!/bin/sh\n"
                              "here=${0%/*} name=${0##*/} last=\n"
                              "[ \"$1\" = --version ] && exec cat \"$here/version\"\n"
                              "for word; do printf '%s\\n' \"$word\"; last=$word; done >>\"$here/$name.words\"\n"
                              "env >\"$here/$name.env\"\n"
                              "cat >\"$here/$name.input\"\n"
                              "out=$here/$name.$last\n"
                              "[ -f \"$out\" ] || out=$here/$name.out\n"
                              "[ -f \"$out\" ] && LC_ALL=C sed \"s/@SEP@/${SQUEUE_FORMAT%%%*}/g\" \"$out\"\n"
                              "[ -f \"$here/$name.err\" ] && cat \"$here/$name.err\" >&2\n"
                              "[ -f \"$here/$name.sleep\" ] && sleep 60\n"
                              "[ ! -f \"$here/$name.code\" ] || exit $(cat \"$here/$name.code\")\n";

static const char ssh[] = "#!/bin/sh\n"
                          "here=${0%/*}\n"
                          "for word; do printf '%s\\n' \"$word\"; last=$word; done >\"$here/ssh.words\"\n"
                          "[ -f \"$here/ssh.err\" ] && cat \"$here/ssh.err\" >&2 && exit 255\n"
                          "exec sh -c \"$last\"\n";

static const char down[] = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n";

static const char *text_file(const char *directory, const char *name, const char *text)
{
    return temporary_file(directory, name, text, strlen(text));
}

static char *text_of(const char *directory, const char *name)
{
    static char text[65536];
    FILE *file = fopen(temporary_path(directory, name), "r");
    text[file ? fread(text, 1, sizeof text - 1, file) : 0] = '\0';
    if (file)
        fclose(file);
    return text;
}

static void golden_copy(const char *directory, const char *golden, const char *name)
{
    char text[16384];
    FILE *file = fopen(temporary_path(GOLDEN, golden), "r");
    assert_non_null(file);
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    temporary_file(directory, name, text, size);
}

/* A directory with the programs, which PATH begins with. */
static int begin(void **state)
{
    static const char *const names[] = {"sbatch", "squeue", "scancel", "scontrol", "ssh"};
    char path[1024];
    const char *directory = temporary_directory();
    *state = (void *)directory;
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", directory);
    setenv("PATH", path, 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (chmod(text_file(directory, names[i], i < 4 ? program : ssh), 0755) != 0)
            return -1;
    text_file(directory, "version", "slurm-wlm 22.05.8\n");
    golden_copy(directory, "partitions", "scontrol.partition");
    golden_copy(directory, "nodes", "scontrol.node");
    golden_copy(directory, "topology", "scontrol.topology");
    golden_copy(directory, "jobs", "squeue.out");
    text_file(directory, "sbatch.out", "4711\n");
    return 0;
}

#define with_programs(test) cmocka_unit_test_setup_teardown(test, begin, temporary_end)

static struct slurm_commands *open_config(const struct slurm_commands_config *config)
{
    struct slurm_commands *commands = NULL;
    struct error error = {0};
    if (slurm_commands_open(config, &commands, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return commands;
}

static struct slurm_commands *open_here(void)
{
    return open_config(&(struct slurm_commands_config){0});
}

static void expect_error(weft_status status, const struct error *error, weft_status expected, const char *part)
{
    assert_int_equal(status, expected);
    if (!strstr(error->text, part))
        fail_msg("'%s' does not have '%s'", error->text, part);
}

static void expect_no_open(const struct slurm_commands_config *config, weft_status expected, const char *part)
{
    struct slurm_commands *commands = NULL;
    struct error error = {0};
    expect_error(slurm_commands_open(config, &commands, &error), &error, expected, part);
    assert_null(commands);
}

/* ---- opening ---- */

static void opening_checks_commands_and_versions(void **state)
{
    const char *directory = *state;
    const struct slurm_commands_config here = {0};
    slurm_commands_close(open_here());
    text_file(directory, "version", "slurm 20.11.9\n");
    expect_no_open(&here, WEFT_ERROR_ARGUMENT, "sbatch is of Slurm 20.11; Slurm 21.08 or later is needed");
    text_file(directory, "version", "slurm 21.08.0\n");
    slurm_commands_close(open_here());
    text_file(directory, "version", "slurm 25.11.2-1\n");
    slurm_commands_close(open_here());
    text_file(directory, "version", "2.0\n");
    expect_no_open(&here, WEFT_ERROR_DATA, "prints '2.0?', not Slurm's version");
    text_file(directory, "version", "slurm 23.02.1\n");
    unlink(temporary_path(directory, "scancel"));
    assert_int_equal(symlink("/bin/cat", temporary_path(directory, "cat")), 0);
    setenv("PATH", directory, 1); /* Slurm may be installed in /usr/bin */
    expect_no_open(&here, WEFT_ERROR_ARGUMENT, "there is no command scancel in PATH");
    slurm_commands_close(NULL);
}

static void opening_checks_the_partition(void **state)
{
    const char *directory = *state;
    slurm_commands_close(open_config(&(struct slurm_commands_config){.partition = "hidden"}));
    expect_no_open(&(struct slurm_commands_config){.partition = "smal"}, WEFT_ERROR_ARGUMENT,
                   "Slurm has no partition 'smal'; it has: all, small, hidden");
    expect_no_open(&(struct slurm_commands_config){.partition = "a,b"}, WEFT_ERROR_ARGUMENT, "one partition");
    expect_no_open(&(struct slurm_commands_config){.login = "-oProxyCommand=x"}, WEFT_ERROR_ARGUMENT, "login node");
    text_file(directory, "scontrol.partition", "PartitionName=x Default=NO Nodes=n1\n");
    expect_no_open(&(struct slurm_commands_config){0}, WEFT_ERROR_ARGUMENT, "no default partition; name one of: x");
    text_file(directory, "scontrol.partition", "");
    text_file(directory, "scontrol.err", down);
    text_file(directory, "scontrol.code", "1");
    slurm_commands_close(open_config(&(struct slurm_commands_config){.partition = "unknown"}));
}

/* ---- submitting ---- */

static const struct slurm_submission usual = {
    .name = "weft-7.1",
    .comment = "weft-ab12:7:1:it's",
    .node_list = "n1,n2",
    .nodes = 2,
    .cpus_per_node = 4,
    .gpus_per_node = 2,
    .memory_per_node = (1ull << 30) + 1,
    .seconds = 61,
    .reservation = "r",
    .directory = "/srv/run 7",
    .output = "/srv/100%/out",
    .script = "#!/bin/sh\nsrun true\n",
};

static void submitting_passes_all_options(void **state)
{
    const char *directory = *state;
    uint64_t job = 0;
    struct slurm_commands *commands = open_config(&(struct slurm_commands_config){.partition = "small"});
    setenv("WEFT_SECRET", "x", 1);
    setenv("SBATCH_EXCLUSIVE", "1", 1);
    setenv("SBATCH_ACCOUNT", "physics", 1);
    setenv("SLURM_JOB_ID", "5", 1);
    setenv("SLURM_CONF", "/etc/slurm/own.conf", 1);
    assert_int_equal(slurm_submit(commands, &usual, &job, NULL), WEFT_OK);
    assert_int_equal(job, 4711);
    assert_string_equal(text_of(directory, "sbatch.input"), usual.script);
    assert_string_equal(text_of(directory, "sbatch.words"),
                        "--parsable\n--no-requeue\n--no-kill\n--wait-all-nodes=1\n--open-mode=append\n"
                        "--input=/dev/null\n--export=ALL\n--output=/srv/100%%/out\n--chdir=/srv/run 7\n"
                        "--job-name=weft-7.1\n--comment=weft-ab12:7:1:it's\n--nodes=2\n--ntasks-per-node=1\n"
                        "--partition=small\n--nodelist=n1,n2\n--cpus-per-task=4\n--gres=gpu:2\n--mem=1025M\n"
                        "--time=2\n--reservation=r\n");
    const char *environment = text_of(directory, "sbatch.env");
    assert_null(strstr(environment, "WEFT_SECRET"));
    assert_null(strstr(environment, "SBATCH_EXCLUSIVE"));
    assert_null(strstr(environment, "SLURM_JOB_ID"));
    assert_non_null(strstr(environment, "SBATCH_ACCOUNT=physics\n"));
    assert_non_null(strstr(environment, "SLURM_CONF=/etc/slurm/own.conf\n"));
    slurm_commands_close(commands);

    commands = open_here();
    unlink(temporary_path(directory, "sbatch.words"));
    text_file(directory, "sbatch.out", "Welcome!\n12;cluster\n");
    struct slurm_submission plain = {.name = "a",
                                     .comment = "b",
                                     .nodes = 1,
                                     .exclusive = true,
                                     .user = "root",
                                     .directory = "/",
                                     .output = "/dev/null",
                                     .script = "#!/bin/sh\n"};
    setenv("HOME", "/somebody", 1);
    assert_int_equal(slurm_submit(commands, &plain, &job, NULL), WEFT_OK);
    assert_int_equal(job, 12);
    assert_non_null(strstr(text_of(directory, "sbatch.words"),
                           "--nodes=1\n--ntasks-per-node=1\n--mem=0\n--exclusive\n--uid=0\n--gid=0\n"));
    assert_non_null(strstr(text_of(directory, "sbatch.env"), "USER=root\n"));
    assert_null(strstr(text_of(directory, "sbatch.env"), "/somebody"));
    slurm_commands_close(commands);
}

static void expect_no_job(const struct slurm_submission *submission, weft_status expected, const char *part)
{
    uint64_t job = 1;
    struct error error = {0};
    struct slurm_commands *commands = open_here();
    expect_error(slurm_submit(commands, submission, &job, &error), &error, expected, part);
    assert_int_equal(job, 1);
    slurm_commands_close(commands);
}

static void submitting_tells_refusals_from_outages(void **state)
{
    const char *directory = *state;
    text_file(directory, "sbatch.code", "1");
    text_file(directory, "sbatch.err",
              "sbatch: error: Memory specification can not be satisfied\n"
              "sbatch: error: Batch job submission failed: Requested node configuration is not available\n");
    expect_no_job(&usual, WEFT_ERROR_ARGUMENT,
                  "sbatch failed: Memory specification can not be satisfied; Batch job submission failed: "
                  "Requested node configuration is not available");
    text_file(directory, "sbatch.code", "255");
    text_file(directory, "sbatch.err", "sbatch: error: Invalid --uid specification\n");
    expect_no_job(&usual, WEFT_ERROR_ARGUMENT, "Invalid --uid specification");
    static const char *const outages[] = {
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n",
        ("sbatch: error: Munge encode failed: Failed to access \"/run/munge/munge.socket.2\"\n"
         "sbatch: error: Batch job submission failed: Protocol authentication error\n"),
        "sbatch: fatal: Could not establish a configuration source\n",
    };
    for (size_t i = 0; i < sizeof outages / sizeof *outages; i++) {
        text_file(directory, "sbatch.err", outages[i]);
        expect_no_job(&usual, WEFT_ERROR_SYSTEM, "sbatch failed: ");
    }
    text_file(directory, "sbatch.code", "0");
    text_file(directory, "sbatch.out", "ok\n");
    expect_no_job(&usual, WEFT_ERROR_DATA, "sbatch prints 'ok', not the number of a job");
}

static void submitting_checks_its_fields(void **state)
{
    (void)state;
    struct slurm_submission bad = usual;
    bad.comment = "two words";
    expect_no_job(&bad, WEFT_ERROR_ARGUMENT, "the comment of a job is 'two words'");
    bad = usual;
    bad.name = NULL;
    expect_no_job(&bad, WEFT_ERROR_ARGUMENT, "the name of a job");
    bad = usual;
    bad.nodes = 0;
    expect_no_job(&bad, WEFT_ERROR_ARGUMENT, "at least one node");
    bad.nodes = 3;
    expect_no_job(&bad, WEFT_ERROR_ARGUMENT, "a job of 3 nodes has 2 in its list, 'n1,n2'");
    bad.node_list = "n[1";
    expect_no_job(&bad, WEFT_ERROR_ARGUMENT, "'n[1' is not a list of hosts");
    bad = usual;
    bad.output = "out";
    expect_no_job(&bad, WEFT_ERROR_ARGUMENT, "the output file of a job is 'out', not an absolute path");
    bad = usual;
    bad.script = "true\n";
    expect_no_job(&bad, WEFT_ERROR_ARGUMENT, "does not begin with '#!'");
    bad = usual;
    bad.user = "no-such-user-here";
    expect_no_job(&bad, WEFT_ERROR_ARGUMENT, "there is no user 'no-such-user-here'");
}

static void slow_commands_are_killed(void **state)
{
    uint64_t job, begun = clock_now();
    struct error error = {0};
    text_file(*state, "sbatch.sleep", "");
    struct slurm_commands *commands = open_config(&(struct slurm_commands_config){.limit = 2000});
    expect_error(slurm_submit(commands, &usual, &job, &error), &error, WEFT_ERROR_SYSTEM,
                 "sbatch has not ended after 2 s and was killed");
    assert_true(clock_now() - begun < 20000000000u);
    slurm_commands_close(commands);
}

/* ---- canceling ---- */

static weft_status cancel(struct slurm_commands *commands, size_t count, struct error *error)
{
    uint64_t jobs[2500];
    for (size_t i = 0; i < count; i++)
        jobs[i] = 100000 + i;
    error_clear(error);
    return slurm_cancel(commands, jobs, count, error);
}

static void canceling_ignores_ended_jobs(void **state)
{
    const char *directory = *state;
    struct error error = {0};
    struct slurm_commands *commands = open_here();
    assert_int_equal(cancel(commands, 0, &error), WEFT_OK);
    assert_string_equal(text_of(directory, "scancel.words"), "");
    assert_int_equal(cancel(commands, 2500, &error), WEFT_OK);
    size_t lines = 0;
    for (const char *line = text_of(directory, "scancel.words"); (line = strchr(line, '\n')); line++)
        lines++;
    assert_int_equal(lines, 2500);
    text_file(directory, "scancel.code", "1");
    text_file(directory, "scancel.err",
              "scancel: error: Kill job error on job id 8: Invalid job id specified\n"
              "scancel: error: Kill job error on job id 9: Job/step already completing or completed\n");
    assert_int_equal(cancel(commands, 2, &error), WEFT_OK);
    text_file(directory, "scancel.code", "210");
    text_file(directory, "scancel.err",
              "scancel: error: Kill job error on job id 8: Invalid job id specified\n"
              "scancel: error: Kill job error on job id 2: Access/permission denied\n"
              "scancel: error: Kill job error on job id 9: Invalid job id specified");
    expect_error(cancel(commands, 3, &error), &error, WEFT_ERROR_ARGUMENT,
                 "scancel failed: Kill job error on job id 2: Access/permission denied");
    assert_null(strstr(error.text, "job id 8"));
    text_file(directory, "scancel.err",
              "scancel: error: Kill job error on job id 3: Unable to contact slurm controller (connect failure)\n");
    expect_error(cancel(commands, 1, &error), &error, WEFT_ERROR_SYSTEM, "Unable to contact");
    slurm_commands_close(commands);
}

/* ---- the queue ---- */

/* A line for each job, with the bytes of names and comments. */
static bool print_job(void *context, const struct slurm_job *job)
{
    static const char *const states[] = {"pending", "running", "suspended", "completing", "ended"};
    buffer_print(context, "%u|%s%s|%s|%u|%u|%u|%s|%s|%s|%.20s|%s|%s\n", (unsigned)job->id, states[job->state],
                 job->held ? ",held" : "", job->state_word, job->node_count, job->cpus, job->gpus_per_node,
                 job->partition, job->user, job->nodes, job->reason, job->name, job->comment);
    return true;
}

static bool count_job(void *context, const struct slurm_job *job)
{
    size_t *left = context;
    assert_int_equal(job->cpus, 1);
    return --*left > 0;
}

static void jobs_of_all_users_are_read(void **state)
{
    (void)state;
    struct buffer text = {0};
    struct error error = {0};
    struct slurm_commands *commands = open_here();
    setenv("SQUEUE_STATES", "RUNNING", 1);
    if (slurm_jobs(commands, print_job, &text, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_string_equal(
        buffer_string(&text),
        "1|ended|FAILED|1|1|0|all|root||NonZeroExitCode|failed|weft-lab:3:1\n"
        "6|pending|PENDING|1|1|0|all|root||Priority|array|\n"
        "4|pending|PENDING|4|4|0|all|root||Nodes required for j|big|\n"
        "5|pending,held|PENDING|1|1|0|all|root||JobHeldUser|held|\n"
        "2|running|RUNNING|2|8|2|all|root|n[1-2]||weft-7.1|weft-lab:7:1\n"
        "3|running|RUNNING|1|1|3|all|root|n1||odd name | % $(x)|tab\there\nnewline\x1f\xff\xfe|\"quote' "
        "@weft-0123456789abcdef@\n"
        "7|pending|PENDING|1|1|0|all,small|nobody||Nodes required for j|other|\n");
    assert_string_equal(text_of(*state, "squeue.words"), "--noheader\n--all\n--local\n--states=all\n");
    assert_null(strstr(text_of(*state, "squeue.env"), "SQUEUE_STATES"));
    buffer_free(&text);
    slurm_commands_close(commands);
}

static void many_jobs_and_broken_output(void **state)
{
    const char *directory = *state;
    struct buffer text = {0};
    struct error error = {0};
    struct slurm_commands *commands = open_here();
    buffer_put_string(&text, "You have mail.\n");
    for (int i = 1; i <= 20000; i++)
        buffer_print(&text,
                     "@SEP@%d@SEP@CONFIGURING@SEP@1@SEP@1@SEP@gpu:1@SEP@p@SEP@u@SEP@n%d@SEP@None@SEP@name@SEP@c@SEP@\n",
                     i, i);
    temporary_file(directory, "squeue.out", buffer_begin(&text), buffer_size(&text));
    size_t left = 20001;
    assert_int_equal(slurm_jobs(commands, count_job, &left, &error), WEFT_OK);
    assert_int_equal(left, 1);
    left = 10;
    assert_int_equal(slurm_jobs(commands, count_job, &left, &error), WEFT_OK);
    assert_int_equal(left, 0);
    temporary_file(directory, "squeue.out", buffer_begin(&text), buffer_size(&text) - 10);
    left = 20001;
    expect_error(slurm_jobs(commands, count_job, &left, &error), &error, WEFT_ERROR_DATA, "ends within a job");
    error_clear(&error);
    text_file(directory, "squeue.out", "");
    assert_int_equal(slurm_jobs(commands, count_job, &left, &error), WEFT_OK);
    text_file(directory, "squeue.err", down);
    text_file(directory, "squeue.code", "1");
    expect_error(slurm_jobs(commands, count_job, &left, &error), &error, WEFT_ERROR_SYSTEM,
                 "squeue failed: slurm_load_jobs error: Unable to contact");
    buffer_free(&text);
    slurm_commands_close(commands);
}

/* ---- nodes ---- */

static bool print_node(void *context, const struct slurm_node *node)
{
    buffer_print(context, "%s|%s|%s%s%s|%s|%s|%u/%u|%u/%u|%u/%u|%s\n", node->name, node->address, node->up ? "up" : "",
                 node->asleep ? "asleep" : "", node->reserved ? ",reserved" : "", node->state, node->features,
                 node->cpus_used, node->cpus, node->gpus_used, node->gpus, (unsigned)(node->memory_used >> 20),
                 (unsigned)(node->memory >> 20), node->reason);
    return true;
}

static void expect_nodes(const char *partition, const char *expected)
{
    struct buffer text = {0};
    struct error error = {0};
    struct slurm_commands *commands = open_config(&(struct slurm_commands_config){.partition = partition});
    if (slurm_nodes(commands, print_node, &text, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_string_equal(buffer_size(&text) ? buffer_string(&text) : "", expected);
    buffer_free(&text);
    slurm_commands_close(commands);
}

static void nodes_of_a_partition_are_read(void **state)
{
    const char *directory = *state;
    expect_nodes(NULL, "n1|127.0.0.1|up|MIXED|h100,ib|5/8|5/8|1100/8000|\n"
                       "n2|127.0.0.1|up,reserved|MIXED+RESERVED|h100,ib|4/8|2/8|1000/8000|\n"
                       "n3|127.0.0.1||IDLE+DRAIN|h100,ib|0/8|0/8|0/8000|bad link State=IDLE Gres=gpu:64 "
                       "[root@2026-11-29T06:08:17]        NodeName=x [see] 50%\n"
                       "n4|127.0.0.1||DOWN|h100,ib|0/8|0/8|0/8000|not responding [root@2026-11-29T06:08:20]\n");
    expect_nodes("hidden", "n4|127.0.0.1||DOWN|h100,ib|0/8|0/8|0/8000|not responding [root@2026-11-29T06:08:20]\n");
    /* Other releases and states. */
    text_file(directory, "scontrol.node",
              "NodeName=a CPUAlloc=2 CPUTot=4 ActiveFeatures=(null) Gres=gpu:a100:4(S:0-1),gpu:k80:2,shard:16 "
              "GresUsed=gpu:a100:3(IDX:0-1,3),gpu:k80:0(IDX:N/A) State=IDLE+CLOUD+POWERED_DOWN Partitions=all \n"
              "NodeName=b CPUTot=4 Gres=(null) NodeAddr=b.example State=ALLOCATED+NOT_RESPONDING Partitions=small,all\n"
              "NodeName=c CPUTot=4 State=IDLE+MAINTENANCE+RESERVED Partitions=all Reason=work ReservationName=m\n"
              "NodeName=d CPUTot=4 State=IDLE* Partitions=all\n"
              "NodeName=e CPUTot=4 State=MIXED+PLANNED+CLOUD Partitions=all\n"
              "NodeName=f CPUTot=4 State=IDLE Partitions=other\n"
              "NodeName=g CPUTot=4 State=IDLE\n"
              "NodeName=h CPUTot=4 State=IDLE+REBOOT_ISSUED Partitions=all Comment=first\nsecond\n");
    expect_nodes("all", "a|a|asleep|IDLE+CLOUD+POWERED_DOWN||2/4|3/6|0/0|\n"
                        "b|b.example||ALLOCATED+NOT_RESPONDING||0/4|0/0|0/0|\n"
                        "c|c|,reserved|IDLE+MAINTENANCE+RESERVED||0/4|0/0|0/0|work\n"
                        "d|d||IDLE*||0/4|0/0|0/0|\n"
                        "e|e|up|MIXED+PLANNED+CLOUD||0/4|0/0|0/0|\n"
                        "h|h||IDLE+REBOOT_ISSUED||0/4|0/0|0/0|\n");
}

static void default_partition_is_found_later(void **state)
{
    const char *directory = *state;
    struct buffer text = {0};
    struct error error = {0};
    text_file(directory, "scontrol.err", "slurm_load_partitions error: Unable to contact slurm controller\n");
    text_file(directory, "scontrol.code", "1");
    struct slurm_commands *commands = open_here();
    expect_error(slurm_nodes(commands, print_node, &text, &error), &error, WEFT_ERROR_SYSTEM, "scontrol failed");
    unlink(temporary_path(directory, "scontrol.err"));
    unlink(temporary_path(directory, "scontrol.code"));
    assert_int_equal(slurm_nodes(commands, print_node, &text, NULL), WEFT_OK);
    assert_true(buffer_size(&text) > 0);
    buffer_free(&text);
    slurm_commands_close(commands);
}

/* ---- switches ---- */

static bool print_switch(void *context, const char *name, const char *node, uint32_t level)
{
    buffer_print(context, "%s-%u-%s ", name, level, node);
    return true;
}

static void switches_are_read(void **state)
{
    const char *directory = *state;
    struct buffer text = {0};
    struct error error = {0};
    struct slurm_commands *commands = open_here();
    assert_int_equal(slurm_switches(commands, print_switch, &text, &error), WEFT_OK);
    assert_string_equal(buffer_string(&text),
                        "podA-0-n1 podA-0-n2 podB-0-n3 podB-0-n4 spine-1-n1 spine-1-n2 spine-1-n3 "
                        "spine-1-n4 ");
    buffer_free(&text);
    text_file(directory, "scontrol.topology",
              "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nAggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-4]\n");
    assert_int_equal(slurm_switches(commands, print_switch, &text, &error), WEFT_OK);
    assert_string_equal(buffer_string(&text), "b1-0-n1 b1-0-n2 ");
    buffer_free(&text);
    text_file(directory, "scontrol.topology", "");
    text_file(directory, "scontrol.err", "scontrol: error: No topology information available\n");
    assert_int_equal(slurm_switches(commands, print_switch, &text, &error), WEFT_OK);
    assert_int_equal(buffer_size(&text), 0);
    text_file(directory, "scontrol.err",
              "slurm_load_topo error: Unable to contact slurm controller (connect failure)\n");
    expect_error(slurm_switches(commands, print_switch, &text, &error), &error, WEFT_ERROR_SYSTEM, "slurm_load_topo");
    buffer_free(&text);
    slurm_commands_close(commands);
}

/* ---- ssh ---- */

static void commands_run_on_a_login_node(void **state)
{
    const char *directory = *state;
    uint64_t job;
    struct buffer text = {0};
    const struct slurm_commands_config away = {.login = "me@login.example"};
    struct slurm_commands *commands = open_config(&away);
    struct slurm_submission odd = usual;
    odd.directory = "/srv/$(x) it's";
    odd.user = "root";
    assert_int_equal(slurm_submit(commands, &odd, &job, NULL), WEFT_OK);
    const char *words = text_of(directory, "ssh.words");
    assert_non_null(strstr(words, "-oBatchMode=yes\n-oStrictHostKeyChecking=yes\n"));
    assert_non_null(strstr(words, "--\nme@login.example\n'env' 'HOME="));
    assert_non_null(strstr(text_of(directory, "sbatch.words"), "--chdir=/srv/$(x) it's\n"));
    assert_non_null(strstr(text_of(directory, "sbatch.words"), "--comment=weft-ab12:7:1:it's\n"));
    assert_string_equal(text_of(directory, "sbatch.input"), usual.script);
    assert_int_equal(slurm_jobs(commands, print_job, &text, NULL), WEFT_OK);
    assert_non_null(strstr(buffer_string(&text), "odd name | % $(x)|tab\there\nnewline"));
    buffer_free(&text);

    struct error error = {0};
    text_file(directory, "sbatch.code", "255");
    text_file(directory, "sbatch.err", "sbatch: error: Invalid --uid specification\n");
    expect_error(slurm_submit(commands, &usual, &job, &error), &error, WEFT_ERROR_ARGUMENT,
                 "sbatch on me@login.example failed: Invalid --uid specification");
    error_clear(&error);
    text_file(directory, "ssh.err", "No host key is known.\r\nHost key verification failed.\r\n");
    expect_error(slurm_submit(commands, &usual, &job, &error), &error, WEFT_ERROR_SYSTEM,
                 "ssh to me@login.example failed: No host key is known.; Host key verification failed.");
    slurm_commands_close(commands);
    expect_no_open(&away, WEFT_ERROR_SYSTEM, "Host key verification failed");
    unlink(temporary_path(directory, "ssh.err"));
    unlink(temporary_path(directory, "sbatch"));
    assert_int_equal(symlink("/bin/sh", temporary_path(directory, "sh")), 0);
    setenv("PATH", directory, 1);
    expect_no_open(&away, WEFT_ERROR_ARGUMENT, "there is no command sbatch on me@login.example");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_programs(opening_checks_commands_and_versions), with_programs(opening_checks_the_partition),
        with_programs(submitting_passes_all_options),        with_programs(submitting_tells_refusals_from_outages),
        with_programs(submitting_checks_its_fields),         with_programs(slow_commands_are_killed),
        with_programs(canceling_ignores_ended_jobs),         with_programs(jobs_of_all_users_are_read),
        with_programs(many_jobs_and_broken_output),          with_programs(nodes_of_a_partition_are_read),
        with_programs(default_partition_is_found_later),     with_programs(switches_are_read),
        with_programs(commands_run_on_a_login_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
