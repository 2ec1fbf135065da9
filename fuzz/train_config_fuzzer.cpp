/// Reads any text as a training configuration, whose model is described in it: files are not read. What is accepted can
/// be scheduled or is refused.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/core/error.h"
#include "checks.h"
#include "training/launcher/config/train_config.h"
#include "training/launcher/rank_layout.h"
#include "training/launcher/training_schedule.h"

namespace {

/// Schedules of more actions take long to make, and nothing more is to be learnt from them.
constexpr int kMostActions = 4096;

void check(const lowgear::launcher::TrainConfig& config) {
  const lowgear::launcher::RankLayout layout(config.parallel);
  require(layout.world_size() >= 1);
  const int last = layout.world_size() - 1;
  require(layout.rank_at(layout.place_of(last)) == last);
  require(config.tokens_per_step() > 0);
  if (config.schedule.ends_with(".csv")) return;
  if (std::int64_t{config.parallel.pp} * config.parallel.chunks * config.microbatches > kMostActions) return;
  const lowgear::schedule::Schedule schedule = lowgear::launcher::training_schedule(config);
  require(schedule.rank_count() == config.parallel.pp);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  if (text.find("config") != std::string_view::npos) return 0;
  try {
    check(lowgear::launcher::parse_train_config(text, "train.yaml", "/nonexistent"));
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
