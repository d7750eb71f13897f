/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into ranks of a training, it gives them trouble that has nothing to do with Weft.
 *
 * SIGUSR2: the next product of matrices never ends; with TROUBLE_SLEEPS in the environment it sleeps for ever instead.
 * TROUBLE_SLOW_WRITES: microseconds that each large write() takes longer.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define SLOW_BYTES 100000

static volatile sig_atomic_t hangs;
static useconds_t slow_writes;
static int (*execute)(const void *, void *, int, const void *);
static ssize_t (*write_on)(int, const void *, size_t);

static void begin_to_hang(int number)
{
    hangs = 1;
}

static void hang_for_ever(void)
{
    if (getenv("TROUBLE_SLEEPS"))
        sleep(1000000);
    while (hangs)
        ;
}

__attribute__((constructor)) static void trouble_begin(void)
{
    const char *text = getenv("TROUBLE_SLOW_WRITES");
    slow_writes = text ? (useconds_t)atoi(text) : 0;
    signal(SIGUSR2, begin_to_hang);
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
