/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The process group of the backend "weft": torch.distributed's operations on libweft's.
 *
 * An operation is checked on this rank, started as requests of libweft and returned as a WeftWork. Errors of this rank
 * are thrown at once; what other ranks or the network cause is thrown when it is waited for. Either has libweft's
 * message and is a RuntimeError in Python.
 */
#ifndef WEFT_TORCH_PROCESS_GROUP_H
#define WEFT_TORCH_PROCESS_GROUP_H

#include "tensors.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace weft_torch
{

using WorkPointer = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

class WeftProcessGroup final : public c10d::ProcessGroup
{
  public:
    /** `ranks` are those of the world, ascending; `store` is the group's own, for monitoredBarrier(). */
    WeftProcessGroup(weft_context *context, const std::vector<int> &ranks, int rank,
                     c10::intrusive_ptr<c10d::Store> store, double time_limit);

    const std::string getBackendName() const override
    {
        return "weft";
    }

    /* process_group.cpp: a tensor on each rank */
    WorkPointer broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
    WorkPointer allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    WorkPointer allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) override;
    WorkPointer reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
    WorkPointer _allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options) override;
    WorkPointer _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                     const c10d::ReduceScatterOptions &options) override;
    WorkPointer alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                              std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &options) override;
    WorkPointer send(Tensors &tensors, int destination, int tag) override;
    WorkPointer recv(Tensors &tensors, int source, int tag) override;
    WorkPointer recvAnysource(Tensors &tensors, int tag) override;
    WorkPointer barrier(const c10d::BarrierOptions &options) override;

    /* lists.cpp: a tensor for each rank */
    WorkPointer allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                          const c10d::AllgatherOptions &options) override;
    WorkPointer allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                    const c10d::AllgatherOptions &options) override;
    WorkPointer gather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::GatherOptions &options) override;
    WorkPointer scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ScatterOptions &options) override;
    WorkPointer reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                               const c10d::ReduceScatterOptions &options) override;
    WorkPointer alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) override;

    /* monitored_barrier.cpp */
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) override;

    /** Sums in the canonical order on any placement of ranks; all ranks call it between the same operations. */
    void set_reproducible(bool reproducible);

    const std::shared_ptr<Channel> &channel() const
    {
        return channel_;
    }

  private:
    /**
     * Make an operation: issue(work) checks arguments and starts requests. If it throws before the first request has
     * started, nothing has happened.
     */
    template <typename Issue>
    WorkPointer operation(c10d::OpType type, const char *title, const Tensors &inputs, Tensors outputs, Issue &&issue)
    {
        at::NoGradGuard no_gradients;
        weft_comm *comm = channel_->comm();
        auto work = c10::make_intrusive<WeftWork>(channel_, rank_, type, title, inputs, std::move(outputs));
        channel_->add(work);
        try {
            issue(*work, comm);
        } catch (...) {
            if (!work->has_started())
                channel_->remove(*work);
            throw;
        }
        return work;
    }
    void check_root(int64_t root, int64_t root_tensor, const char *operation) const;

    const std::shared_ptr<Channel> channel_;
    const c10::intrusive_ptr<c10d::Store> store_;
    int barriers_ = 0; /* monitored ones */
};

} // namespace weft_torch

#endif
