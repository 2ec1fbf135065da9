#include "training/trainer/thread_job.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "planning/schedule/communication.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/schedule.h"
#include "training/launcher/training_schedule.h"
#include "training/trainer/checkpoint/weights.h"
#include "training/trainer/engine/gradient_reducer.h"
#include "training/trainer/model/stage.h"
#include "training/trainer/transport/in_process_transport.h"

namespace lowgear::trainer {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kTime = 12;

struct Place {
  int pp = 0;
  int dp = 0;
  int tp = 0;
};

/// A parameter's values and gradient on one rank.
struct Part {
  TensorShard shard;
  at::Tensor value;
  at::Tensor gradient;
};

/// Counts the messages that it sends, and spoils the first one.
class WatchedPipeline final : public PointToPoint {
 public:
  WatchedPipeline(std::unique_ptr<PointToPoint> sound, double factor, std::atomic<std::int64_t>& messages)
      : sound_(std::move(sound)), factor_(factor), messages_(&messages) {}
  std::unique_ptr<PendingTransfer> send(const at::Tensor& tensor, int peer) override {
    ++*messages_;
    if (factor_ == 1) return sound_->send(tensor, peer);
    return sound_->send(tensor.mul(std::exchange(factor_, 1)), peer);
  }
  std::unique_ptr<PendingTransfer> receive(const at::Tensor& tensor, int peer) override {
    return sound_->receive(tensor, peer);
  }

 private:
  std::unique_ptr<PointToPoint> sound_;
  double factor_;
  std::atomic<std::int64_t>* messages_;
};

Communicators communicators(InProcessHub& hub, const ThreadJob& job, const Place& place,
                            std::atomic<std::int64_t>& messages) {
  Communicators ranks;
  ranks.pipeline = std::make_unique<WatchedPipeline>(
      hub.pipeline(fmt::format("pp d{} t{}", place.dp, place.tp), place.pp), job.first_message_factor, messages);
  ranks.data = hub.group(fmt::format("dp p{} t{}", place.pp, place.tp), place.dp, job.dp);
  ranks.tensor = hub.group(fmt::format("tp p{} d{}", place.pp, place.dp), place.tp, job.tp);
  if (place.pp == 0 || place.pp == job.pp - 1) {
    ranks.tied = hub.group(fmt::format("tied d{} t{}", place.dp, place.tp), place.pp == 0 ? 0 : 1, 2);
  }
  return ranks;
}

std::vector<model::LayerRange> even_partition(std::int64_t layers, int stages) {
  std::vector<model::LayerRange> ranges;
  for (int stage = 0; stage < stages; ++stage) {
    ranges.push_back({layers * stage / stages, layers * (stage + 1) / stages});
  }
  return ranges;
}

/// Puts parts together as ranks hand them in.
class Collector {
 public:
  void add(const ThreadJob& job, const Place& place, ParameterStore& store) {
    const std::scoped_lock lock(mutex_);
    for (const Parameter& parameter : store.parameters()) {
      if (parameter.tied_copy || place.dp != 0) continue;
      auto& parts = parts_[parameter.name];
      parts.resize(static_cast<std::size_t>(job.tp));
      parts[static_cast<std::size_t>(place.tp)] = {parameter.shard, parameter.value.detach().clone(),
                                                   parameter.frozen ? at::Tensor() : parameter.gradient.clone()};
    }
  }
  std::atomic<std::int64_t>& messages() { return messages_; }
  void add_loss(double loss) {
    const std::scoped_lock lock(mutex_);
    loss_ += loss;
  }
  [[nodiscard]] ThreadJobResult result(const ThreadJob& job) const {
    ThreadJobResult result;
    result.messages = messages_;
    result.loss = loss_ / (job.microbatches * job.dp * job.tp);
    for (const auto& [name, parts] : parts_) {
      std::vector<at::Tensor> values;
      std::vector<at::Tensor> gradients;
      for (const Part& part : parts) {
        values.push_back(part.value);
        gradients.push_back(part.gradient);
      }
      result.weights[name] = whole_of(values, parts.front().shard);
      if (gradients.front().defined()) result.gradients[name] = whole_of(gradients, parts.front().shard);
    }
    return result;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<Part>> parts_;
  double loss_ = 0;
  std::atomic<std::int64_t> messages_ = 0;
};

void run_rank(const ThreadJob& job, const Place& place, const schedule::Schedule& schedule, InProcessHub& hub,
              Collector& collector) {
  at::set_num_threads(1);
  const Communicators ranks = communicators(hub, job, place, collector.messages());
  std::vector<int> here;
  const std::vector<int> rank_of = rank_of_stage(schedule);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    if (rank_of[static_cast<std::size_t>(stage)] == place.pp) here.push_back(stage);
  }
  ModelPart part(
      job.config, even_partition(job.config.layers, schedule.stages), here,
      {.recompute = job.recompute, .buffer_multiple = job.dp, .fp8 = job.fp8, .frozen_blocks = job.frozen_blocks},
      ranks);
  initialize(part.store(), job.config.layers, job.seed);
  PipelineEngine engine(schedule, place.pp, part.stages(), *ranks.pipeline,
                        {.streams = stream_shapes(job.config, kBatch, kTime, job.tp),
                         .activation_options = at::kFloat,
                         .loss_gradient = 1.0 / (job.microbatches * job.dp)});
  const std::vector<Microbatch> all = test_microbatches(job.config, job.microbatches * job.dp);
  const auto own = std::span(all).subspan(static_cast<std::size_t>(place.dp * job.microbatches),
                                          static_cast<std::size_t>(job.microbatches));
  GradientReducer reducer(
      part.store(), *ranks.data,
      {.bucket_elements = job.bucket_elements, .additions = job.microbatches, .to_owners = job.zero1});
  reducer.begin();
  const double loss = engine.run(own, nullptr).item<float>();
  part.reduce_tied_gradients();
  reducer.finish();
  if (job.zero1) {
    const at::Tensor& gradients = part.store().gradients();
    const std::int64_t share = gradients.numel() / job.dp;
    if (share > 0) ranks.data->all_gather(gradients, gradients.narrow(0, share * place.dp, share).clone());
  }
  collector.add_loss(loss);
  collector.add(job, place, part.store());
}

}  // namespace

std::vector<Microbatch> test_microbatches(const model::ModelConfig& config, int count) {
  auto generator = at::detail::createCPUGenerator(7);
  std::vector<Microbatch> microbatches;
  for (int i = 0; i < count; ++i) {
    const at::Tensor tokens = at::randint(0, config.vocabulary, {kBatch, kTime + 1}, generator, at::kLong);
    microbatches.push_back({tokens.narrow(1, 0, kTime).contiguous(), tokens.narrow(1, 1, kTime).contiguous(),
                            SampleKeys{sample_key(7, kBatch * i), sample_key(7, kBatch * i + 1)}});
    if (!has_encoder_and_decoder(config)) continue;
    microbatches.back().encoder_ids = at::randint(0, config.vocabulary, {kBatch, kTime}, generator, at::kLong);
  }
  return microbatches;
}

ThreadJobResult run_iteration(const ThreadJob& job) {
  schedule::Schedule schedule =
      schedule::make_schedule({.name = job.schedule,
                               .ranks = job.pp,
                               .microbatches = job.microbatches,
                               .chunks = job.chunks,
                               .envpipe_stages = std::vector<schedule::EnvPipeStage>(
                                   static_cast<std::size_t>(job.pp), schedule::EnvPipeStage{1, 2, {}})});
  const int frozen = launcher::frozen_stages(even_partition(job.config.layers, schedule.stages), job.frozen_blocks);
  schedule = with_communication(with_frozen_stages(schedule, frozen));
  if (job.pp > 1) require_runnable(schedule, schedule::P2pGrouping::none);
  InProcessHub hub;
  Collector collector;
  std::exception_ptr failure;
  std::mutex failure_mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < job.pp * job.dp * job.tp; ++rank) {
    const Place place{rank / (job.dp * job.tp), rank / job.tp % job.dp, rank % job.tp};
    threads.emplace_back([&, place] {
      try {
        run_rank(job, place, schedule, hub, collector);
      } catch (...) {
        const std::scoped_lock lock(failure_mutex);
        if (!failure) failure = std::current_exception();
        hub.abort();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return collector.result(job);
}

void expect_equal(const ThreadJobResult& result, const ThreadJobResult& expected) {
  EXPECT_EQ(result.loss, expected.loss);
  ASSERT_EQ(result.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_TRUE(at::equal(result.gradients.at(name), gradient)) << name;
  }
}

}  // namespace lowgear::trainer
