/* SPDX-License-Identifier: Apache-2.0 */
#include "channel.h"

#include "work.h"

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <pthread.h>
#include <stdexcept>

namespace weft_torch
{

void check(weft_status status, const weft_context *context)
{
    if (status != WEFT_OK)
        throw std::runtime_error(weft_message(context));
}

/* Communicators are made and freed one at a time. Channels that are open, to be closed before the job is left. */
static std::mutex channels_mutex;
static std::vector<std::weak_ptr<Channel>> channels;
static std::atomic<bool> reported;

static bool forked;
static const int fork_is_watched = pthread_atfork(nullptr, nullptr, [] { forked = true; });

bool is_forked()
{
    return fork_is_watched == 0 && forked;
}

/* ---- the thread ---- */

struct Channel::Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<c10::intrusive_ptr<WeftWork>> works;
    bool stopping = false;
};

/* The queue of the channel whose thread this is. */
static thread_local const void *own_queue;

void Channel::complete_elsewhere(const c10::intrusive_ptr<WeftWork> &work)
{
    if (is_own_thread()) {
        work->complete(); /* a callback of a future begins an operation, and may wait for its future at once */
        return;
    }
    std::lock_guard<std::mutex> guard(mutex_);
    if (!thread_) {
        sigset_t all, former; /* signals are for the program's own threads */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &former);
        thread_ = std::make_unique<std::thread>([queue = queue_] {
            own_queue = queue.get();
            std::unique_lock<std::mutex> lock(queue->mutex);
            for (;;) {
                queue->changed.wait(lock, [&] { return queue->stopping || !queue->works.empty(); });
                if (queue->works.empty())
                    return;
                auto next = std::move(queue->works.front());
                queue->works.pop_front();
                lock.unlock();
                next->complete();
                next.reset(); /* may free the channel */
                lock.lock();
            }
        });
        pthread_sigmask(SIG_SETMASK, &former, nullptr);
        pthread_setname_np(thread_->native_handle(), "weft-torch");
    }
    {
        std::lock_guard<std::mutex> queued(queue_->mutex);
        queue_->works.push_back(work);
    }
    queue_->changed.notify_one();
}

bool Channel::is_own_thread() const
{
    return own_queue == queue_.get();
}

void Channel::stop_thread()
{
    {
        std::lock_guard<std::mutex> queued(queue_->mutex);
        queue_->stopping = true;
    }
    queue_->changed.notify_one();
    if (!thread_)
        return;
    if (thread_->get_id() == std::this_thread::get_id())
        thread_->detach(); /* it dropped the last operation, and the channel with it */
    else
        thread_->join();
    thread_.reset();
}

/* ---- opening and closing ---- */

Channel::Channel(weft_context *context, weft_comm *comm)
    : context_(context), comm_(comm), queue_(std::make_shared<Queue>())
{
}

std::shared_ptr<Channel> Channel::open(weft_context *context, const std::vector<int> &ranks, double seconds)
{
    std::lock_guard<std::mutex> guard(channels_mutex);
    weft_comm *world = weft_world(context), *comm = nullptr;
    /* An order of operations of its own, so that the program may use weft.world() beside it. */
    if ((int)ranks.size() == weft_comm_size(world))
        check(weft_comm_duplicate(world, &comm), context);
    else
        check(weft_comm_subset(world, ranks.data(), (int)ranks.size(), &comm), context);
    std::shared_ptr<Channel> channel(new Channel(context, comm));
    check(weft_comm_set_time_limit(comm, seconds), context);
    std::vector<std::weak_ptr<Channel>> left;
    for (const auto &other : channels)
        if (!other.expired())
            left.push_back(other);
    left.push_back(channel);
    channels.swap(left);
    return channel;
}

weft_comm *Channel::comm() const
{
    if (is_forked())
        throw std::runtime_error(
            "this process was forked from a rank: only the rank itself may use its process groups; "
            "start workers with multiprocessing's method 'spawn'");
    if (!comm_)
        throw std::runtime_error("this process group ended when weft.finalize() left the job: make another with "
                                 "torch.distributed.init_process_group()");
    return comm_;
}

void Channel::free_comm()
{
    if (comm_)
        (void)weft_comm_free(comm_); /* if that fails, weft_finalize() frees it */
    comm_ = nullptr;
}

Channel::~Channel()
{
    if (is_forked()) {
        (void)thread_.release(); /* there is no such thread here */
        return;
    }
    stop_thread();
    std::lock_guard<std::mutex> guard(channels_mutex);
    free_comm();
}

std::exception_ptr Channel::close()
{
    std::exception_ptr first;
    for (;;) {
        c10::intrusive_ptr<WeftWork> work;
        {
            std::lock_guard<std::mutex> guard(mutex_);
            if (in_flight_.empty())
                break;
            work = in_flight_.front();
        }
        const auto failure = work->wait_for_end();
        if (!first)
            first = failure;
    }
    stop_thread();
    free_comm();
    return first;
}

std::exception_ptr Channel::close_all()
{
    std::vector<std::weak_ptr<Channel>> open;
    std::exception_ptr first;
    {
        std::lock_guard<std::mutex> guard(channels_mutex);
        open.swap(channels);
    }
    for (const auto &weak : open) {
        const auto channel = weak.lock();
        const auto failure = channel ? channel->close() : nullptr;
        if (!first)
            first = failure;
    }
    return reported ? nullptr : first;
}

void Channel::note_reported()
{
    reported = true;
}

/* ---- operations in flight ---- */

/* Finish the oldest operation if the program has dropped it and it has ended. Returns whether there may be more. */
bool Channel::sweep_one()
{
    c10::intrusive_ptr<WeftWork> oldest;
    {
        std::lock_guard<std::mutex> guard(mutex_);
        if (in_flight_.empty() || in_flight_.front().use_count() > 1)
            return false;
        oldest = in_flight_.front();
    }
    return oldest->isCompleted();
}

void Channel::add(const c10::intrusive_ptr<WeftWork> &work)
{
    while (sweep_one())
        ;
    std::lock_guard<std::mutex> guard(mutex_);
    work->place = in_flight_.insert(in_flight_.end(), work);
    work->listed = true;
}

void Channel::remove(WeftWork &work)
{
    c10::intrusive_ptr<WeftWork> last; /* destroyed without the lock */
    std::lock_guard<std::mutex> guard(mutex_);
    if (!work.listed)
        return;
    work.listed = false;
    last = std::move(*work.place);
    in_flight_.erase(work.place);
}

} // namespace weft_torch
