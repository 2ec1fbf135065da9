#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "training/trainer/model/parameter_store.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

struct GradientReducerOptions {
  std::int64_t bucket_elements = 0;  ///< a bucket ends with the parameter in which it reaches that many
  std::int64_t additions = 1;        ///< of an iteration to every gradient: its microbatches
  bool to_owners = false;  ///< ZeRO-1: of each 1/size() of the buffer, only the replica of that number needs the sum
};

/// Sums the gradients over the replicas of a rank, bucket by bucket (Li et al. 2020, "PyTorch Distributed", section
/// 3.2), each as soon as the iteration has added everything to it: communication runs concurrently with the rest of the
/// backward passes.
///
/// Parameters whose gradients a step leaves out are in no bucket and are not sent.
///
/// Buckets are runs of the store's flat buffer. They start in one order, which the store's layout alone decides: those
/// of matrices from the last one back, as backward passes complete them; then norms and biases; then tied parameters,
/// which a sum over stages precedes. A bucket that is complete early waits for those before it. So all replicas make
/// the same calls in the same order.
///
/// Nor can these calls hang in between messages of the pipeline, even where each of both kinds blocks all that its rank
/// does afterwards, as kernels of NCCL do that find no room together on a GPU. Replicas run the same schedule,
/// and a bucket starts at the same place of it on all: after the same addition. Take the order in which one replica
/// alone can run, which the schedule's check found for messages that block (P2pGrouping::none), and let all replicas
/// take each step of it together: every message and every sum then finds all who take part in it. The same holds for
/// sums over tensor-parallel ranks and over tied stages, which also stand at one place of every replica's program.
class GradientReducer final : public GradientObserver {
 public:
  /// Observes the store, which is allocated and, like `replicas`, outlives this. Another one is needed when the store
  /// freezes others.
  GradientReducer(ParameterStore& store, Collective& replicas, const GradientReducerOptions& options);
  ~GradientReducer() override;
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Before an iteration adds the first gradient.
  void begin();
  /// Starts each bucket that is complete by that. Throws PeerLost.
  void gradient_added(std::int64_t begin, std::int64_t count) override;
  /// Starts the remaining buckets and waits for all. Called when the iteration has added everything, and tied
  /// gradients are summed over their stages. Throws PeerLost.
  void finish();

  [[nodiscard]] std::size_t buckets() const { return buckets_.size(); }

 private:
  struct Bucket {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool held = false;         ///< until `finish`
    std::int64_t missing = 0;  ///< additions, counted by element, that this iteration has yet to make
    std::unique_ptr<PendingTransfer> sum = nullptr;
  };

  void cut();
  void cut_at_owners();
  void order();
  void start_complete();
  void start(Bucket& bucket);
  [[nodiscard]] std::int64_t owned_elements() const { return store_->gradients().numel() / replicas_->size(); }
  [[nodiscard]] std::int64_t owner_of(std::int64_t element) const { return element / owned_elements(); }

  ParameterStore* store_;
  Collective* replicas_;
  GradientReducerOptions options_;
  std::vector<Bucket> buckets_;     ///< by their place in the buffer, all that the iteration gives gradients
  std::vector<std::size_t> order_;  ///< of starting: indices of buckets_
  std::size_t started_ = 0;         ///< of order_
};

}  // namespace lowgear::trainer
