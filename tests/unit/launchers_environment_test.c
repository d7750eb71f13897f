/* SPDX-License-Identifier: Apache-2.0 */
/* What is read from launchers: the variables of weft run, Slurm and torchrun, Slurm's host lists, PMI-1 and PMI-2 on
 * the wire. */
#include "core/control/rendezvous/bootstrap.h"
#include "core/control/rendezvous/internal/kvs.h"
#include "core/control/wire/environment.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const names[] = {
    "WEFT_RANK",
    "WEFT_RANKS",
    "WEFT_RENDEZVOUS",
    "WEFT_SECRET",
    "WEFT_RENDEZVOUS_SERVED",
    "WEFT_RENDEZVOUS_HOST",
    "WEFT_RENDEZVOUS_PORT",
    "SLURM_PROCID",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_NODEID",
    "SLURM_LOCALID",
    "WEFT_LOCAL_RANK",
    "WEFT_LOCAL_RANKS",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_USE_AGENT_STORE",
    "PMI_FD",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_JOBID",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
};

static int clean(void **state)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return 0;
}

static void set(const char *name, const char *value)
{
    setenv(name, value, 1);
}

/* Whether `launcher` is present; if so, its variables and the status of reading them. */
static bool reads(enum launcher launcher, struct environment *environment, weft_status *status, struct error *error)
{
    if (!launcher_is_present(launcher))
        return false;
    *status = environment_read(launcher, environment, error);
    return true;
}

/* Each launcher is found by its variables, in the order of the table, and tells the number of a rank. */
static void launchers_in_order(void **state)
{
    static const struct {
        enum launcher launcher;
        const char *name, *variables[4];
        int64_t rank;
    } cases[] = {
        {LAUNCHER_NONE, "alone", {NULL}, -1},
        {LAUNCHER_NONE, "alone", {"RANK=x"}, -1},
        {LAUNCHER_NONE, "alone", {"RANK=6", "WORLD_SIZE=8"}, 6},
        {LAUNCHER_TORCHRUN, "torchrun variables", {"MASTER_ADDR=h", "MASTER_PORT=1"}, 6},
        {LAUNCHER_TORCHRUN, "torchrun variables", {"SLURM_PROCID=5", "SLURM_JOB_ID=1"}, 5},
        {LAUNCHER_SLURM, "Slurm", {"SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=8"}, 5},
        {LAUNCHER_PMI1, "PMI-1", {"PMI_FD=7", "PMI_RANK=4"}, 4},
        {LAUNCHER_PMI2, "PMI-2", {"PMI_JOBID=1"}, 4},
        {LAUNCHER_PMIX, "PMIx", {"PMIX_RANK=3", "PMIX_NAMESPACE=n"}, 3},
        {LAUNCHER_WEFT, "weft run", {"WEFT_RANK=2"}, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t v = 0; v < 4 && cases[i].variables[v]; v++)
            assert_int_equal(putenv((char *)cases[i].variables[v]), 0);
        assert_int_equal(launcher_detect(), cases[i].launcher);
        assert_string_equal(launcher_name(launcher_detect()), cases[i].name);
        assert_int_equal(launcher_rank(), cases[i].rank);
    }
}

static void first_hosts(void **state)
{
    static const char *const cases[][2] = {
        {"n1", "n1"},
        {"n1,n2", "n1"},
        {"n[1-4]", "n1"},
        {"n[03-10,12],m1", "n03"},
        {"rack[1-2]-x", "rack1-x"},
        {"a.b.c,d", "a.b.c"},
        {"gpu-[7]", "gpu-7"},
    };
    char host[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(environment_first_host(cases[i][0], host, sizeof host));
        assert_string_equal(host, cases[i][1]);
    }
    static const char *const bad[] = {"", "n[", "n[]", "[", ",", "n[1-2]x[3-4]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(environment_first_host(bad[i], host, sizeof host));
}

static void torchrun(void **state)
{
    struct environment first, second;
    weft_status status = WEFT_OK;
    struct error error = {0};
    assert_false(reads(LAUNCHER_TORCHRUN, &first, &status, &error));
    set("RANK", "3");
    set("WORLD_SIZE", "8");
    set("MASTER_ADDR", "node-1");
    set("MASTER_PORT", "29500");
    assert_true(reads(LAUNCHER_TORCHRUN, &first, &status, &error));
    assert_int_equal(status, WEFT_OK);
    assert_int_equal(first.rank, 3);
    assert_int_equal(first.ranks, 8);
    assert_string_equal(first.addresses, "node-1:29500");
    /* torchrun's agent has that port itself. */
    set("TORCHELASTIC_USE_AGENT_STORE", "True");
    set("WEFT_SECRET", "mine");
    assert_true(reads(LAUNCHER_TORCHRUN, &second, &status, &error));
    assert_string_equal(second.addresses, "node-1:29501");
    assert_string_equal(second.secret, "mine");
    assert_string_not_equal(first.secret, second.secret);
    set("WEFT_RENDEZVOUS_PORT", "4000");
    assert_true(reads(LAUNCHER_TORCHRUN, &second, &status, &error));
    assert_string_equal(second.addresses, "node-1:4000");
    set("RANK", "8");
    assert_true(reads(LAUNCHER_TORCHRUN, &second, &status, &error));
    assert_int_equal(status, WEFT_ERROR_RENDEZVOUS);
    assert_string_equal(error.text, "torchrun variables set a wrong variable: RANK is 8, but must be from 0 to 7");
}

static void slurm(void **state)
{
    struct environment first, second;
    weft_status status = WEFT_OK;
    struct error error = {0};
    set("SLURM_PROCID", "1");
    set("SLURM_JOB_ID", "42");
    set("SLURM_STEP_NODELIST", "n[2-3]");
    assert_false(reads(LAUNCHER_SLURM, &first, &status, &error)); /* a batch script, not a step of srun */
    set("SLURM_STEP_ID", "4294967291");
    set("SLURM_STEP_NUM_TASKS", "4");
    assert_false(reads(LAUNCHER_SLURM, &first, &status, &error)); /* the same, newer */
    set("SLURM_STEP_ID", "0");
    assert_true(reads(LAUNCHER_SLURM, &first, &status, &error));
    assert_int_equal(status, WEFT_OK);
    assert_int_equal(first.rank, 1);
    assert_int_equal(first.ranks, 4);
    assert_memory_equal(first.addresses, "n2:2", 4);
    set("SLURM_STEP_ID", "1");
    assert_true(reads(LAUNCHER_SLURM, &second, &status, &error));
    assert_string_not_equal(first.addresses, second.addresses); /* steps of one job do not meet */
    assert_string_not_equal(first.secret, second.secret);
    set("SLURM_STEP_NUM_NODES", "2");
    assert_true(reads(LAUNCHER_SLURM, &second, &status, &error));
    assert_memory_equal(second.addresses, "n2:2", 4);
    set("SLURM_STEP_NUM_NODES", "1"); /* n2 need not be a name that hosts resolve */
    assert_true(reads(LAUNCHER_SLURM, &second, &status, &error));
    assert_memory_equal(second.addresses, "127.0.0.1:2", 11);
    set("WEFT_RENDEZVOUS_HOST", "fd00::7");
    assert_true(reads(LAUNCHER_SLURM, &second, &status, &error));
    assert_memory_equal(second.addresses, "[fd00::7]:2", 11);
    unsetenv("SLURM_STEP_NODELIST");
    assert_true(reads(LAUNCHER_SLURM, &second, &status, &error));
    assert_non_null(strstr(error.text, "SLURM_STEP_NODELIST is '', which is not a list of hosts"));
}

static void weft_run(void **state)
{
    struct environment environment;
    weft_status status = WEFT_OK;
    struct error error = {0};
    set("WEFT_RANK", "1");
    assert_true(reads(LAUNCHER_WEFT, &environment, &status, &error));
    assert_string_equal(error.text, "weft run set its other variables but not WEFT_RANKS");
    set("WEFT_RANKS", "2");
    error_clear(&error);
    assert_true(reads(LAUNCHER_WEFT, &environment, &status, &error));
    assert_non_null(strstr(error.text, "WEFT_RANK and WEFT_RANKS are set but WEFT_RENDEZVOUS is not"));
    set("WEFT_RENDEZVOUS", "h:1");
    set("WEFT_SECRET", "s");
    assert_true(reads(LAUNCHER_WEFT, &environment, &status, &error));
    assert_int_equal(status, WEFT_OK);
    assert_false(environment.served);
    set("WEFT_RENDEZVOUS_SERVED", "1");
    assert_true(reads(LAUNCHER_WEFT, &environment, &status, &error));
    assert_true(environment.served);
}

/* Which ranks share a node is a hint: what is missing or makes no sense counts as unknown. */
static void places_in_nodes(void **state)
{
    static const struct {
        const char *rank, *ranks;
        uint32_t node, local_rank, local_ranks;
    } cases[] = {{"1", "4", 4, 1, 4}, {NULL, "4", 0, 0, 0}, {"1", NULL, 0, 0, 0}, {"4", "4", 0, 0, 0},
                 {"6", "8", 0, 0, 0}, {"x", "4", 0, 0, 0},  {"-1", "4", 0, 0, 0}, {"0", "1", 5, 0, 1}};
    struct environment environment;
    weft_status status = WEFT_OK;
    struct error error = {0};
    set("WEFT_RANK", "5");
    set("WEFT_RANKS", "8");
    set("WEFT_RENDEZVOUS", "h:1");
    set("WEFT_SECRET", "s");
    set("RANK", "5");
    set("WORLD_SIZE", "8");
    set("MASTER_ADDR", "h");
    set("MASTER_PORT", "1");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int torchrun = 0; torchrun < 2; torchrun++) {
            const char *names_of[] = {"WEFT_LOCAL_RANK", "WEFT_LOCAL_RANKS", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
            for (int k = 0; k < 4; k++)
                unsetenv(names_of[k]);
            if (cases[i].rank)
                set(names_of[2 * torchrun], cases[i].rank);
            if (cases[i].ranks)
                set(names_of[2 * torchrun + 1], cases[i].ranks);
            assert_true(reads(torchrun ? LAUNCHER_TORCHRUN : LAUNCHER_WEFT, &environment, &status, &error));
            assert_int_equal(status, WEFT_OK);
            assert_int_equal(environment.node, cases[i].node);
            assert_int_equal(environment.local_rank, cases[i].local_rank);
            assert_int_equal(environment.local_ranks, cases[i].local_ranks);
        }
}

static void places_in_slurms_nodes(void **state)
{
    static const struct {
        const char *list;
        uint32_t node, tasks;
    } cases[] = {{"4", 0, 4},       {"4", 1, 0},       {"4(x2),3", 0, 4}, {"4(x2),3", 1, 4},
                 {"4(x2),3", 2, 3}, {"4(x2),3", 3, 0}, {"2,1(x3)", 3, 1}, {"", 0, 0},
                 {"x", 0, 0},       {"4(x2", 1, 0},    {"4;3", 1, 0},     {"99999999", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(environment_tasks_of_node(cases[i].list, cases[i].node), cases[i].tasks);
    struct environment environment;
    weft_status status = WEFT_OK;
    struct error error = {0};
    set("SLURM_PROCID", "3"); /* ranks dealt out in turn: 1 and 3 are on the second node */
    set("SLURM_JOB_ID", "42");
    set("SLURM_STEP_ID", "0");
    set("SLURM_STEP_NUM_TASKS", "5");
    set("SLURM_STEP_NODELIST", "n[2-3]");
    set("SLURM_STEP_TASKS_PER_NODE", "3,2");
    set("SLURM_NODEID", "1");
    set("SLURM_LOCALID", "1");
    assert_true(reads(LAUNCHER_SLURM, &environment, &status, &error));
    assert_int_equal(status, WEFT_OK);
    assert_int_equal(environment.node, 1);
    assert_int_equal(environment.local_rank, 1);
    assert_int_equal(environment.local_ranks, 2);
    set("SLURM_LOCALID", "2");
    assert_true(reads(LAUNCHER_SLURM, &environment, &status, &error));
    assert_int_equal(environment.local_ranks, 0);
}

/* ---- PMI on the wire ---- */

/* A process manager for one process: it answers as the protocol's description says, and keeps what is put. */
struct manager {
    int descriptor;
    bool second; /* PMI-2 */
    char keys[64][64], values[64][1100];
    int count;
    bool finished;
    bool refuses; /* what is put */
};

static bool read_text(struct manager *manager, char *text, size_t room)
{
    char head[7] = "";
    if (!manager->second) {
        for (size_t i = 0; i < room - 1; i++) {
            if (read(manager->descriptor, text + i, 1) != 1)
                return false;
            if (text[i] == '\n') {
                text[i] = '\0';
                return true;
            }
        }
        return false;
    }
    if (recv(manager->descriptor, head, 6, MSG_WAITALL) != 6)
        return false;
    size_t length = strtoul(head, NULL, 10);
    if (length >= room || recv(manager->descriptor, text, length, MSG_WAITALL) != (ssize_t)length)
        return false;
    text[length] = '\0';
    return true;
}

/* The value of " name=value" in a request; its first field is "cmd". */
static void get_field(const char *request, const char *name, char separator, char *value, size_t room)
{
    char begin[32];
    snprintf(begin, sizeof begin, "%c%s=", separator, name);
    const char *at = strstr(request, begin);
    assert_non_null(at);
    at += strlen(begin);
    const size_t length = strcspn(at, (char[]){separator, '\0'});
    assert_true(length < room);
    memcpy(value, at, length);
    value[length] = '\0';
}

static void answer(struct manager *manager, const char *text)
{
    char bytes[4096];
    int length = manager->second ? snprintf(bytes, sizeof bytes, "%6zu%s", strlen(text), text)
                                 : snprintf(bytes, sizeof bytes, "%s\n", text);
    assert_int_equal(send(manager->descriptor, bytes, (size_t)length, MSG_NOSIGNAL), length);
}

static const char *lookup(const struct manager *manager, const char *key)
{
    for (int i = 0; i < manager->count; i++)
        if (strcmp(manager->keys[i], key) == 0)
            return manager->values[i];
    return NULL;
}

static void *manage(void *argument)
{
    struct manager *manager = argument;
    bool second = manager->second;
    char text[4096], command[64], reply[4096];
    char separator = second ? ';' : ' ';
    manager->second = false; /* the first exchange is a line in both */
    while (read_text(manager, text, sizeof text)) {
        assert_int_equal(sscanf(text, "cmd=%63[^ ;]", command), 1);
        if (strcmp(command, "init") == 0) {
            answer(manager, second ? "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0"
                                   : "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
            manager->second = second;
        } else if (strcmp(command, "get_maxes") == 0) {
            answer(manager, "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=256");
        } else if (strcmp(command, "get_my_kvsname") == 0) {
            answer(manager, "cmd=my_kvsname rc=0 kvsname=kvs_7_0");
        } else if (strcmp(command, "fullinit") == 0) {
            answer(manager, "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=0;size=1;appnum=0;");
        } else if (strcmp(command, "put") == 0 || strcmp(command, "kvs-put") == 0) {
            get_field(text, "key", separator, manager->keys[manager->count], 64);
            get_field(text, "value", separator, manager->values[manager->count], 1024);
            manager->count++;
            if (manager->refuses)
                answer(manager, second ? "cmd=kvs-put-response;rc=1;errmsg=full;" : "cmd=put_result rc=-1 msg=full");
            else
                answer(manager, second ? "cmd=kvs-put-response;rc=0;" : "cmd=put_result rc=0 msg=success");
        } else if (strcmp(command, "barrier_in") == 0 || strcmp(command, "kvs-fence") == 0) {
            answer(manager, second ? "cmd=kvs-fence-response;rc=0;" : "cmd=barrier_out");
        } else if (strcmp(command, "get") == 0 || strcmp(command, "kvs-get") == 0) {
            char key[64];
            get_field(text, "key", separator, key, sizeof key);
            const char *value = lookup(manager, key);
            snprintf(reply, sizeof reply,
                     second ? "cmd=kvs-get-response;rc=0;found=%s;value=%s;"
                            : "cmd=get_result rc=0 msg=success%s value=%s",
                     second ? (value ? "TRUE" : "FALSE") : "", value ? value : "");
            answer(manager, reply);
        } else if (strcmp(command, "finalize") == 0) {
            manager->finished = true;
            answer(manager, second ? "cmd=finalize-response;rc=0;" : "cmd=finalize_ack");
        }
    }
    return NULL;
}

/* Start a manager of the only rank; returns the descriptor that the rank talks to. */
static int start_manager(struct manager *manager, bool second, pthread_t *thread)
{
    int pair[2];
    char number[16];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    manager->descriptor = pair[1];
    manager->second = second;
    pthread_create(thread, NULL, manage, manager);
    snprintf(number, sizeof number, "%d", pair[0]);
    set("PMI_FD", number);
    set("PMI_RANK", "0");
    set("PMI_SIZE", "1");
    if (second)
        set("PMI_JOBID", "42.0");
    return pair[0];
}

static void stop_manager(struct manager *manager, int descriptor, pthread_t thread)
{
    close(descriptor);
    pthread_join(thread, NULL);
    close(manager->descriptor);
}

static void exchange_through(bool second, bool fails)
{
    static struct manager manager;
    memset(&manager, 0, sizeof manager);
    pthread_t thread;
    const int descriptor = start_manager(&manager, second, &thread);
    struct error error = {0};
    struct bootstrap *bootstrap = NULL;
    struct bootstrap_config config = {0};
    struct endpoint_info endpoint, *endpoints = NULL;
    assert_int_equal(endpoint_info_begin(&endpoint, 0, NULL, NULL), WEFT_OK);
    memset(endpoint.extra, 0x5a, sizeof endpoint.extra);
    assert_int_equal(bootstrap_open(&config, &bootstrap, &error), WEFT_OK);
    assert_string_equal(bootstrap_launcher(bootstrap), second ? "PMI-2" : "PMI-1");
    assert_int_equal(bootstrap_exchange(bootstrap, &endpoint, &endpoints, &error), WEFT_OK);
    assert_memory_equal(&endpoints[0], &endpoint, sizeof endpoint);
    assert_int_equal(manager.count, 1); /* the secret: nobody is below who would ask where this rank is */
    if (fails)
        bootstrap_abandon(bootstrap);
    bootstrap_close(bootstrap);
    free(endpoints);
    stop_manager(&manager, descriptor, thread);
    assert_int_equal(manager.finished, !fails); /* a launcher that is ending the job may never answer a farewell */
}

static void pmi1(void **state)
{
    exchange_through(false, false);
    exchange_through(false, true);
}

static void pmi2(void **state)
{
    exchange_through(true, false);
    exchange_through(true, true);
}

/* Rank 0 puts the secret of the job: the message about a launcher that refuses it goes to logs. */
static void pmi_refusals_keep_the_secret(void **state)
{
    for (int second = 0; second < 2; second++) {
        static struct manager manager;
        memset(&manager, 0, sizeof manager);
        manager.refuses = true;
        pthread_t thread;
        const int descriptor = start_manager(&manager, second, &thread);
        struct error error = {0};
        struct bootstrap *bootstrap = NULL;
        struct bootstrap_config config = {0};
        struct endpoint_info endpoint, *endpoints = NULL;
        assert_int_equal(endpoint_info_begin(&endpoint, 0, NULL, NULL), WEFT_OK);
        assert_int_equal(bootstrap_open(&config, &bootstrap, &error), WEFT_OK);
        assert_int_equal(bootstrap_exchange(bootstrap, &endpoint, &endpoints, &error), WEFT_ERROR_RENDEZVOUS);
        bootstrap_abandon(bootstrap);
        bootstrap_close(bootstrap);
        stop_manager(&manager, descriptor, thread);
        assert_int_equal(manager.count, 1);
        assert_true(strlen(manager.values[0]) >= 16);
        assert_null(strstr(error.text, manager.values[0]));
        assert_non_null(strstr(error.text, second ? "'cmd=kvs-put'" : "'cmd=put'"));
        assert_non_null(strstr(error.text, "full"));
    }
}

static void pmi_that_is_wrong(void **state)
{
    struct error error = {0};
    struct bootstrap *bootstrap = NULL;
    struct bootstrap_config config = {0};
    set("PMI_FD", "999");
    set("PMI_RANK", "2");
    set("PMI_SIZE", "2");
    assert_int_equal(bootstrap_open(&config, &bootstrap, &error), WEFT_ERROR_RENDEZVOUS);
    assert_string_equal(error.text, "PMI_RANK is 2, but PMI_SIZE is 2");
    error_clear(&error);
    set("PMI_RANK", "1");
    assert_int_equal(bootstrap_open(&config, &bootstrap, &error), WEFT_ERROR_RENDEZVOUS);
    assert_non_null(strstr(error.text, "PMI_FD"));
}

static void alone(void **state)
{
    struct bootstrap *bootstrap = NULL;
    struct bootstrap_config config = {0};
    struct endpoint_info endpoint, *endpoints = NULL;
    assert_int_equal(endpoint_info_begin(&endpoint, 0, "x", NULL), WEFT_OK);
    assert_int_equal(bootstrap_open(&config, &bootstrap, NULL), WEFT_OK);
    assert_string_equal(bootstrap_launcher(bootstrap), "alone");
    assert_int_equal(bootstrap_exchange(bootstrap, &endpoint, &endpoints, NULL), WEFT_OK);
    assert_memory_equal(endpoints, &endpoint, sizeof endpoint);
    free(endpoints);
    bootstrap_close(bootstrap);
}

static void configurations_that_are_wrong(void **state)
{
    static const struct {
        struct bootstrap_config config;
        const char *words;
    } cases[] = {
        {{.rank = 2, .ranks = 2, .address = "h:1", .secret = "s"}, "rank 2 of 2 ranks"},
        {{.rank = -1, .ranks = 2, .address = "h:1", .secret = "s"}, "rank -1 of 2"},
        {{.rank = 0, .ranks = 2, .secret = "s"}, "not the address"},
        {{.rank = 0, .ranks = 2, .address = "h:1"}, "not the secret"},
        {{.rank = 0, .ranks = 2, .address = "h", .secret = "s"}, "'h' is not an address"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error = {0};
        struct bootstrap *bootstrap = NULL;
        assert_int_equal(bootstrap_open(&cases[i].config, &bootstrap, &error), WEFT_ERROR_ARGUMENT);
        assert_non_null(strstr(error.text, cases[i].words));
    }
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    const struct bootstrap_config longs[] = {{.rank = 0, .ranks = 2, .address = text, .secret = "s"},
                                             {.rank = 0, .ranks = 2, .address = "h:1", .secret = text}};
    for (size_t i = 0; i < sizeof longs / sizeof *longs; i++) {
        struct error error = {0};
        struct bootstrap *bootstrap = NULL;
        assert_int_equal(bootstrap_open(&longs[i], &bootstrap, &error), WEFT_ERROR_ARGUMENT);
        assert_non_null(strstr(error.text, i ? "secret is longer than" : "address of the rendezvous is longer than"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(launchers_in_order, clean),
        cmocka_unit_test_setup(first_hosts, clean),
        cmocka_unit_test_setup(torchrun, clean),
        cmocka_unit_test_setup(slurm, clean),
        cmocka_unit_test_setup(places_in_nodes, clean),
        cmocka_unit_test_setup(places_in_slurms_nodes, clean),
        cmocka_unit_test_setup(weft_run, clean),
        cmocka_unit_test_setup(pmi1, clean),
        cmocka_unit_test_setup(pmi2, clean),
        cmocka_unit_test_setup(pmi_refusals_keep_the_secret, clean),
        cmocka_unit_test_setup(pmi_that_is_wrong, clean),
        cmocka_unit_test_setup(alone, clean),
        cmocka_unit_test_setup(configurations_that_are_wrong, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
