#include "report/experiment/arm_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/core/error.h"
#include "base/core/numbers/figure_text.h"
#include "report/experiment/run_record.h"

namespace lowgear::experiment {
namespace {

constexpr double kJoulesPerKwh = 3.6e6;
constexpr std::size_t kCurvePoints = 100;

struct QuantityRow {
  const char* member;   ///< {} is the unit of work
  const char* heading;  ///< the same
  bool learning;
  bool energy;  ///< needs energies
  bool loss;    ///< needs losses
};

constexpr std::array<QuantityRow, kQuantities> kRows{{
    {"energy_per_{}_j", "J/{}", false, true, false},
    {"time_per_{}_s", "s/{}", false, false, false},
    {"energy_j", "energy", false, true, false},
    {"time_s", "time", false, false, false},
    {"cost_usd", "cost", false, true, false},
    {"co2_g", "CO2", false, true, false},
    {"loss_at_equal_{}s", "loss, equal {}s", true, false, true},
    {"held_out_loss_at_equal_{}s", "held-out loss, equal {}s", true, false, false},
    {"loss_at_equal_energy", "loss, equal energy", true, true, true},
    {"energy_to_loss_j", "energy to loss", true, true, true},
    {"time_to_loss_s", "time to loss", true, false, true},
}};

/// Whether the margin of losses applies to it.
bool is_loss(Quantity quantity) {
  return quantity == Quantity::loss_at_work || quantity == Quantity::held_out_loss_at_work ||
         quantity == Quantity::loss_at_energy;
}

const QuantityRow& row_of(Quantity quantity) { return kRows[static_cast<std::size_t>(quantity)]; }

/// Common data of the runs of a comparison.
struct Common {
  const ComparisonOptions* options;
  double work = 0;
  std::optional<double> energy_j;
  bool blocks = false;  ///< every run states its block
  bool seeds = false;

  [[nodiscard]] double window() const { return kLossWindow * work; }
};

std::optional<double> value_of(const RunRecord& run, Quantity quantity, const Common& common) {
  const ComparisonOptions& options = *common.options;
  const double kwh = sums_at_work(run, common.work).energy_j / kJoulesPerKwh;
  switch (quantity) {
    case Quantity::energy_per_work:
      return mean_per_work(run, common.work, kSettlingSteps).energy_j;
    case Quantity::time_per_work:
      return mean_per_work(run, common.work, kSettlingSteps).time_s;
    case Quantity::energy:
      return sums_at_work(run, common.work).energy_j;
    case Quantity::time:
      return sums_at_work(run, common.work).time_s;
    case Quantity::cost:
      return kwh * options.price_per_kwh.value_or(0);
    case Quantity::emissions:
      return kwh * options.co2_g_per_kwh.value_or(0);
    case Quantity::loss_at_work:
      return loss_at_work(run, common.work, common.window());
    case Quantity::held_out_loss_at_work:
      return held_out_loss_at_work(run, common.work);
    case Quantity::loss_at_energy:
      return loss_at_energy(run, common.energy_j.value_or(0), common.window());
    case Quantity::energy_to_loss:
    case Quantity::time_to_loss: {
      const auto sums = sums_at_loss(run, options.loss.value_or(0), common.window());
      if (!sums) return std::nullopt;
      return quantity == Quantity::energy_to_loss ? sums->energy_j : sums->time_s;
    }
  }
  return std::nullopt;
}

/// Values of an arm by block, seed or number of the run, each the mean over its runs.
struct ArmValues {
  std::map<long long, double> by_key;
  int without = 0;
};

long long key_of(const ArmRun& run, std::size_t number, Quantity quantity, const Common& common) {
  if (depends_on_learning(quantity) && common.seeds) return *run.seed;
  return common.blocks ? *run.block : static_cast<long long>(number);
}

ArmValues values_of(const Arm& arm, Quantity quantity, const Common& common) {
  struct Sum {
    double sum = 0;
    int runs = 0;
    bool complete = true;
  };
  std::map<long long, Sum> sums;
  ArmValues values;
  for (std::size_t i = 0; i < arm.runs.size(); ++i) {
    Sum& sum = sums[key_of(arm.runs[i], i, quantity, common)];
    const auto value = value_of(arm.runs[i].record, quantity, common);
    ++sum.runs;
    sum.sum += value.value_or(0);
    sum.complete = sum.complete && value;
    values.without += value ? 0 : 1;
  }
  // A block that has lost a run is no longer balanced against drift.
  int most = 0;
  for (const auto& [key, sum] : sums) most = std::max(most, sum.runs);
  for (const auto& [key, sum] : sums) {
    if (sum.complete && (sum.runs == most || depends_on_learning(quantity))) values.by_key[key] = sum.sum / sum.runs;
  }
  return values;
}

std::vector<double> all_of(const std::map<long long, double>& by_key) {
  std::vector<double> values;
  for (const auto& [key, value] : by_key) values.push_back(value);
  return values;
}

Verdict verdict_of(const std::optional<Interval>& difference) {
  if (!difference || !difference->range) return Verdict::too_few_runs;
  if (difference->range->low > 0) return Verdict::more;
  return difference->range->high < 0 ? Verdict::less : Verdict::no_difference;
}

void compare_with(const ArmValues& baseline, const ArmValues& values, const Common& common, ArmQuantity& result) {
  result.paired = common.blocks || common.options->pairing == Pairing::by_order;
  if (result.paired) {
    std::vector<double> own;
    std::vector<double> others;
    for (const auto& [key, value] : values.by_key) {
      const auto other = baseline.by_key.find(key);
      if (other == baseline.by_key.end()) continue;
      own.push_back(value);
      others.push_back(other->second);
    }
    result.difference_pct = paired_difference_pct(own, others);
  } else {
    result.difference_pct = difference_pct(all_of(values.by_key), all_of(baseline.by_key));
  }
  result.verdict = verdict_of(result.difference_pct);
  if (is_loss(result.quantity) && common.options->loss_margin_pct && result.difference_pct &&
      result.difference_pct->range) {
    result.within_margin = result.difference_pct->range->high <= *common.options->loss_margin_pct;
  }
}

std::vector<ArmQuantity> quantities_of(const Arm& arm, const Arm& baseline, std::span<const Quantity> wanted,
                                       const Common& common) {
  std::vector<ArmQuantity> quantities;
  for (const Quantity quantity : wanted) {
    const ArmValues values = values_of(arm, quantity, common);
    ArmQuantity result;
    result.quantity = quantity;
    result.value = mean_interval(all_of(values.by_key));
    result.without = values.without;
    if (&arm != &baseline) compare_with(values_of(baseline, quantity, common), values, common, result);
    quantities.push_back(std::move(result));
  }
  return quantities;
}

/// Means over all runs, at ends of steps of the run with the fewest: between them its losses would be those of earlier
/// work.
std::vector<LearningPoint> curve_of(const Arm& arm, const Common& common) {
  const auto steps_of = [&](const ArmRun& run) { return steps_within(run.record, common.work); };
  const ArmRun& fewest = *std::ranges::min_element(arm.runs, {}, steps_of);
  const std::size_t steps = steps_of(fewest);
  const std::size_t points = std::min(kCurvePoints, steps);
  std::vector<LearningPoint> curve;
  double end = 0;
  for (std::size_t i = 1, step = 0; i <= points; ++i) {
    for (; step < i * steps / points; ++step) end += fewest.record.steps[step].work;
    LearningPoint point{.work = end};
    bool complete = true;
    for (const ArmRun& run : arm.runs) {
      const auto loss = loss_at_work(run.record, point.work, common.window());
      complete = complete && loss;
      point.loss += loss.value_or(0) / static_cast<double>(arm.runs.size());
      point.energy_j += sums_at_work(run.record, point.work).energy_j / static_cast<double>(arm.runs.size());
    }
    if (complete) curve.push_back(point);
  }
  return curve;
}

std::optional<double> mean_of(const Arm& arm, std::optional<double> RunRecord::*member) {
  double sum = 0;
  int count = 0;
  for (const ArmRun& run : arm.runs) {
    if (!(run.record.*member)) continue;
    sum += *(run.record.*member);
    ++count;
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

std::string basis_text(const RunRecord& run) {
  return run.basis ? fmt::format("{} energy", name(*run.basis)) : "no energy";
}

/// Throws InputError where this run is of another kind than the first.
void require_alike(const RunRecord& first, const RunRecord& run) {
  if (run.basis != first.basis) {
    throw_input_error({run.source, 0, 0},
                      fmt::format("has {}, while {} has {}: they cannot be compared", basis_text(run), first.source,
                                  basis_text(first)),
                      "report runs of one kind at a time");
  }
  if (run.unit != first.unit) {
    throw_input_error(
        {run.source, 0, 0},
        fmt::format("is counted in {}s, while {} is counted in {}s", name(run.unit), first.source, name(first.unit)),
        "give --tokens-per-iteration for recordings");
  }
}

/// The first ones, one at least.
std::size_t compared_steps(const RunRecord& run, double work) {
  return std::max<std::size_t>(1, steps_within(run, work));
}

std::string policies_of(const Arm& arm) {
  std::set<std::string> policies;
  for (const ArmRun& run : arm.runs) {
    if (!run.record.policy.empty()) policies.insert(run.record.policy);
  }
  return fmt::format("{}", fmt::join(policies, ", "));
}

/// Those by the steps that are compared up to this amount of work.
std::vector<GpuUse> compared_uses(const UsedGpu& gpu, const RunRecord& run, double work) {
  const auto compared = std::span(run.steps).first(compared_steps(run, work));
  std::vector<GpuUse> uses = gpu.uses;
  std::erase_if(
      uses, [&](const GpuUse& use) { return !std::ranges::binary_search(compared, use.step, {}, &RunStep::number); });
  return uses;
}

bool are_at_once(const std::vector<GpuUse>& a, const std::vector<GpuUse>& b) {
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (i->begin_s < j->end_s && j->begin_s < i->end_s) return true;
    ++(i->end_s < j->end_s ? i : j);
  }
  return false;
}

/// The GPUs' counters do not tell jobs apart that run at the same time, whether or not both are compared by then.
void warn_of_shared_gpus(const std::vector<Arm>& arms, double work, std::vector<std::string>& warnings) {
  struct Use {
    const RunRecord* run;
    const UsedGpu* gpu;
    std::vector<GpuUse> compared;
  };
  std::map<std::pair<std::string, std::string>, std::vector<Use>> uses;  // by machine and GPU
  std::set<std::pair<const RunRecord*, const RunRecord*>> warned;
  for (const Arm& arm : arms) {
    for (const ArmRun& run : arm.runs) {
      for (const UsedGpu& gpu : run.record.gpus) {
        Use own{&run.record, &gpu, compared_uses(gpu, run.record, work)};
        std::vector<Use>& earlier = uses[{gpu.boot_id, gpu.uuid}];
        for (const Use& other : earlier) {
          const bool at_once = are_at_once(other.compared, gpu.uses) || are_at_once(other.gpu->uses, own.compared);
          if (other.run == own.run || !at_once || !warned.insert({other.run, own.run}).second) continue;
          warnings.push_back(
              fmt::format("recordings {} and {} used the same GPUs at the same time: the energy of both counts in "
                          "iterations that are compared",
                          other.run->source, own.run->source));
        }
        earlier.push_back(std::move(own));
      }
    }
  }
}

void leave_out_invalid(std::vector<Arm>& arms, std::vector<std::string>& warnings) {
  for (Arm& arm : arms) {
    std::erase_if(arm.runs, [&](const ArmRun& run) {
      const bool invalid = !run.record.invalid.empty();
      if (invalid) {
        warnings.push_back(fmt::format("{}: left out as invalid: {}", run.record.source, run.record.invalid));
      }
      return invalid;
    });
    if (arm.runs.empty()) {
      throw InputError(
          fmt::format("arm {} has no valid run{}", quote(arm.name), warnings.empty() ? "" : "; " + warnings.back()));
    }
  }
}

void check_arms(const std::vector<Arm>& arms, const std::string& baseline) {
  if (arms.empty()) throw InputError("there is no run to report");
  std::set<std::string> names;
  for (const Arm& arm : arms) {
    if (!names.insert(arm.name).second) throw InputError(fmt::format("two arms are named {}", quote(arm.name)));
    for (const ArmRun& run : arm.runs) require_alike(arms.front().runs.front().record, run.record);
  }
  if (names.contains(baseline)) return;
  throw InputError(
      fmt::format("--baseline: there is no arm {}; the arms are {}", quote(baseline), fmt::join(names, ", ")));
}

/// A run whose marks end after the work that is compared is valid as a whole, and its figures for that work are not.
void require_valid_until(const std::vector<Arm>& arms, double work) {
  for (const Arm& arm : arms) {
    for (const ArmRun& run : arm.runs) {
      const RunStep& last = run.record.steps[compared_steps(run.record, work) - 1];
      if (!last.invalid) continue;
      throw_input_error(
          {run.record.source, 0, 0},
          fmt::format(
              "step {}, the last one that is compared, is marked invalid: up to there the real computation took "
              "longer than the kernels of the simulated GPUs",
              last.number),
          "leave the run out, or compare it with runs that do as much work");
    }
  }
}

/// Leaves out of all runs the steps that one lacks before its end: a slow one would count in the others alone.
void leave_out_lacking(std::vector<Arm>& arms, std::vector<std::string>& warnings) {
  std::map<std::int64_t, std::ptrdiff_t> runs_with;  // by number of a step
  std::vector<std::int64_t> ends;                    // last numbers of the runs
  for (const Arm& arm : arms) {
    for (const ArmRun& run : arm.runs) {
      for (const RunStep& step : run.record.steps) ++runs_with[step.number];
      ends.push_back(run.record.steps.back().number);
    }
  }
  std::ranges::sort(ends);
  const auto is_lacking = [&](const RunStep& step) {
    return runs_with.at(step.number) < ends.end() - std::ranges::lower_bound(ends, step.number);
  };
  std::set<std::int64_t> left_out;
  for (Arm& arm : arms) {
    for (ArmRun& run : arm.runs) {
      std::erase_if(run.record.steps, [&](const RunStep& step) {
        const bool lacking = is_lacking(step);
        if (lacking) left_out.insert(step.number);
        return lacking;
      });
      if (!run.record.steps.empty()) continue;
      throw_input_error({run.record.source, 0, 0}, "has no iteration that all other runs have", "report it by itself");
    }
  }
  if (left_out.empty()) return;
  warnings.push_back(
      fmt::format("left out of all runs: {} that some run lacks", counted(left_out.size(), "iteration", "iterations")));
}

Common common_of(const std::vector<Arm>& arms, const ComparisonOptions& options) {
  Common common{.options = &options, .work = 0, .energy_j = std::nullopt, .blocks = true, .seeds = true};
  bool first = true;
  bool energies = true;
  for (const Arm& arm : arms) {
    for (const ArmRun& run : arm.runs) {
      const RunSums sums = all_sums(run.record);
      common.work = first ? sums.work : std::min(common.work, sums.work);
      common.energy_j = first ? sums.energy_j : std::min(*common.energy_j, sums.energy_j);
      first = false;
      energies = energies && run.record.has_energy();
      common.blocks = common.blocks && run.block;
      common.seeds = common.seeds && run.seed;
    }
  }
  if (!energies || *common.energy_j <= 0) common.energy_j.reset();
  return common;
}

/// Those that the runs allow and that were asked for.
std::vector<Quantity> wanted_quantities(const std::vector<Arm>& arms, const Common& common) {
  const bool losses = std::ranges::any_of(arms, [](const Arm& arm) {
    return std::ranges::any_of(arm.runs, [](const ArmRun& run) { return run.record.steps.front().loss.has_value(); });
  });
  const bool held_out = std::ranges::all_of(arms, [&](const Arm& arm) {
    return std::ranges::all_of(
        arm.runs, [&](const ArmRun& run) { return held_out_loss_at_work(run.record, common.work).has_value(); });
  });
  std::vector<Quantity> wanted;
  for (int i = 0; i < kQuantities; ++i) {
    const auto quantity = static_cast<Quantity>(i);
    const QuantityRow& row = row_of(quantity);
    if ((row.energy && !common.energy_j) || (row.loss && !losses)) continue;
    if (quantity == Quantity::held_out_loss_at_work && !held_out) continue;
    if (quantity == Quantity::cost && !common.options->price_per_kwh) continue;
    if (quantity == Quantity::emissions && !common.options->co2_g_per_kwh) continue;
    const bool to_loss = quantity == Quantity::energy_to_loss || quantity == Quantity::time_to_loss;
    if (to_loss && !common.options->loss) continue;
    wanted.push_back(quantity);
  }
  return wanted;
}

}  // namespace

std::string member_name(Quantity quantity, WorkUnit unit) {
  return fmt::format(fmt::runtime(row_of(quantity).member), name(unit));
}

std::string heading(Quantity quantity, WorkUnit unit) {
  return fmt::format(fmt::runtime(row_of(quantity).heading), name(unit));
}

bool depends_on_learning(Quantity quantity) { return row_of(quantity).learning; }

std::string_view text(Verdict verdict) {
  switch (verdict) {
    case Verdict::too_few_runs:
      return "too few runs";
    case Verdict::no_difference:
      return "no difference shown";
    case Verdict::less:
      return "less";
    case Verdict::more:
      return "more";
  }
  return "";
}

ArmComparison compare_arms(std::vector<Arm> arms, const ComparisonOptions& options) {
  ArmComparison comparison;
  for (const Arm& arm : arms) {
    for (const ArmRun& run : arm.runs) {
      comparison.warnings.insert(comparison.warnings.end(), run.record.warnings.begin(), run.record.warnings.end());
    }
  }
  leave_out_invalid(arms, comparison.warnings);
  comparison.baseline = options.baseline.empty() && !arms.empty() ? arms.front().name : options.baseline;
  check_arms(arms, comparison.baseline);
  leave_out_lacking(arms, comparison.warnings);

  const Common common = common_of(arms, options);
  require_valid_until(arms, common.work);
  warn_of_shared_gpus(arms, common.work, comparison.warnings);
  const std::vector<Quantity> wanted = wanted_quantities(arms, common);
  const Arm& baseline = *std::ranges::find(arms, comparison.baseline, &Arm::name);
  comparison.basis = baseline.runs.front().record.basis;
  comparison.unit = baseline.runs.front().record.unit;
  comparison.common_work = common.work;
  comparison.common_energy_j = common.energy_j;
  for (const Arm& arm : arms) {
    comparison.arms.push_back({.name = arm.name,
                               .runs = static_cast<int>(arm.runs.size()),
                               .policy = policies_of(arm),
                               .sm_clock_mhz = mean_of(arm, &RunRecord::sm_clock_mhz),
                               .temperature_c = mean_of(arm, &RunRecord::temperature_c),
                               .quantities = quantities_of(arm, baseline, wanted, common),
                               .curve = curve_of(arm, common)});
  }
  return comparison;
}

}  // namespace lowgear::experiment
