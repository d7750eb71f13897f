/* SPDX-License-Identifier: Apache-2.0 */
/**
 * An operation: libweft's requests, the tensors that they use, and what is done with the results.
 *
 * Only one thread may wait for a request of libweft. It is the one that *claims* the operation: the first that calls
 * wait(), or the channel's thread if a future was asked for first. Others wait for that thread.
 */
#ifndef WEFT_TORCH_WORK_H
#define WEFT_TORCH_WORK_H

#include "channel.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <functional>

namespace weft_torch
{

class WeftWork final : public c10d::Work
{
  public:
    /** `inputs` are kept until the end, `outputs` are the result. `title` is what the profiler shows. */
    WeftWork(std::shared_ptr<Channel> channel, int rank, c10d::OpType type, const char *title,
             const std::vector<at::Tensor> &inputs, std::vector<at::Tensor> outputs);

    bool isCompleted() override;
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    std::vector<at::Tensor> result() override;

    /* While it is made, by one thread. */

    /** Add a request: start(&request) starts it, unless it throws. */
    template <typename Start> void start(Start &&start_request)
    {
        weft_request *request = nullptr;
        check(start_request(&request), channel_->context());
        requests_.push_back(request);
    }
    /** Memory that the requests use. */
    void keep(at::Tensor tensor)
    {
        kept_.push_back(std::move(tensor));
    }
    /** Done once all requests have succeeded, before the operation counts as completed. */
    void at_end(std::function<void()> action)
    {
        actions_.push_back(std::move(action));
    }
    bool has_started() const
    {
        return !requests_.empty();
    }

    /* For the channel. */

    /** By the thread that has claimed it: wait for the requests, and complete it. */
    void complete();
    /** Wait for the end, however it is; returns its failure, or NULL. */
    std::exception_ptr wait_for_end();
    Works::iterator place; /* in the channel's list, guarded by its lock */
    bool listed = false;

  private:
    bool claim(std::unique_lock<std::mutex> &lock);
    bool have_ended();
    bool wait_until(std::chrono::steady_clock::time_point end);
    void complete_future();

    const std::shared_ptr<Channel> channel_; /* first: destroyed last */
    std::vector<weft_request *> requests_;
    std::vector<at::Tensor> kept_;
    std::vector<at::Tensor> outputs_;
    std::vector<std::function<void()>> actions_;
    bool claimed_ = false; /* guarded by the base's mutex, as the following */
    c10::intrusive_ptr<c10::ivalue::Future> future_;
    bool future_is_complete_ = false;
    bool queued_ = false; /* for the channel's thread */
};

} // namespace weft_torch

#endif
