/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into processes of a training, it gives them trouble that has nothing to do with Weft.
 *
 * SIGUSR2: the next product of matrices never ends; with TROUBLE_SLEEPS in the environment it sleeps for ever instead.
 * TROUBLE_FLIPS: SIGRTMIN + 1 flips a bit in the next piece of so many bytes or more that is sent through a socket.
 * TROUBLE_SLOW_WRITES: microseconds that each large write() takes longer.
 * TROUBLE_CLOCK: a file of CLOCKS signed numbers of 64 bits, seconds by which the clock of the day is wrong on a host: the
 * one at the sum of the bytes of its name, modulo CLOCKS. Writing to it changes the clocks at once.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SLOW_BYTES 100000
#define CLOCKS     8

static volatile sig_atomic_t hangs, flips;
static useconds_t slow_writes;
static size_t flip_bytes;                 /* 0: none */
static volatile const int64_t *clock_off; /* NULL: it is right */
static ssize_t (*send_on)(int, const struct msghdr *, int);
static int (*execute)(const void *, void *, int, const void *);
static ssize_t (*write_on)(int, const void *, size_t);
static int (*read_clock)(clockid_t, struct timespec *);

static void begin_to_hang(int number)
{
    hangs = 1;
}

static void begin_to_flip(int number)
{
    flips = 1;
}

static void hang_for_ever(void)
{
    if (getenv("TROUBLE_SLEEPS"))
        sleep(1000000);
    while (hangs)
        ;
}

static void open_clock(const char *path)
{
    char name[256] = "";
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    const int64_t *clocks = mmap(NULL, CLOCKS * sizeof *clocks, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    gethostname(name, sizeof name - 1);
    unsigned sum = 0;
    for (const char *byte = name; *byte; byte++)
        sum += (unsigned char)*byte;
    if (clocks != MAP_FAILED)
        clock_off = clocks + sum % CLOCKS;
}

__attribute__((constructor)) static void trouble_begin(void)
{
    const char *text = getenv("TROUBLE_SLOW_WRITES");
    slow_writes = text ? (useconds_t)atoi(text) : 0;
    text = getenv("TROUBLE_FLIPS");
    flip_bytes = text ? (size_t)atoi(text) : 0;
    text = getenv("TROUBLE_CLOCK");
    if (text)
        open_clock(text);
    signal(SIGUSR2, begin_to_hang);
    signal(SIGRTMIN + 1, begin_to_flip);
}

__attribute__((visibility("default"))) int dnnl_primitive_execute(const void *primitive, void *stream, int count,
                                                                  const void *arguments);
int dnnl_primitive_execute(const void *primitive, void *stream, int count, const void *arguments)
{
    if (hangs)
        hang_for_ever();
    if (!execute)
        *(void **)&execute = dlsym(RTLD_NEXT, "dnnl_primitive_execute");
    return execute(primitive, stream, count, arguments);
}

__attribute__((visibility("default"))) ssize_t write(int descriptor, const void *bytes, size_t size)
{
    if (!write_on)
        *(void **)&write_on = dlsym(RTLD_NEXT, "write");
    if (slow_writes && size >= SLOW_BYTES)
        usleep(slow_writes);
    return write_on(descriptor, bytes, size);
}

/* The sender keeps its data as it is. */
__attribute__((visibility("default"))) ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    struct msghdr other = *message;
    struct iovec pieces[16];
    char *copy = NULL;
    if (!send_on)
        *(void **)&send_on = dlsym(RTLD_NEXT, "sendmsg");
    size_t before = 0; /* bytes, up to the one that is damaged */
    for (size_t i = 0; flip_bytes && flips && !copy && i < message->msg_iovlen && message->msg_iovlen <= 16; i++) {
        if (message->msg_iov[i].iov_len < flip_bytes) {
            before += message->msg_iov[i].iov_len;
            continue;
        }
        memcpy(pieces, message->msg_iov, message->msg_iovlen * sizeof *pieces);
        copy = malloc(pieces[i].iov_len);
        memcpy(copy, pieces[i].iov_base, pieces[i].iov_len);
        copy[pieces[i].iov_len / 2] ^= 4;
        pieces[i].iov_base = copy;
        other.msg_iov = pieces;
        before += pieces[i].iov_len / 2;
    }
    const ssize_t sent = send_on(socket, &other, flags);
    if (copy && sent > (ssize_t)before) /* otherwise it is sent again, undamaged */
        flips = 0;
    free(copy);
    return sent;
}

__attribute__((visibility("default"))) ssize_t sendto(int socket, const void *bytes, size_t size, int flags,
                                                      const struct sockaddr *address, socklen_t address_size)
{
    struct iovec piece = {(void *)(uintptr_t)bytes, size};
    const struct msghdr message = {
        .msg_name = (void *)(uintptr_t)address, .msg_namelen = address_size, .msg_iov = &piece, .msg_iovlen = 1};
    return sendmsg(socket, &message, flags);
}

__attribute__((visibility("default"))) ssize_t send(int socket, const void *bytes, size_t size, int flags)
{
    return sendto(socket, bytes, size, flags, NULL, 0);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!read_clock)
        *(void **)&read_clock = dlsym(RTLD_NEXT, "clock_gettime");
    const int result = read_clock(clock, now);
    if (clock == CLOCK_REALTIME && clock_off && result == 0)
        now->tv_sec += *clock_off;
    return result;
}

__attribute__((visibility("default"))) time_t time(time_t *place)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    if (place)
        *place = now.tv_sec;
    return now.tv_sec;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec fine = {0};
    const int result = clock_gettime(CLOCK_REALTIME, &fine);
    *now = (struct timeval){fine.tv_sec, fine.tv_nsec / 1000};
    return result;
}
