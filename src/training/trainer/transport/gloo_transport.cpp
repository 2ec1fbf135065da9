#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>
#include <vector>

#include "training/trainer/transport/compat_store.h"
#include "training/trainer/transport/transport.h"

// c10d's Gloo in the form that the libtorch at hand has.
namespace lowgear::trainer::compat {

using GlooGroup = c10d::ProcessGroupGloo;
using GlooGroupPointer = c10::intrusive_ptr<GlooGroup>;

inline GlooGroupPointer make_gloo_group(const StorePointer& store, const std::string& name, int rank, int size,
                                        std::chrono::seconds timeout) {
  auto options = GlooGroup::Options::create();
  options->timeout = timeout;
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices.push_back(interface != nullptr ? GlooGroup::createDeviceForInterface(interface)
                                                  : GlooGroup::createDefaultDevice());
  return c10::make_intrusive<GlooGroup>(prefixed(store, name), rank, size, options);
}

}  // namespace lowgear::trainer::compat

namespace lowgear::trainer {
namespace {

using compat::GlooGroup;
using compat::start_transfer;
using compat::StorePointer;
using compat::translate_errors;

/// The ranks of one pipeline among all ranks of the job.
class GlooPipeline final : public PointToPoint {
 public:
  GlooPipeline(compat::GlooGroupPointer world, std::vector<int> members)
      : world_(std::move(world)), members_(std::move(members)) {}

  std::unique_ptr<PendingTransfer> send(const at::Tensor& tensor, int peer) override {
    return start(
        peer, [&](std::vector<at::Tensor>& tensors, int rank) { return world_->send(tensors, rank, 0); }, tensor);
  }
  std::unique_ptr<PendingTransfer> receive(const at::Tensor& tensor, int peer) override {
    return start(
        peer, [&](std::vector<at::Tensor>& tensors, int rank) { return world_->recv(tensors, rank, 0); }, tensor);
  }

 private:
  template <typename Call>
  std::unique_ptr<PendingTransfer> start(int peer, Call&& call, const at::Tensor& tensor) {
    const int rank = members_.at(static_cast<std::size_t>(peer));
    std::vector<at::Tensor> tensors = {tensor};
    return start_transfer(fmt::format("rank {}", rank), [&] { return call(tensors, rank); });
  }

  compat::GlooGroupPointer world_;
  std::vector<int> members_;
};

/// The same bits in a type that Gloo moves: it does not know bf16.
at::Tensor bits_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 ? tensor.detach().view(at::kHalf) : tensor;
}

class GlooCollective final : public Collective {
 public:
  GlooCollective(compat::GlooGroupPointer group, std::string name, int rank, int size)
      : group_(std::move(group)), name_("the " + std::move(name)), rank_(rank), size_(size) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  std::unique_ptr<PendingTransfer> start_all_reduce(const at::Tensor& tensor, Reduction reduction) override {
    // Gloo does not reduce bf16.
    const bool narrow = tensor.scalar_type() == at::kBFloat16;
    const at::Tensor buffer = narrow ? tensor.to(at::kFloat) : tensor;
    std::vector<at::Tensor> tensors = {buffer};
    std::function<void()> finish;
    if (narrow) finish = [tensor, buffer] { tensor.copy_(buffer); };
    return start_transfer(
        name_, [&] { return group_->allreduce(tensors, compat::all_reduce_options(reduction)); }, std::move(finish));
  }

  std::unique_ptr<PendingTransfer> start_reduce(const at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> tensors = {tensor};
    return start_transfer(name_, [&] { return group_->reduce(tensors, compat::reduce_options(root)); });
  }

  void all_gather(const at::Tensor& all, const at::Tensor& part) override {
    std::vector<std::vector<at::Tensor>> outputs = {bits_of(all).chunk(size_)};
    std::vector<at::Tensor> inputs = {bits_of(part)};
    translate_errors(name_, [&] { return group_->allgather(outputs, inputs)->wait(); });
  }

  /// Gloo has none: every rank sums everything.
  void reduce_scatter(const at::Tensor& part, const at::Tensor& all) override {
    all_reduce(all);
    part.copy_(all.chunk(size_)[static_cast<std::size_t>(rank_)]);
  }

  void broadcast(const at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> tensors = {bits_of(tensor)};
    translate_errors(name_, [&] { return group_->broadcast(tensors, compat::broadcast_options(root))->wait(); });
  }

 private:
  compat::GlooGroupPointer group_;
  std::string name_;
  int rank_;
  int size_;
};

/// Makes the groups of a rank. A group has its own keys in the store and its own connections.
class GroupMaker {
 public:
  GroupMaker(StorePointer store, std::chrono::seconds timeout, int rank)
      : store_(std::move(store)), timeout_(timeout), rank_(rank) {}

  [[nodiscard]] compat::GlooGroupPointer connect(const std::string& name, std::span<const int> members) const {
    const auto own = std::ranges::find(members, rank_) - members.begin();
    return translate_errors(fmt::format("the {}", name), [&] {
      return compat::make_gloo_group(store_, fmt::format("{} of rank {}", name, members.front()), static_cast<int>(own),
                                     static_cast<int>(members.size()), timeout_);
    });
  }

  [[nodiscard]] std::unique_ptr<Collective> collective(const std::string& name, std::span<const int> members) const {
    const auto own = std::ranges::find(members, rank_) - members.begin();
    return std::make_unique<GlooCollective>(connect(name, members), name, static_cast<int>(own),
                                            static_cast<int>(members.size()));
  }

 private:
  StorePointer store_;
  std::chrono::seconds timeout_;
  int rank_;
};

}  // namespace

Communicators connect_gloo(const launcher::RankLayout& layout, int rank, const Rendezvous& rendezvous,
                           std::chrono::seconds timeout) {
  const int size = layout.world_size();
  const GroupMaker maker(
      translate_errors("the rendezvous", [&] { return compat::open_store(rendezvous, rank, size, timeout); }), timeout,
      rank);
  std::vector<int> everybody(static_cast<std::size_t>(size));
  std::iota(everybody.begin(), everybody.end(), 0);
  const compat::GlooGroupPointer world = maker.connect("job", everybody);
  const std::vector<int> pipeline = layout.pipeline_of(rank);
  Communicators ranks;
  ranks.pipeline = std::make_unique<GlooPipeline>(world, pipeline);
  ranks.world = std::make_unique<GlooCollective>(world, "job", rank, size);
  ranks.data = maker.collective("data-parallel group", layout.replicas_of(rank));
  ranks.tensor = maker.collective("tensor-parallel group", layout.tensor_group_of(rank));
  if (const std::vector<int> ends = layout.tied_group_of(rank); !ends.empty()) {
    ranks.tied = maker.collective("first and last stage", ends);
  }
  return ranks;
}

}  // namespace lowgear::trainer
