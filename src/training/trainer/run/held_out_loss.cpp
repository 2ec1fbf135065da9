#include "training/trainer/run/held_out_loss.h"

#include <utility>

#include "training/launcher/training_schedule.h"
#include "training/launcher/training_text.h"

namespace lowgear::trainer {

HeldOutLoss::HeldOutLoss(const launcher::TrainConfig& config, std::vector<std::filesystem::path> files,
                         const launcher::RankPlace& place, std::map<int, Stage*> stages, const Communicators& ranks,
                         const at::TensorOptions& activations)
    : config_(launcher::held_out_config(config, std::move(files))),
      place_(place),
      ranks_(&ranks),
      schedule_(launcher::evaluation_schedule(config)),
      data_(config_),
      device_(activations.device()),
      engine_(schedule_, place.pp, std::move(stages), *ranks.pipeline,
              EngineOptions{.activation_shape = {config.microbatch_size, config.sequence_length, config.model.hidden},
                            .activation_options = activations}) {}

double HeldOutLoss::measure() {
  const at::Tensor sum = engine_.run(data_.microbatches(0, place_.dp, device_), nullptr).to(at::kDouble).view({1});
  // Tensor-parallel ranks have the same one.
  if (place_.tp != 0) sum.zero_();
  ranks_->world->all_reduce(sum);
  return sum.item<double>() / (config_.microbatches * config_.parallel.dp);
}

}  // namespace lowgear::trainer
