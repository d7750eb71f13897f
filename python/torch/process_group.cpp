/* SPDX-License-Identifier: Apache-2.0 */
/* The process group, and the operations that take a tensor on each rank. */
#include "process_group.h"

#include "buckets.h"

#include <ATen/ATen.h>

namespace weft_torch
{

using c10d::OpType;

WeftProcessGroup::WeftProcessGroup(weft_context *context, const std::vector<int> &ranks, int rank,
                                   c10::intrusive_ptr<c10d::Store> store, double time_limit)
    : c10d::ProcessGroup(rank, (int)ranks.size()), channel_(Channel::open(context, ranks, time_limit)),
      store_(std::move(store))
{
    init();
}

void WeftProcessGroup::set_reproducible(bool reproducible)
{
    check(weft_comm_set_reproducible(channel_->comm(), reproducible), channel_->context());
}

void WeftProcessGroup::check_root(int64_t root, int64_t root_tensor, const char *operation) const
{
    if (root < 0 || root >= size_)
        refuse(operation,
               "there is no rank " + std::to_string(root) + "; the group has ranks 0 to " + std::to_string(size_ - 1));
    if (root_tensor != 0)
        refuse(operation, "a rank passes one tensor, so there is no tensor " + std::to_string(root_tensor));
}

/* ---- collectives ---- */

WorkPointer WeftProcessGroup::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options)
{
    const at::Tensor &tensor = single(tensors, "broadcast");
    check_root(options.rootRank, options.rootTensor, "broadcast");
    const Elements elements = moved(tensor);
    return operation(OpType::BROADCAST, "weft:broadcast", tensors, tensors, [&](WeftWork &work, weft_comm *comm) {
        void *data = in_place(work, tensor);
        work.start([&](weft_request **request) {
            return weft_broadcast_start(data, elements.count, elements.type, (int)options.rootRank, comm, request);
        });
    });
}

WorkPointer WeftProcessGroup::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options)
{
    const at::Tensor &tensor = single(tensors, "allreduce");
    const Elements elements = reduced(tensor, "allreduce");
    const weft_op op = reduction_of(options.reduceOp, tensor.scalar_type(), "allreduce");
    return operation(OpType::ALLREDUCE, "weft:all_reduce", tensors, tensors, [&](WeftWork &work, weft_comm *comm) {
        buckets_take(channel_->context(), tensor);
        void *data = in_place(work, tensor);
        work.start([&](weft_request **request) {
            return weft_allreduce_start(data, data, elements.count, elements.type, op, comm, request);
        });
    });
}

WorkPointer WeftProcessGroup::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options)
{
    std::vector<weft_op> ops;
    for (const auto &tensor : tensors) {
        check_tensor(tensor, "allreduce_coalesced");
        reduced(tensor, "allreduce_coalesced");
        ops.push_back(reduction_of(options.reduceOp, tensor.scalar_type(), "allreduce_coalesced"));
    }
    return operation(OpType::ALLREDUCE_COALESCED, "weft:all_reduce_coalesced", tensors, tensors,
                     [&](WeftWork &work, weft_comm *comm) {
                         for (size_t i = 0; i < tensors.size(); i++) {
                             const Elements elements = reduced(tensors[i], "allreduce_coalesced");
                             void *data = in_place(work, tensors[i]);
                             work.start([&](weft_request **request) {
                                 return weft_allreduce_start(data, data, elements.count, elements.type, ops[i], comm,
                                                             request);
                             });
                         }
                     });
}

WorkPointer WeftProcessGroup::reduce(Tensors &tensors, const c10d::ReduceOptions &options)
{
    const at::Tensor &tensor = single(tensors, "reduce");
    check_root(options.rootRank, options.rootTensor, "reduce");
    const Elements elements = reduced(tensor, "reduce");
    const weft_op op = reduction_of(options.reduceOp, tensor.scalar_type(), "reduce");
    return operation(OpType::REDUCE, "weft:reduce", tensors, tensors, [&](WeftWork &work, weft_comm *comm) {
        const bool gets = rank_ == options.rootRank;
        void *data = gets ? in_place(work, tensor) : input_of(work, tensor);
        work.start([&](weft_request **request) {
            return weft_reduce_start(data, gets ? data : nullptr, elements.count, elements.type, op,
                                     (int)options.rootRank, comm, request);
        });
    });
}

/* Check that one tensor has as many elements as `size` of the other, of its type. */
static void check_blocks(const at::Tensor &whole, const at::Tensor &block, int size, const char *operation)
{
    check_tensor(whole, operation);
    check_tensor(block, operation);
    if (whole.scalar_type() != block.scalar_type() || whole.numel() != block.numel() * size)
        refuse(operation, "a rank's block has " + std::to_string(block.numel()) + " elements of type " +
                              c10::toString(block.scalar_type()) + ", so the tensor of all " + std::to_string(size) +
                              " must have " + std::to_string(block.numel() * size) + "; it has " +
                              std::to_string(whole.numel()) + " of type " + c10::toString(whole.scalar_type()));
}

WorkPointer WeftProcessGroup::_allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &)
{
    check_blocks(output, input, size_, "_allgather_base");
    const Elements elements = moved(input);
    return operation(OpType::_ALLGATHER_BASE, "weft:_all_gather_base", {input}, {output},
                     [&](WeftWork &work, weft_comm *comm) {
                         const void *from = input_of(work, input);
                         void *to = output_of(work, output);
                         work.start([&](weft_request **request) {
                             return weft_allgather_start(from, to, elements.count, elements.type, comm, request);
                         });
                     });
}

WorkPointer WeftProcessGroup::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                                   const c10d::ReduceScatterOptions &options)
{
    check_blocks(input, output, size_, "_reduce_scatter_base");
    const Elements elements = reduced(output, "_reduce_scatter_base");
    const weft_op op = reduction_of(options.reduceOp, output.scalar_type(), "_reduce_scatter_base");
    return operation(OpType::_REDUCE_SCATTER_BASE, "weft:_reduce_scatter_base", {input}, {output},
                     [&](WeftWork &work, weft_comm *comm) {
                         const void *from = input_of(work, input);
                         void *to = output_of(work, output);
                         work.start([&](weft_request **request) {
                             return weft_reduce_scatter_start(from, to, elements.count, elements.type, op, comm,
                                                              request);
                         });
                     });
}

/* ---- all-to-all ---- */

/* The elements for each rank, from the numbers of rows; no numbers: an equal share of all rows. */
static std::vector<size_t> counts_of(const at::Tensor &tensor, const std::vector<int64_t> &splits, int size,
                                     const char *which)
{
    const size_t all = moved(tensor).count;
    const int64_t rows = tensor.dim() ? tensor.size(0) : 1;
    std::vector<size_t> counts;
    int64_t sum = 0;
    bool valid = true;
    if (splits.empty()) {
        if (rows % size != 0)
            refuse("alltoall_base", std::string("the ") + which + " has " + std::to_string(rows) +
                                        " rows, which cannot be divided among " + std::to_string(size) +
                                        " ranks: pass split sizes");
        return std::vector<size_t>(size, all / size);
    }
    for (const int64_t split : splits) {
        sum += split;
        valid &= split >= 0;
        counts.push_back(rows ? split * (all / rows) : 0);
    }
    if (!valid || (int)splits.size() != size || sum != rows)
        refuse("alltoall_base", std::string("the split sizes of the ") + which + " must be " + std::to_string(size) +
                                    " numbers from 0 on that add up to its " + std::to_string(rows) + " rows");
    return counts;
}

WorkPointer WeftProcessGroup::alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_splits,
                                            std::vector<int64_t> &input_splits, const c10d::AllToAllOptions &)
{
    check_tensor(output, "alltoall_base");
    check_tensor(input, "alltoall_base");
    if (output.scalar_type() != input.scalar_type())
        refuse("alltoall_base", std::string("the input is of type ") + c10::toString(input.scalar_type()) +
                                    ", the output of type " + c10::toString(output.scalar_type()));
    const bool equal = output_splits.empty() && input_splits.empty();
    auto sent = std::make_shared<std::vector<size_t>>(counts_of(input, input_splits, size_, "input"));
    auto received = std::make_shared<std::vector<size_t>>(counts_of(output, output_splits, size_, "output"));
    if (equal && input.numel() != output.numel())
        refuse("alltoall_base", "the input has " + std::to_string(input.numel()) + " elements, the output " +
                                    std::to_string(output.numel()) + ": pass split sizes");
    const weft_type type = moved(input).type;
    return operation(OpType::ALLTOALL_BASE, "weft:all_to_all", {input}, {output}, [&](WeftWork &work, weft_comm *comm) {
        const void *from = input_of(work, input);
        void *to = output_of(work, output);
        work.at_end([sent, received] {}); /* keeps them */
        work.start([&](weft_request **request) {
            if (equal)
                return weft_alltoall_start(from, to, sent->front(), type, comm, request);
            return weft_alltoallv_start(from, sent->data(), nullptr, to, received->data(), nullptr, type, comm,
                                        request);
        });
    });
}

/* ---- messages ---- */

static void check_tag(int tag, const char *operation)
{
    if (tag != 0)
        refuse(operation, "tag " + std::to_string(tag) +
                              ": the backend weft has no tags other than 0; messages "
                              "between two ranks of a group arrive in the order in which they are sent");
}

WorkPointer WeftProcessGroup::send(Tensors &tensors, int destination, int tag)
{
    const at::Tensor &tensor = single(tensors, "send");
    check_tag(tag, "send");
    const Elements elements = moved(tensor);
    return operation(OpType::SEND, "weft:send", tensors, {}, [&](WeftWork &work, weft_comm *comm) {
        const void *data = input_of(work, tensor);
        work.start([&](weft_request **request) {
            return weft_send_start(data, elements.count, elements.type, destination, comm, request);
        });
    });
}

WorkPointer WeftProcessGroup::recv(Tensors &tensors, int source, int tag)
{
    const at::Tensor &tensor = single(tensors, "recv");
    check_tag(tag, "recv");
    const Elements elements = moved(tensor);
    return operation(OpType::RECV, "weft:recv", {}, tensors, [&](WeftWork &work, weft_comm *comm) {
        void *data = output_of(work, tensor);
        work.start([&](weft_request **request) {
            return weft_receive_start(data, elements.count, elements.type, source, comm, request);
        });
    });
}

WorkPointer WeftProcessGroup::recvAnysource(Tensors &, int)
{
    refuse("recv",
           "the backend weft receives only from a rank that is named: pass src=, or gather what the ranks have");
}

WorkPointer WeftProcessGroup::barrier(const c10d::BarrierOptions &)
{
    return operation(OpType::BARRIER, "weft:barrier", {}, {}, [&](WeftWork &work, weft_comm *comm) {
        work.start([&](weft_request **request) { return weft_barrier_start(comm, request); });
    });
}

} // namespace weft_torch
