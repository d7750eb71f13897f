/* SPDX-License-Identifier: Apache-2.0 */
/* Reports, and the checks of one machine. */
#include "observe/doctor/doctor.h"

#include "base/file/file.h"
#include "base/text.h"
#include "core/collective/communicator/configuration.h"
#include "core/control/wire/address.h"
#include "core/topology/interfaces.h"
#include "core/topology/limits.h"
#include "core/transport/fabric/providers.h"
#include "core/transport/heap/heap.h"
#include "platform/runs/record.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY_LEAST        (UINT64_C(256) << 20) /* a rank's, for a job to be of any use */
#define MEMORY_GOOD         (UINT64_C(1) << 30)
#define HEAP_LEAST          (UINT64_C(64) << 20)
#define HEAP_GOOD           (UINT64_C(256) << 20)
#define SHM_GOOD            (UINT64_C(64) << 20)
#define LOCKED_GOOD         (UINT64_C(1) << 30)
#define DESCRIPTORS_OF_RANK 48 /* and three for each rank near it */

/* ---- reports ---- */

const char *doctor_level_name(enum doctor_level level)
{
    static const char *const names[] = {"ok", "warning", "problem"};
    return names[level];
}

void doctor_begin(struct doctor_report *report)
{
    *report = (struct doctor_report){0};
    address_host_name(report->host, sizeof report->host);
}

void doctor_free(struct doctor_report *report)
{
    free(report->findings);
    *report = (struct doctor_report){0};
}

void doctor_find(struct doctor_report *report, enum doctor_level level, const char *check, const char *format, ...)
{
    if (ARRAY_RESERVE(report->findings, report->room, report->count + 1, "findings", NULL) != WEFT_OK) {
        report->exhausted = true;
        return;
    }
    struct doctor_finding *finding = &report->findings[report->count++];
    va_list arguments;
    finding->level = level;
    snprintf(finding->host, sizeof finding->host, "%s", report->host);
    snprintf(finding->check, sizeof finding->check, "%s", check);
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
    report->levels[level]++;
}

/* ---- checks ---- */

/* The first line of a file of the system, without its end; "" if there is none. */
static char *read_line(const char *path, char *text, size_t size)
{
    file_read_small(AT_FDCWD, path, text, size);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* ---- memory ---- */

static void doctor_machine_check_memory(struct doctor_report *report, const struct limits *limits, uint32_t ranks)
{
    char left[32], all[32], wanted[32];
    uint64_t available = limits->memory_available, least = ranks * MEMORY_LEAST;
    enum doctor_level level = available < least                 ? DOCTOR_PROBLEM
                              : available < ranks * MEMORY_GOOD ? DOCTOR_WARNING
                                                                : DOCTOR_OK;
    text_bytes(available, left, sizeof left);
    text_bytes(limits->memory_total, all, sizeof all);
    if (level == DOCTOR_OK)
        doctor_find(report, level, "memory", "%s of %s are free", left, all);
    else
        doctor_find(report, level, "memory",
                    "%s of %s are free, little for %u ranks: end what else runs here, or start fewer ranks (%s each)",
                    left, all, ranks, text_bytes(MEMORY_GOOD, wanted, sizeof wanted));
    if (limits->group_limit == LIMITS_NONE) {
        doctor_find(report, DOCTOR_OK, "control-group", "the control group does not limit memory");
        return;
    }
    level = limits->group_available < least                 ? DOCTOR_PROBLEM
            : limits->group_available < ranks * MEMORY_GOOD ? DOCTOR_WARNING
                                                            : DOCTOR_OK;
    doctor_find(report, level, "control-group", "the control group allows %s of memory, and %s are left%s",
                text_bytes(limits->group_limit, all, sizeof all),
                text_bytes(limits->group_available, left, sizeof left),
                level == DOCTOR_OK ? "" : ": raise memory.max (the container's or the Slurm job's memory)");
}

/* The heap that every rank maps at its start. */
static void check_heap(struct doctor_report *report)
{
    struct heap *heap;
    struct error error;
    char size[32];
    error_clear(&error);
    if (heap_open(0, &heap, &error) != WEFT_OK) {
        doctor_find(report, DOCTOR_PROBLEM, "address-space", "%s", error.text);
        return;
    }
    text_bytes(heap->size, size, sizeof size);
    if (heap->size >= HEAP_GOOD)
        doctor_find(report, DOCTOR_OK, "address-space", "a shared heap of up to %s can be mapped", size);
    else
        doctor_find(report, heap->size < HEAP_LEAST ? DOCTOR_PROBLEM : DOCTOR_WARNING, "address-space",
                    "a shared heap of no more than %s can be mapped: raise the address space (ulimit -v unlimited) or "
                    "the control group's memory limit",
                    size);
    heap_close(heap);
}

static void check_locked(struct doctor_report *report, const struct limits *limits)
{
    char size[32];
    bool needed = access("/sys/class/infiniband", F_OK) == 0;
    if (limits->locked_limit == LIMITS_NONE)
        doctor_find(report, DOCTOR_OK, "locked-memory", "as much as there is may be locked");
    else
        doctor_find(report, needed && limits->locked_limit < LOCKED_GOOD ? DOCTOR_PROBLEM : DOCTOR_OK, "locked-memory",
                    needed ? "only %s may be locked, and the RDMA devices here lock what they send: set "
                             "`memlock unlimited` in /etc/security/limits.conf, or LimitMEMLOCK=infinity for slurmd"
                           : "%s may be locked; no device here needs more",
                    text_bytes(limits->locked_limit, size, sizeof size));
}

static void check_shm(struct doctor_report *report)
{
    struct statvfs about;
    char left[32];
    if (statvfs("/dev/shm", &about) != 0 || access("/dev/shm", W_OK) != 0) {
        doctor_find(report, DOCTOR_WARNING, "/dev/shm",
                    "it is not there or may not be written; Weft does without, but MPI launchers do not: mount a tmpfs "
                    "there");
        return;
    }
    uint64_t bytes = (uint64_t)about.f_bavail * about.f_frsize;
    if (bytes >= SHM_GOOD)
        doctor_find(report, DOCTOR_OK, "/dev/shm", "%s are free", text_bytes(bytes, left, sizeof left));
    else
        doctor_find(report, DOCTOR_WARNING, "/dev/shm",
                    "only %s are free; Weft does without, but MPI launchers and data loaders do not: docker run "
                    "--shm-size=1g, or mount -o remount,size=1g /dev/shm; and remove what ended jobs have left there",
                    text_bytes(bytes, left, sizeof left));
}

static void check_huge_pages(struct doctor_report *report)
{
    char mode[128];
    read_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", mode, sizeof mode);
    const char *chosen = strchr(mode, '[');
    if (!chosen || strncmp(chosen, "[never]", 7) == 0 || strncmp(chosen, "[deny]", 6) == 0)
        doctor_find(report, DOCTOR_OK, "huge-pages",
                    "shared memory is in pages of 4 KiB; `echo advise > "
                    "/sys/kernel/mm/transparent_hugepage/shmem_enabled` may help large messages a little");
    else
        doctor_find(report, DOCTOR_OK, "huge-pages", "shared memory may be in huge pages");
}

/* ---- processes ---- */

static void check_cores(struct doctor_report *report, const struct limits *limits, uint32_t ranks)
{
    uint32_t cores = limits_processors(limits);
    if (ranks > cores)
        doctor_find(report, DOCTOR_WARNING, "cores",
                    "%u ranks share %u core%s, so that waiting ranks must sleep and small messages take many times as "
                    "long: start at most %u ranks here",
                    ranks, cores, cores == 1 ? "" : "s", cores);
    else
        doctor_find(report, DOCTOR_OK, "cores", "%u core%s for %u rank%s", cores, cores == 1 ? "" : "s", ranks,
                    ranks == 1 ? "" : "s");
    if (limits->processor_quota > 0 && limits->processor_quota < limits->processors)
        doctor_find(report, DOCTOR_WARNING, "processor-quota",
                    "the control group allows the time of %g of %u processors, and stops all ranks when it is used "
                    "up: raise cpu.max, or bind the job to whole processors (cpuset) instead",
                    limits->processor_quota, limits->processors);
    else
        doctor_find(report, DOCTOR_OK, "processor-quota", "processor time is not rationed");
}

static void check_descriptors(struct doctor_report *report, uint32_t ranks)
{
    struct rlimit limit;
    uint64_t needed = DESCRIPTORS_OF_RANK + 3 * (uint64_t)ranks;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    if (limit.rlim_cur < needed)
        doctor_find(report, DOCTOR_PROBLEM, "descriptors",
                    "a process may have %" PRIu64 " open files; %u ranks here need about %" PRIu64 " each: ulimit -n "
                    "%u",
                    (uint64_t)limit.rlim_cur, ranks, needed, needed < 4096 ? 4096 : (unsigned)needed * 2);
    else
        doctor_find(report, DOCTOR_OK, "descriptors", "a process may have %" PRIu64 " open files",
                    (uint64_t)limit.rlim_cur);
}

static void doctor_machine_wait_for(pid_t process, int *status)
{
    while (process > 0 && waitpid(process, status, 0) != process)
        ;
}

/* Whether one process may look into another, as a debugger does: two of one parent, as ranks are. */
static bool can_read_sibling(void)
{
    static volatile uint64_t word = 42;
    int status = -1, ignored;
    pid_t sleeper = fork();
    if (sleeper == 0) {
        sleep(10);
        _exit(0);
    }
    pid_t reader = sleeper > 0 ? fork() : -1;
    if (reader == 0) {
        uint64_t copy = 0;
        struct iovec here = {&copy, sizeof copy}, there = {(void *)(uintptr_t)&word, sizeof word};
        _exit(process_vm_readv(sleeper, &here, 1, &there, 1, 0) == sizeof copy && copy == word ? 0 : 1);
    }
    doctor_machine_wait_for(reader, &status);
    if (sleeper > 0)
        kill(sleeper, SIGKILL);
    doctor_machine_wait_for(sleeper, &ignored);
    return status == 0;
}

static void check_ptrace(struct doctor_report *report)
{
    char scope[16];
    read_line("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof scope);
    if (can_read_sibling())
        doctor_find(report, DOCTOR_OK, "ptrace", "a debugger may be attached to a rank (gdb -p)");
    else if (*scope && *scope != '0')
        doctor_find(report, DOCTOR_WARNING, "ptrace",
                    "a debugger cannot be attached to a rank that runs, to see where it hangs: sysctl "
                    "kernel.yama.ptrace_scope=0 (it is %s)",
                    scope);
    else
        doctor_find(
            report, DOCTOR_WARNING, "ptrace",
            "a debugger cannot be attached to a rank that runs, to see where it hangs: in a container, allow it "
            "(docker run --cap-add SYS_PTRACE)");
}

/* ---- clocks and settings ---- */

static void doctor_machine_check_clock(struct doctor_report *report)
{
    char source[64], governor[64];
    read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source);
    if (strcmp(source, "tsc") == 0 || strcmp(source, "kvm-clock") == 0 || strcmp(source, "arch_sys_counter") == 0)
        doctor_find(report, DOCTOR_OK, "clock", "the kernel's clock is %s, which is read without a system call",
                    source);
    else
        doctor_find(report, DOCTOR_WARNING, "clock",
                    "the kernel's clock is %s, which is slow to read: boot with clocksource=tsc if the processor's "
                    "is steady",
                    *source ? source : "not told");
    read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor, sizeof governor);
    if (strcmp(governor, "powersave") == 0)
        doctor_find(report, DOCTOR_WARNING, "frequency",
                    "the processors save power, and wake slowly: cpupower frequency-set -g performance");
}

static void check_settings(struct doctor_report *report)
{
    weft_config config;
    struct error error;
    char directory[FILE_PATH_BYTES];
    error_clear(&error);
    if (configuration_complete(NULL, &config, &error) != WEFT_OK)
        doctor_find(report, DOCTOR_PROBLEM, "settings", "%s", error.text);
    else
        doctor_find(report, DOCTOR_OK, "settings", "the WEFT_ variables that are set can be understood");
    error_clear(&error);
    if (run_records_directory(directory, &error) != WEFT_OK || file_make_directory(directory, &error) != WEFT_OK)
        doctor_find(report, DOCTOR_WARNING, "records", "runs cannot be recorded: %s", error.text);
}

/* ---- networks ---- */

static void check_interfaces(struct doctor_report *report)
{
    struct machine_interface *interfaces;
    uint32_t count, usable = 0;
    struct error error;
    char text[400] = "";
    size_t used = 0;
    error_clear(&error);
    if (interfaces_read(&interfaces, &count, &error) != WEFT_OK) {
        doctor_find(report, DOCTOR_PROBLEM, "interfaces", "%s", error.text);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct machine_interface *interface = &interfaces[i];
        for (uint32_t a = 0; interface->up && !interface->loopback && a < interface->address_count; a++) {
            if (interface->addresses[a].is_link_local)
                continue;
            usable++;
            if (used < sizeof text)
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%s at %s", used ? ", " : "",
                                         interface->name, interface->addresses[a].text);
        }
    }
    interfaces_free(interfaces, count);
    if (usable)
        doctor_find(report, DOCTOR_OK, "interfaces", "%s", text);
    else
        doctor_find(report, DOCTOR_WARNING, "interfaces",
                    "no network interface but the loopback is up and has an address, so that jobs cannot leave this "
                    "host: ip address, ip link set NAME up");
}

static void check_providers(struct doctor_report *report)
{
    struct provider *providers;
    uint32_t count;
    struct error error;
    char version[16];
    error_clear(&error);
    providers_version(version, sizeof version);
    if (providers_list(&providers, &count, &error) != WEFT_OK) {
        doctor_find(report, DOCTOR_PROBLEM, "providers", "%s", error.text);
        return;
    }
    if (count)
        doctor_find(report, DOCTOR_OK, "providers", "libfabric %s would use %s on %s", version, providers[0].name,
                    providers[0].device);
    else
        doctor_find(report, DOCTOR_PROBLEM, "providers",
                    "libfabric %s has no provider that Weft can use between hosts (fi_info lists what there is; "
                    "FI_PROVIDER may hide some)",
                    version);
    free(providers);
}

void doctor_check_machine(struct doctor_report *report, uint32_t ranks)
{
    struct limits limits;
    struct error error;
    error_clear(&error);
    if (limits_read(&limits, &error) != WEFT_OK) {
        doctor_find(report, DOCTOR_PROBLEM, "memory", "%s", error.text);
        return;
    }
    ranks = ranks ? ranks : limits_processors(&limits);
    doctor_machine_check_memory(report, &limits, ranks);
    check_heap(report);
    check_locked(report, &limits);
    check_shm(report);
    check_huge_pages(report);
    check_cores(report, &limits, ranks);
    check_descriptors(report, ranks);
    check_ptrace(report);
    doctor_machine_check_clock(report);
    check_settings(report);
    check_interfaces(report);
    check_providers(report);
}
