/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/background.h"

#include "base/thread.h"

#include <stdlib.h>
#include <string.h>

struct task {
    struct task *next;
    struct background *background;
    struct route_call *call; /* NULL: `function` is to be called */
    route_work *work;
    route_done *done;
    void (*function)(void *context);
    void *context;
    struct http_posted posted;
    struct json_writer answer;
    weft_status status;
    struct error error;
};

struct background {
    struct http_server *server;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t come;
    struct task *first, **last;
    unsigned waiting, waiting_most, threads;
    bool stopping;
    pthread_t thread[BACKGROUND_THREADS_MOST];
};

static void free_task(struct task *task)
{
    if (task->call)
        json_end(&task->answer);
    free(task);
}

/* On the HTTP server's thread. */
static void background_answer(void *context)
{
    struct task *task = context;
    if (task->done)
        task->done(task->call, task->status, &task->error);
    else
        route_answer(task->call, task->status, &task->answer, &task->error);
    free_task(task);
}

static void background_finish(struct task *task)
{
    if (!task->call || !http_post(task->background->server, &task->posted, background_answer, task))
        free_task(task);
}

static struct task *background_take(struct background *background)
{
    struct task *task;
    pthread_mutex_lock(&background->lock);
    while (!background->first && !background->stopping)
        pthread_cond_wait(&background->come, &background->lock);
    task = background->stopping ? NULL : background->first;
    if (task && !(background->first = task->next))
        background->last = &background->first;
    background->waiting -= task != NULL;
    pthread_mutex_unlock(&background->lock);
    return task;
}

static void *background_serve(void *context)
{
    struct task *task;
    while ((task = background_take(context))) {
        if (task->call)
            task->status = task->work(task->call, &task->answer, &task->error);
        else
            task->function(task->context);
        background_finish(task);
    }
    return NULL;
}

static bool background_add(struct background *background, const struct task *wanted)
{
    struct task *task = calloc(1, sizeof *task);
    if (!task)
        return false;
    *task = *wanted;
    task->background = background;
    if (task->call)
        json_begin(&task->answer, JSON_LINE);
    pthread_mutex_lock(&background->lock);
    bool taken = !background->stopping && background->waiting < background->waiting_most;
    if (taken) {
        *background->last = task;
        background->last = &task->next;
        background->waiting++;
        pthread_cond_signal(&background->come);
    }
    pthread_mutex_unlock(&background->lock);
    if (!taken)
        free_task(task);
    return taken;
}

void background_do(struct background *background, struct route_call *call, route_work *work, route_done *done)
{
    if (!background_add(background, &(struct task){.call = call, .work = work, .done = done}))
        http_fail(call->request, 503, "the server has too much of this to do at the moment: ask again later");
}

bool background_run(struct background *background, void (*function)(void *context), void *context)
{
    return background_add(background, &(struct task){.function = function, .context = context});
}

weft_status background_open(struct http_server *server, unsigned threads, unsigned waiting_most,
                            struct background **background, struct error *error)
{
    struct background *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "threads for requests");
    *made = (struct background){.server = server, .waiting_most = waiting_most};
    made->last = &made->first;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->come, NULL);
    int code = 0;
    while (code == 0 && made->threads < threads && made->threads < BACKGROUND_THREADS_MOST)
        if ((code = thread_start(&made->thread[made->threads], background_serve, made)) == 0)
            made->threads++;
    if (code != 0) {
        background_close(made);
        return error_set(error, WEFT_ERROR_SYSTEM, "cannot start a thread for requests: %s", strerror(code));
    }
    *background = made;
    return WEFT_OK;
}

void background_stop(struct background *background)
{
    if (!background)
        return;
    pthread_mutex_lock(&background->lock);
    background->stopping = true;
    pthread_cond_broadcast(&background->come);
    pthread_mutex_unlock(&background->lock);
    for (unsigned i = 0; i < background->threads; i++)
        pthread_join(background->thread[i], NULL);
    background->threads = 0;
    for (struct task *task = background->first, *next; task; task = next) {
        next = task->next;
        task->status = error_set(&task->error, WEFT_ERROR_SYSTEM, "the server is stopping: ask again when it is back");
        background_finish(task);
    }
    background->first = NULL;
    background->last = &background->first;
}

void background_close(struct background *background)
{
    if (!background)
        return;
    background_stop(background);
    pthread_cond_destroy(&background->come);
    pthread_mutex_destroy(&background->lock);
    free(background);
}
