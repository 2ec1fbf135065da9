#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "training/dataset/batch_sampler.h"
#include "training/launcher/rank_layout.h"
#include "training/trainer/checkpoint/checkpoint.h"
#include "training/trainer/checkpoint/weights.h"
#include "training/trainer/model/stage.h"
#include "training/trainer/thread_ranks.h"

namespace lowgear::trainer {

/// One rank of a job that trains nothing: its part of the model and of the optimizer's state.
class StateRank {
 public:
  StateRank(const launcher::TrainConfig& config, int rank, Communicators ranks)
      : config_(config), place_(launcher::RankLayout(config.parallel).place_of(rank)), ranks_(std::move(ranks)) {
    std::vector<model::LayerRange> partition;
    std::vector<int> here;
    const int stages = config.parallel.pp * config.parallel.chunks;
    for (int stage = 0; stage < stages; ++stage) {
      partition.push_back({config.model.layers * stage / stages, config.model.layers * (stage + 1) / stages});
      if (stage % config.parallel.pp == place_.pp) here.push_back(stage);
    }
    part_ = std::make_unique<ModelPart>(config_.model, partition, here,
                                        ModelPartOptions{.type = config_.bf16 ? at::kBFloat16 : at::kFloat,
                                                         .buffer_multiple = config_.parallel.dp,
                                                         .frozen_blocks = config_.freeze.blocks_at(0)},
                                        ranks_);
    optimizer_ = std::make_unique<AdamW>(part_->store(), config_.optimizer, ranks_);
  }

  [[nodiscard]] const launcher::RankPlace& place() const { return place_; }
  [[nodiscard]] Communicators& ranks() { return ranks_; }
  [[nodiscard]] ParameterStore& store() { return part_->store(); }
  [[nodiscard]] AdamW& optimizer() { return *optimizer_; }
  [[nodiscard]] dataset::BatchSampler& sampler() { return sampler_; }
  [[nodiscard]] TrainingState state() { return {optimizer_.get(), &sampler_}; }

  /// Calls `action` with every parameter, frozen or not, the rank's stretch of it within its part, and the stretch of
  /// each moment.
  void for_each_stretch(const std::function<void(const Parameter& parameter, int moment, std::int64_t begin,
                                                 const at::Tensor& stretch)>& action) {
    for (const OptimizerState* state : {&optimizer_->state(), &optimizer_->frozen_state()}) {
      for_each_stretch(*state, action);
    }
  }

 private:
  void for_each_stretch(const OptimizerState& state,
                        const std::function<void(const Parameter& parameter, int moment, std::int64_t begin,
                                                 const at::Tensor& stretch)>& action) {
    const std::int64_t end = state.begin + state.master.numel();
    for (const Parameter& parameter : store().parameters()) {
      const std::int64_t first = std::max(parameter.offset, state.begin);
      const std::int64_t last = std::min(parameter.offset + parameter.count(), end);
      if (first >= last) continue;
      int moment = 0;
      for (const at::Tensor* tensor : {&state.master, &state.mean, &state.variance}) {
        action(parameter, moment++, first - parameter.offset, tensor->narrow(0, first - state.begin, last - first));
      }
    }
  }

  launcher::TrainConfig config_;
  launcher::RankPlace place_;
  Communicators ranks_;
  std::unique_ptr<ModelPart> part_;
  std::unique_ptr<AdamW> optimizer_;
  std::string text_ = std::string(2000, '\0');
  dataset::BatchSampler sampler_{dataset::TokenView(text_, "text", 64, dataset::TokenType::uint16),
                                 {.sequence_length = 8, .global_batch = 4}};
};

/// What a moment of a parameter is made to be: random, by the parameter's name and the moment alone.
inline at::Tensor made_up_moment(const Parameter& parameter, int moment) {
  std::uint64_t seed = static_cast<std::uint64_t>(moment) + (parameter.tied_copy ? 100 : 0);
  for (const char c : parameter.name) seed = seed * 31 + static_cast<unsigned char>(c);
  const at::Tensor whole = at::empty(whole_shape(parameter)).normal_(0, 1, at::detail::createCPUGenerator(seed));
  return part_of(whole, parameter.shard).flatten();
}

inline void run_state_job(const launcher::TrainConfig& config, const std::function<void(StateRank& rank)>& body) {
  run_thread_ranks(config.parallel, [&](int number, Communicators ranks) {
    StateRank rank(config, number, std::move(ranks));
    body(rank);
  });
}

}  // namespace lowgear::trainer
