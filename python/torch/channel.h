/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A channel: the communicator of a process group, the operations in flight on it, and the thread that completes those
 * whose future somebody has asked for.
 *
 * An operation that is in flight is in its channel's list, which keeps it and its tensors alive: a program may drop what
 * it has started. The thread that waits for an operation finishes it (see work.h). Usually it is the one that calls
 * wait(), so that no other thread is involved. Those that wait for a future do not call this library: hence the thread.
 */
#ifndef WEFT_TORCH_CHANNEL_H
#define WEFT_TORCH_CHANNEL_H

#include <c10/util/intrusive_ptr.h>
#include <weft/weft.h>

#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace weft_torch
{

class WeftWork;
using Works = std::list<c10::intrusive_ptr<WeftWork>>;

/** Whether this process was forked from a rank: it has the rank's objects, but must not touch what ranks share. */
bool is_forked();

/** Throw std::runtime_error, RuntimeError in Python, with libweft's message if `status` is an error. */
void check(weft_status status, const weft_context *context);

class Channel
{
  public:
    /**
     * The channel of these ranks of the world, ascending; all of them call it, and no others. Operations wait at most
     * `seconds` for a rank that is alive.
     */
    static std::shared_ptr<Channel> open(weft_context *context, const std::vector<int> &ranks, double seconds);
    ~Channel();
    Channel(const Channel &) = delete;
    Channel &operator=(const Channel &) = delete;

    /** Throws if the job was left, or in a forked process. */
    weft_comm *comm() const;
    weft_context *context() const
    {
        return context_;
    }

    /** List an operation that is about to start; also finish dropped ones that have ended. */
    void add(const c10::intrusive_ptr<WeftWork> &work);
    /** Whether the caller is the channel's thread. */
    bool is_own_thread() const;
    /** It has ended: take it from the list. */
    void remove(WeftWork &work);
    /** Let the channel's thread wait for it. Operations that are given to it complete in this order. */
    void complete_elsewhere(const c10::intrusive_ptr<WeftWork> &work);

    /**
     * Close all channels, before the process leaves the job: wait for everything in flight, and free the communicators.
     * Returns the first failure of these operations, or NULL, also if the program has got a failure already.
     */
    static std::exception_ptr close_all();
    /** The program has got the failure of an operation. */
    static void note_reported();

  private:
    struct Queue;
    Channel(weft_context *context, weft_comm *comm);
    std::exception_ptr close();
    void stop_thread();
    void free_comm();
    bool sweep_one();

    weft_context *const context_;
    weft_comm *comm_;
    std::mutex mutex_; /* guards the list and the start of the thread */
    Works in_flight_;
    std::shared_ptr<Queue> queue_; /* of the thread, which may outlive the channel for a short time */
    std::unique_ptr<std::thread> thread_;
};

} // namespace weft_torch

#endif
