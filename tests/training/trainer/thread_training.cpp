#include "training/trainer/thread_training.h"

#include <mutex>

#include "client/client.h"
#include "training/launcher/rank_layout.h"
#include "training/trainer/test_models.h"
#include "training/trainer/thread_ranks.h"

namespace lowgear::trainer {

Outcome train(const launcher::TrainConfig& config, std::int64_t end_after) {
  std::mutex mutex;
  Outcome outcome;
  run_thread_ranks(config.parallel, [&](int rank, Communicators ranks) {
    const Environment nothing = [](std::string_view) { return std::nullopt; };
    client::Client client({}, nothing);
    TrainingRun run(config, {.device = at::kCPU, .ranks = std::move(ranks)}, client, nullptr);
    std::int64_t done = run.first_step();
    run.run([&] { return rank == 0 && done++ == end_after; },
            [&](const IterationResult& result) {
              outcome.losses.push_back(result.loss);
              outcome.gradient_norms.push_back(result.gradient_norm);
              outcome.frozen.push_back(result.frozen_blocks);
              if (result.dropped_gradients) outcome.dropped.push_back(result.dropped_gradients->operations);
              outcome.partitions.push_back(result.partition);
              if (result.moved) outcome.moved_bytes[result.iteration] = result.moved->bytes;
              if (!result.activation_bytes.empty())
                outcome.activation_bytes[result.iteration] = result.activation_bytes;
              if (result.held_out_loss) outcome.held_out_losses[result.iteration] = *result.held_out_loss;
            });
    const std::scoped_lock lock(mutex);
    outcome.first_step = run.first_step();
    outcome.values[rank] = run.store().values().detach().clone();
    outcome.gradient_elements[rank] = run.store().gradients().numel();
    const launcher::RankPlace place = launcher::RankLayout(config.parallel).place_of(rank);
    if (place.dp > 0 || place.tp > 0) return;
    for (const Parameter& parameter : run.store().parameters()) {
      if (!parameter.tied_copy) outcome.weights[parameter.name] = parameter.value.detach().clone();
    }
  });
  return outcome;
}

launcher::TrainConfig small_job(const protocol::JobParallel& parallel) {
  launcher::TrainConfig config;
  config.model = tiny_llama(true);
  config.model.vocabulary = 256;
  config.model.layers = 4;
  config.parallel = parallel;
  config.microbatches = 4;
  config.sequence_length = 16;
  config.synthetic_tokens = 20'000;
  config.steps = 6;
  config.optimizer.learning_rate = 1e-2;
  config.optimizer.warmup_steps = 2;
  return config;
}

}  // namespace lowgear::trainer
