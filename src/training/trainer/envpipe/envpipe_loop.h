#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "client/client.h"
#include "planning/schedule/dag.h"
#include "rivals/policies/envpipe/envpipe_reconfiguration.h"
#include "rivals/policies/envpipe/envpipe_sweep.h"
#include "training/launcher/config/train_config.h"
#include "training/launcher/energy/envpipe_config.h"
#include "training/launcher/rank_layout.h"
#include "training/trainer/checkpoint/checkpoint.h"
#include "training/trainer/measuring/metrics_file.h"
#include "training/trainer/measuring/unit_marks.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// The file `energy.envpipe.log` (docs/formats.md): measurements and decision of each step of the reconfiguration.
class EnvPipeRecord {
 public:
  /// Throws what MetricsFile throws.
  EnvPipeRecord(const std::filesystem::path& path, std::int64_t first_step) : file_(path, first_step) {}

  /// Before the first decision, with the clocks that it starts from, by op.
  void begin(std::int64_t step, const Json& settings, const schedule::PipelineDag& dag,
             const policies::EnvPipeState& state);
  /// Receives and clocks by op.
  void add(std::int64_t step, const schedule::PipelineDag& dag, std::span<const double> receive_s,
           const policies::EnvPipeReconfiguration::Step& decided, const policies::EnvPipeState& state);

 private:
  void write(const Json& line);

  MetricsFile file_;
};

/// The decision of the policy `envpipe` after a step; known on rank 0.
struct EnvPipeDecision {
  enum class Phase : unsigned char { profiling, reconfiguring, settled };

  Phase phase = Phase::settled;  ///< that the step belonged to
  int path = 0;                  ///< units on the path of waiting
  int raised = 0;                ///< of which the clock rises with the next step
  std::string plan = {};         ///< as EnvPipe prints it; empty unless it was reconfiguring
  std::string problem = {};      ///< why nothing was decided; empty: it was
  std::string news = {};         ///< a message for people; may be empty
};

[[nodiscard]] constexpr std::string_view name(EnvPipeDecision::Phase phase) {
  constexpr std::string_view kNames[] = {"profiling", "reconfiguring", "settled"};
  return kNames[static_cast<std::size_t>(phase)];
}

/// EnvPipe in the running job (`energy.policy: envpipe`): finds each rank's clock of least energy by a sweep, or from a
/// profile; changes to its own order; then raises clocks by the receives that the ranks measured, one decision a step.
/// Rank 0 decides by the measurements of the first replica, and all ranks learn it before any of them begins the next
/// step.
class EnvPipeLoop final : public SavedState {
 public:
  /// The loop's access to the job. All outlive it.
  struct Parts {
    SavedState* others = nullptr;  ///< saved together with it
    client::Client* client = nullptr;
    const Communicators* ranks = nullptr;
    launcher::RankPlace place;
    std::function<const schedule::Schedule&()> schedule;           ///< the current one
    std::function<void(std::vector<int> early_forwards)> reorder;  ///< to EnvPipe's own order, from the next step on
  };
  /// A rank's measurements of a step.
  struct Observed {
    double energy_j = 0;  ///< not a number: none
    std::vector<UnitTime> units;
    std::span<const std::int64_t> activation_bytes;  ///< by stage of all ranks, as measured last; empty: not yet
  };
  EnvPipeLoop(const launcher::TrainConfig& config, Parts parts);

  /// Before the first step, on all ranks, once it is known how many were done before. Throws InputError when a file
  /// cannot be read or written, or the GPUs have no clock in common.
  void begin(std::int64_t first_step);
  /// Before each step: the agent of this rank gets the agreed clocks. Returns whether it accepts them. Throws Error
  /// when it does not before this process' first step.
  [[nodiscard]] bool follow();
  /// After each step, on all ranks, with what this one measured. A meeting of all ranks until the loop has settled.
  void observe(std::int64_t step, const Observed& observed);
  /// About the step observed last; on rank 0.
  [[nodiscard]] const EnvPipeDecision& decision() const { return decision_; }

  /// A sweep is not saved: it begins anew.
  [[nodiscard]] std::string save() const override;
  void restore(const std::string& json, const std::string& source) override;

 private:
  using Phase = EnvPipeDecision::Phase;
  /// The next step's order and clocks, which all ranks know.
  struct Agreed {
    Phase phase = Phase::settled;
    std::vector<int> early_forwards;  ///< by rank; empty: the order of the schedule
    std::vector<int> clocks_mhz;      ///< by op
  };
  struct Measured {
    std::vector<double> receive_s;                 ///< by op
    std::vector<policies::EnvPipeSample> samples;  ///< by rank
  };

  [[nodiscard]] bool is_rank_0() const { return parts_.ranks->world->rank() == 0; }
  [[nodiscard]] bool has_own_order() const;
  [[nodiscard]] std::vector<int> usable_clocks_mhz() const;
  [[nodiscard]] bool continue_saved(std::int64_t first_step);
  void start_profiling();
  void start_reconfiguring(const policies::EnvPipeFindings& found, std::span<const double> activation_bytes);
  [[nodiscard]] std::vector<int> find_extra_activations(std::span<const double> activation_bytes);
  [[nodiscard]] Json settings() const;
  void set_order(std::vector<int> early_forwards);
  void make_reconfiguration(policies::EnvPipeState state, std::int64_t step);
  [[nodiscard]] Measured gather(const Observed& observed) const;
  void profile(const Measured& measured, std::span<const std::int64_t> activation_bytes);
  void reconfigure(std::int64_t step, const Measured& measured);
  void agree(std::int64_t step);
  [[nodiscard]] std::vector<int> rank_clocks_by_op(std::span<const int> rank_clocks_mhz) const;

  const launcher::TrainConfig* config_;
  Parts parts_;
  schedule::PipelineDag dag_;    ///< of the current order
  std::vector<int> clocks_mhz_;  ///< that it may use, highest first
  Agreed agreed_;
  std::vector<int> loaded_mhz_;  ///< by op, that the agent was given; empty: none
  std::optional<launcher::EnvPipeSaved> saved_;
  std::optional<policies::EnvPipeSweep> sweep_;                      ///< on rank 0
  std::optional<policies::EnvPipeReconfiguration> reconfiguration_;  ///< empty: not yet; steps on rank 0 alone
  EnvPipeDecision decision_;
  std::string start_news_;               ///< of the start of the reconfiguration, until a decision tells it
  std::optional<EnvPipeRecord> record_;  ///< on rank 0
};

}  // namespace lowgear::trainer
