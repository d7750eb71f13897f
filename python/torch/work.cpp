/* SPDX-License-Identifier: Apache-2.0 */
#include "work.h"

#include <ATen/core/grad_mode.h>

#include <stdexcept>
#include <thread>

namespace weft_torch
{

WeftWork::WeftWork(std::shared_ptr<Channel> channel, int rank, c10d::OpType type, const char *title,
                   const std::vector<at::Tensor> &inputs, std::vector<at::Tensor> outputs)
    : c10d::Work(rank, type, title, inputs), channel_(std::move(channel)), kept_(inputs), outputs_(std::move(outputs))
{
}

/* ---- the end ---- */

void WeftWork::complete()
{
    std::exception_ptr failure;
    for (weft_request *&request : requests_)
        if (weft_wait(&request) != WEFT_OK && !failure)
            failure = std::make_exception_ptr(std::runtime_error(weft_message(channel_->context())));
    try {
        at::NoGradGuard no_gradients;
        for (const auto &action : actions_)
            if (!failure)
                action();
    } catch (...) {
        failure = std::current_exception();
    }
    actions_.clear();
    kept_.clear();
    const auto self = c10::intrusive_ptr<WeftWork>::unsafe_reclaim_from_nonowning(this);
    channel_->remove(*this);
    finish(failure);
    complete_future();
}

void WeftWork::complete_future()
{
    {
        std::lock_guard<std::mutex> guard(mutex_);
        if (!future_ || future_is_complete_)
            return;
        future_is_complete_ = true;
    }
    if (exception_)
        future_->setError(exception_);
    else
        future_->markCompleted(c10::IValue(outputs_));
}

/* Become the thread that completes it. */
bool WeftWork::claim(std::unique_lock<std::mutex> &lock)
{
    if (completed_ || claimed_)
        return false;
    claimed_ = true;
    lock.unlock();
    return true;
}

/* By the thread that has claimed it: whether all requests have ended. Errors are those of the wait that follows. */
bool WeftWork::have_ended()
{
    for (weft_request *request : requests_) {
        bool done = false;
        (void)weft_request_done(request, &done);
        if (!done)
            return false;
    }
    return true;
}

bool WeftWork::isCompleted()
{
    std::unique_lock<std::mutex> lock(mutex_);
    if (!claim(lock))
        return completed_;
    if (have_ended()) {
        complete();
        return true;
    }
    lock.lock();
    claimed_ = false;
    if (future_) { /* asked for meanwhile */
        claimed_ = queued_ = true;
        lock.unlock();
        channel_->complete_elsewhere(c10::intrusive_ptr<WeftWork>::unsafe_reclaim_from_nonowning(this));
    }
    cv_.notify_all();
    return false;
}

bool WeftWork::wait_until(std::chrono::steady_clock::time_point end)
{
    for (unsigned round = 0; !isCompleted(); round++) {
        if (std::chrono::steady_clock::now() >= end)
            return false;
        if (round < 1000)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return true;
}

bool WeftWork::wait(std::chrono::milliseconds timeout)
{
    if (timeout != kNoTimeout && !wait_until(std::chrono::steady_clock::now() + timeout))
        throw std::runtime_error("the operation has not ended within " + std::to_string(timeout.count()) +
                                 " ms; it goes on, and can be waited for again");
    if (const auto failure = wait_for_end()) {
        Channel::note_reported();
        std::rethrow_exception(failure);
    }
    return true;
}

std::exception_ptr WeftWork::wait_for_end()
{
    std::unique_lock<std::mutex> lock(mutex_);
    while (!completed_) {
        if (claim(lock)) {
            complete();
            lock.lock();
        } else if (queued_ && channel_->is_own_thread()) {
            throw std::runtime_error("a callback of a future waits for an operation that ends after the callback: wait "
                                     "for it outside of callbacks");
        } else {
            cv_.wait(lock);
        }
    }
    return exception_;
}

/* ---- results ---- */

std::vector<at::Tensor> WeftWork::result()
{
    return outputs_;
}

c10::intrusive_ptr<c10::ivalue::Future> WeftWork::getFuture()
{
    if (c10d::isP2POp(opType_))
        throw std::runtime_error("sends and receives have no future in the backend weft: call wait()");
    std::unique_lock<std::mutex> lock(mutex_);
    if (!future_)
        future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    const auto future = future_;
    if (completed_) {
        lock.unlock();
        complete_future();
    } else if (!claimed_) {
        queued_ = true;
        claim(lock);
        channel_->complete_elsewhere(c10::intrusive_ptr<WeftWork>::unsafe_reclaim_from_nonowning(this));
    }
    return future;
}

} // namespace weft_torch
