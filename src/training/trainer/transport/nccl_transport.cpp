#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>
#include <vector>

#include "training/trainer/transport/compat_store.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {
namespace {

using compat::start_transfer;
using compat::StorePointer;
using compat::translate_errors;
using GroupPointer = c10::intrusive_ptr<c10d::ProcessGroupNCCL>;

class NcclPipeline final : public PointToPoint {
 public:
  NcclPipeline(GroupPointer world, std::vector<int> members) : world_(std::move(world)), members_(std::move(members)) {}

  std::unique_ptr<PendingTransfer> send(const at::Tensor& tensor, int peer) override {
    const int rank = members_.at(static_cast<std::size_t>(peer));
    std::vector<at::Tensor> tensors = {tensor};
    return started(rank, [&] { return world_->send(tensors, rank, 0); });
  }
  std::unique_ptr<PendingTransfer> receive(const at::Tensor& tensor, int peer) override {
    const int rank = members_.at(static_cast<std::size_t>(peer));
    std::vector<at::Tensor> tensors = {tensor};
    return started(rank, [&] { return world_->recv(tensors, rank, 0); });
  }

 private:
  template <typename Call>
  static std::unique_ptr<PendingTransfer> started(int rank, Call&& call) {
    return start_transfer(fmt::format("rank {}", rank), std::forward<Call>(call));
  }

  GroupPointer world_;
  std::vector<int> members_;
};

class NcclCollective final : public Collective {
 public:
  NcclCollective(GroupPointer group, std::string name, int rank, int size, at::Device device)
      : group_(std::move(group)), name_("the " + std::move(name)), rank_(rank), size_(size), device_(device) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  std::unique_ptr<PendingTransfer> start_all_reduce(const at::Tensor& tensor, Reduction reduction) override {
    const at::Tensor buffer = tensor.to(device_);
    std::vector<at::Tensor> tensors = {buffer};
    std::function<void()> finish;
    if (!buffer.is_same(tensor)) finish = [tensor, buffer] { tensor.copy_(buffer); };
    return start_transfer(
        name_, [&] { return group_->allreduce(tensors, compat::all_reduce_options(reduction)); }, std::move(finish));
  }

  std::unique_ptr<PendingTransfer> start_reduce(const at::Tensor& tensor, int root) override {
    const at::Tensor buffer = tensor.to(device_);
    std::vector<at::Tensor> tensors = {buffer};
    std::function<void()> finish;
    if (!buffer.is_same(tensor)) finish = [tensor, buffer] { tensor.copy_(buffer); };
    return start_transfer(
        name_, [&] { return group_->reduce(tensors, compat::reduce_options(root)); }, std::move(finish));
  }

  void all_gather(const at::Tensor& all, const at::Tensor& part) override {
    at::Tensor gathered = all.to(device_);
    at::Tensor own = part.to(device_);
    translate_errors(name_, [&] { return group_->_allgather_base(gathered, own)->wait(); });
    if (!gathered.is_same(all)) all.copy_(gathered);
  }

  void reduce_scatter(const at::Tensor& part, const at::Tensor& all) override {
    at::Tensor own = part.to(device_);
    at::Tensor given = all.to(device_);
    translate_errors(name_, [&] { return group_->_reduce_scatter_base(own, given)->wait(); });
    if (!own.is_same(part)) part.copy_(own);
  }

  void broadcast(const at::Tensor& tensor, int root) override {
    const at::Tensor buffer = tensor.to(device_);
    std::vector<at::Tensor> tensors = {buffer};
    translate_errors(name_, [&] { return group_->broadcast(tensors, compat::broadcast_options(root))->wait(); });
    if (!buffer.is_same(tensor)) tensor.copy_(buffer);
  }

 private:
  GroupPointer group_;
  std::string name_;
  int rank_;
  int size_;
  at::Device device_;
};

class GroupMaker {
 public:
  GroupMaker(StorePointer store, std::chrono::seconds timeout, int rank, int device)
      : store_(std::move(store)),
        timeout_(timeout),
        rank_(rank),
        device_(at::kCUDA, static_cast<c10::DeviceIndex>(device)) {}

  [[nodiscard]] GroupPointer connect(const std::string& name, std::span<const int> members) {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = timeout_;
    return groups_.emplace_back(translate_errors("the " + name, [&] {
      return c10::make_intrusive<c10d::ProcessGroupNCCL>(
          compat::prefixed(store_, fmt::format("{} of rank {}", name, members.front())), place_in(members),
          static_cast<int>(members.size()), options);
    }));
  }

  [[nodiscard]] std::unique_ptr<Collective> collective(const std::string& name, std::span<const int> members) {
    return std::make_unique<NcclCollective>(connect(name, members), name, place_in(members),
                                            static_cast<int>(members.size()), device_);
  }
  /// All that were made.
  [[nodiscard]] const std::vector<GroupPointer>& groups() const { return groups_; }

 private:
  [[nodiscard]] int place_in(std::span<const int> members) const {
    return static_cast<int>(std::ranges::find(members, rank_) - members.begin());
  }

  StorePointer store_;
  std::chrono::seconds timeout_;
  int rank_;
  at::Device device_;
  std::vector<GroupPointer> groups_;
};

}  // namespace

Communicators connect_nccl(const launcher::RankLayout& layout, int rank, int device, const Rendezvous& rendezvous,
                           std::chrono::seconds timeout) {
  const int size = layout.world_size();
  const StorePointer store =
      translate_errors("the rendezvous", [&] { return compat::open_store(rendezvous, rank, size, timeout); });
  GroupMaker maker(store, timeout, rank, device);
  std::vector<int> everybody(static_cast<std::size_t>(size));
  std::iota(everybody.begin(), everybody.end(), 0);
  const std::vector<int> pipeline = layout.pipeline_of(rank);
  Communicators ranks;
  // Messages have a group of their own: collectives of all ranks must not wait in one queue with them.
  ranks.pipeline = std::make_unique<NcclPipeline>(maker.connect("pipelines", everybody), pipeline);
  ranks.world = maker.collective("job", everybody);
  ranks.data = maker.collective("data-parallel group", layout.replicas_of(rank));
  ranks.tensor = maker.collective("tensor-parallel group", layout.tensor_group_of(rank));
  if (const std::vector<int> ends = layout.tied_group_of(rank); !ends.empty()) {
    ranks.tied = maker.collective("first and last stage", ends);
  }
  ranks.close = [groups = maker.groups()] {
    for (const GroupPointer& group : groups) group->shutdown();
  };
  return ranks;
}

}  // namespace lowgear::trainer
