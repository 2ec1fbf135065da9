#include "training/trainer/engine/gradient_reducer.h"

#include <algorithm>
#include <utility>

namespace lowgear::trainer {

GradientReducer::GradientReducer(ParameterStore& store, Collective& replicas, const GradientReducerOptions& options)
    : store_(&store), replicas_(&replicas), options_(options) {
  cut();
  store.observe(this);
}

GradientReducer::~GradientReducer() { store_->observe(nullptr); }

/// For what the iteration gives gradients. Whole parameters of one kind to a bucket; where replicas own parts of the
/// buffer, also no bucket of two owners.
void GradientReducer::cut() {
  buckets_.clear();
  order_.clear();
  if (replicas_->size() == 1) return;
  bool decays = true;
  for (const Parameter* parameter : store_->trained_by_offset()) {
    if (parameter->dropped) continue;
    const bool begins = buckets_.empty() || parameter->offset != buckets_.back().end || parameter->decays != decays ||
                        parameter->tied != buckets_.back().held ||
                        buckets_.back().end - buckets_.back().begin >= options_.bucket_elements;
    if (begins) buckets_.push_back({.begin = parameter->offset, .held = parameter->tied});
    buckets_.back().end = parameter->offset + parameter->count();
    decays = parameter->decays;
  }
  if (options_.to_owners) cut_at_owners();
  order();
}

void GradientReducer::cut_at_owners() {
  std::vector<Bucket> pieces;
  for (const Bucket& bucket : buckets_) {
    for (std::int64_t begin = bucket.begin; begin < bucket.end;) {
      const std::int64_t end = std::min(bucket.end, (owner_of(begin) + 1) * owned_elements());
      pieces.push_back({.begin = begin, .end = end, .held = bucket.held});
      begin = end;
    }
  }
  buckets_ = std::move(pieces);
}

void GradientReducer::order() {
  // Norms and biases are complete with the first layer's; they stand after all matrices.
  const auto turn = [this](std::size_t i) {
    if (buckets_[i].held) return 2;
    return buckets_[i].begin >= store_->decaying() ? 1 : 0;
  };
  for (std::size_t i = buckets_.size(); i > 0; --i) order_.push_back(i - 1);
  std::ranges::stable_sort(order_, {}, turn);
}

void GradientReducer::begin() {
  cut();
  for (Bucket& bucket : buckets_) {
    bucket.missing = (bucket.end - bucket.begin) * options_.additions;
    bucket.sum.reset();
  }
  started_ = 0;
}

void GradientReducer::gradient_added(std::int64_t begin, std::int64_t count) {
  const std::int64_t end = begin + count;
  // The last bucket that begins no later.
  auto bucket = std::ranges::upper_bound(buckets_, begin, {}, &Bucket::begin);
  if (bucket != buckets_.begin()) --bucket;
  for (; bucket != buckets_.end() && bucket->begin < end; ++bucket) {
    bucket->missing -= std::min(end, bucket->end) - std::max(begin, bucket->begin);
  }
  start_complete();
}

void GradientReducer::start_complete() {
  while (started_ < order_.size()) {
    Bucket& next = buckets_[order_[started_]];
    if (next.held || next.missing > 0) return;
    start(next);
  }
}

void GradientReducer::start(Bucket& bucket) {
  const at::Tensor part = store_->gradients().narrow(0, bucket.begin, bucket.end - bucket.begin);
  bucket.sum = options_.to_owners ? replicas_->start_reduce(part, static_cast<int>(owner_of(bucket.begin)))
                                  : replicas_->start_all_reduce(part, Reduction::sum);
  ++started_;
}

void GradientReducer::finish() {
  while (started_ < order_.size()) start(buckets_[order_[started_]]);
  for (const std::size_t i : order_) buckets_[i].sum->wait();
}

}  // namespace lowgear::trainer
