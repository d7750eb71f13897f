/* SPDX-License-Identifier: Apache-2.0 */
/* Operations with a list of tensors: one for each rank. */
#include "process_group.h"

namespace weft_torch
{

using c10d::OpType;

static Tensors joined(const std::vector<Tensors> &lists)
{
    Tensors all;
    for (const auto &list : lists)
        all.insert(all.end(), list.begin(), list.end());
    return all;
}

/* The only list of a rank that must have one. */
static const Tensors &only_list(const std::vector<Tensors> &lists, const char *operation)
{
    if (lists.size() != 1)
        refuse(operation, "a rank passes one list of tensors, since it is one device; " + std::to_string(lists.size()) +
                              " were given");
    return lists[0];
}

static void start_allgather(WeftWork &work, weft_comm *comm, const Tensors &outputs, const at::Tensor &input)
{
    const Elements elements = moved(input);
    const void *from = input_of(work, input);
    void *to = outputs_of(work, outputs);
    work.start([&](weft_request **request) {
        return weft_allgather_start(from, to, elements.count, elements.type, comm, request);
    });
}

WorkPointer WeftProcessGroup::allgather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::AllgatherOptions &)
{
    const at::Tensor &input = single(inputs, "allgather");
    const Tensors &list = only_list(outputs, "allgather");
    check_list(list, size_, input, true, "allgather");
    return operation(OpType::ALLGATHER, "weft:all_gather", inputs, list,
                     [&](WeftWork &work, weft_comm *comm) { start_allgather(work, comm, list, input); });
}

/* outputs[r][i] gets tensor i of rank r. */
WorkPointer WeftProcessGroup::allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                                  const c10d::AllgatherOptions &)
{
    if ((int)outputs.size() != size_)
        refuse("allgather_coalesced", "there must be a list of outputs for each of the " + std::to_string(size_) +
                                          " ranks; there are " + std::to_string(outputs.size()));
    for (const auto &list : outputs)
        if (list.size() != inputs.size())
            refuse("allgather_coalesced", std::to_string(inputs.size()) +
                                              " inputs need lists of as many outputs; one has " +
                                              std::to_string(list.size()));
    std::vector<Tensors> of_input(inputs.size());
    for (size_t i = 0; i < inputs.size(); i++) {
        check_tensor(inputs[i], "allgather_coalesced");
        for (const auto &list : outputs)
            of_input[i].push_back(list[i]);
        check_list(of_input[i], size_, inputs[i], true, "allgather_coalesced");
    }
    return operation(OpType::ALLGATHER_COALESCED, "weft:all_gather_coalesced", inputs, joined(outputs),
                     [&](WeftWork &work, weft_comm *comm) {
                         for (size_t i = 0; i < inputs.size(); i++)
                             start_allgather(work, comm, of_input[i], inputs[i]);
                     });
}

WorkPointer WeftProcessGroup::gather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::GatherOptions &options)
{
    const at::Tensor &input = single(inputs, "gather");
    check_root(options.rootRank, 0, "gather");
    const bool gets = rank_ == options.rootRank;
    if (gets)
        check_list(only_list(outputs, "gather"), size_, input, true, "gather");
    else if (!joined(outputs).empty())
        refuse("gather", "only the root, rank " + std::to_string(options.rootRank) + ", passes outputs");
    const Elements elements = moved(input);
    return operation(OpType::GATHER, "weft:gather", inputs, joined(outputs), [&](WeftWork &work, weft_comm *comm) {
        const void *from = input_of(work, input);
        void *to = gets ? outputs_of(work, outputs[0]) : nullptr;
        work.start([&](weft_request **request) {
            return weft_gather_start(from, to, elements.count, elements.type, (int)options.rootRank, comm, request);
        });
    });
}

WorkPointer WeftProcessGroup::scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                      const c10d::ScatterOptions &options)
{
    const at::Tensor &output = single(outputs, "scatter");
    check_root(options.rootRank, 0, "scatter");
    const bool gives = rank_ == options.rootRank;
    if (gives)
        check_list(only_list(inputs, "scatter"), size_, output, true, "scatter");
    else if (!joined(inputs).empty())
        refuse("scatter", "only the root, rank " + std::to_string(options.rootRank) + ", passes inputs");
    const Elements elements = moved(output);
    return operation(OpType::SCATTER, "weft:scatter", joined(inputs), outputs, [&](WeftWork &work, weft_comm *comm) {
        const void *from = gives ? inputs_of(work, inputs[0]) : nullptr;
        void *to = output_of(work, output);
        work.start([&](weft_request **request) {
            return weft_scatter_start(from, to, elements.count, elements.type, (int)options.rootRank, comm, request);
        });
    });
}

WorkPointer WeftProcessGroup::reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                             const c10d::ReduceScatterOptions &options)
{
    const at::Tensor &output = single(outputs, "reduce_scatter");
    const Tensors &list = only_list(inputs, "reduce_scatter");
    check_list(list, size_, output, true, "reduce_scatter");
    const Elements elements = reduced(output, "reduce_scatter");
    const weft_op op = reduction_of(options.reduceOp, output.scalar_type(), "reduce_scatter");
    return operation(
        OpType::REDUCE_SCATTER, "weft:reduce_scatter", list, outputs, [&](WeftWork &work, weft_comm *comm) {
            const void *from = inputs_of(work, list);
            void *to = output_of(work, output);
            work.start([&](weft_request **request) {
                return weft_reduce_scatter_start(from, to, elements.count, elements.type, op, comm, request);
            });
        });
}

/* The elements of each tensor. */
static std::shared_ptr<std::vector<size_t>> counts_of_list(const Tensors &tensors)
{
    auto counts = std::make_shared<std::vector<size_t>>();
    for (const auto &tensor : tensors)
        counts->push_back(moved(tensor).count);
    return counts;
}

WorkPointer WeftProcessGroup::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &)
{
    if (inputs.empty() || outputs.empty())
        refuse("alltoall", "the lists must have a tensor for each rank");
    check_tensor(inputs[0], "alltoall");
    check_list(inputs, size_, inputs[0], false, "alltoall");
    check_list(outputs, size_, inputs[0], false, "alltoall");
    const auto sent = counts_of_list(inputs), received = counts_of_list(outputs);
    const weft_type type = moved(inputs[0]).type;
    return operation(OpType::ALLTOALL, "weft:all_to_all", inputs, outputs, [&](WeftWork &work, weft_comm *comm) {
        const void *from = inputs_of(work, inputs);
        void *to = outputs_of(work, outputs);
        work.at_end([sent, received] {}); /* keeps them */
        work.start([&](weft_request **request) {
            return weft_alltoallv_start(from, sent->data(), nullptr, to, received->data(), nullptr, type, comm,
                                        request);
        });
    });
}

} // namespace weft_torch
