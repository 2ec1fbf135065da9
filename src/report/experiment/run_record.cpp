#include "report/experiment/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "base/core/energy/energy_check.h"
#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/median.h"
#include "planning/profile/recording.h"

namespace lowgear::experiment {

void RunValidity::add(const StepValidity& step) {
  if (step.continued) earlier_ = earlier_ || now_;
  now_ = step.invalid;
  if (step.invalid) {
    ++marked_;
    last_marked_ = static_cast<std::int64_t>(times_s_.size());
  }
  simulated_ = simulated_ || step.simulated;
  times_s_.push_back(step.time_s);
}

/// Simulated GPUs notice only within kernels that the machine stands still. No clock makes a step so much longer.
bool RunValidity::stood_still() const {
  constexpr std::size_t kWarmUp = 2;
  constexpr double kLongStep = 8;  // medians
  constexpr double kMostLost = 0.02;
  if (!simulated_ || times_s_.size() <= kWarmUp) return false;
  std::vector<double> times_s(times_s_.begin() + kWarmUp, times_s_.end());
  const double median_s = upper_median(std::span(times_s));
  double lost_s = 0;
  double sum_s = 0;
  for (const double time_s : times_s) {
    sum_s += time_s;
    if (time_s > kLongStep * median_s) lost_s += time_s - median_s;
  }
  return lost_s > kMostLost * sum_s;
}

std::string RunValidity::reason() const {
  if (now_ || earlier_) return "the real computation took longer than the kernels of the simulated GPUs";
  if (stood_still()) return "the machine stood still for a good part of the run";
  return {};
}

std::string RunValidity::note() const {
  if (!last_marked_ || invalid()) return {};
  return fmt::format(
      "{} of {} steps are marked invalid, the last of them is number {}: up to there the real computation took longer "
      "than the kernels of the simulated GPUs; over the whole run it did not",
      marked_, times_s_.size(), *last_marked_ + 1);
}

namespace {

constexpr auto kBasisNames = std::to_array<std::string_view>({"measured", "simulated", "replayed"});
/// Of one step: a year, and what no cluster draws in it.
constexpr double kMostTimeS = 3.2e7;
constexpr double kMostEnergyJ = 1e18;
constexpr double kMostTokens = 1e15;
/// Members and values of a line: far more than any has.
constexpr std::size_t kMostValues = 1000;

Basis basis_at(const JsonView& view) {
  const std::string text = view.text();
  const auto* const found = std::ranges::find(kBasisNames, text);
  if (found == kBasisNames.end()) {
    view.fail(fmt::format("unknown kind of energy {}", quote(text)), "there are measured, simulated, replayed");
  }
  return static_cast<Basis>(found - kBasisNames.begin());
}

void read_step(const JsonView& line, RunRecord& run, RunValidity& validity) {
  const long long number = line.at("step").integer();
  if (number != static_cast<long long>(run.steps.size())) {
    line.at("step").fail(fmt::format("step {} stands where step {} was expected", number, run.steps.size()),
                         "the file has to hold one run from its first step on, without lost lines");
  }
  RunStep step{.number = number,
               .work = number_in(line.at("tokens"), 1, kMostTokens),
               .time_s = number_in(line.at("time_s"), 0, kMostTimeS),
               .energy_j = std::nullopt,
               .loss = std::nullopt,
               .invalid = line.has("invalid") && line.at("invalid").boolean()};
  if (line.has("loss")) step.loss = line.at("loss").number();
  if (line.has("held_out_loss")) step.held_out_loss = line.at("held_out_loss").number();
  if (line.has("energy_j")) {
    step.energy_j = number_in(line.at("energy_j"), 0, kMostEnergyJ);
    const Basis basis = basis_at(line.at("energy"));
    if (run.basis && *run.basis != basis) {
      line.at("energy").fail(
          fmt::format("the run has {} and {} energies, which do not add up", name(*run.basis), name(basis)));
    }
    run.basis = basis;
  }
  run.policy = line.has("policy") ? line.at("policy").text() : "";
  validity.add({.time_s = step.time_s,
                .simulated = run.basis == Basis::simulated,
                .invalid = step.invalid,
                .continued = line.has("continued") && line.at("continued").boolean()});
  run.steps.push_back(step);
}

/// Time between two steps of a GPU's counter: energies of steps of training may be of a time longer by that.
constexpr double kCounterStepS = 0.1;
/// A step draws at most this multiple of the median power of the run's steps, and at least this share of it: an idle
/// GPU draws a twentieth of its limit and more.
constexpr double kMostOfMedian = 3;
constexpr double kLeastOfMedian = 1.0 / 30;
/// Shorter steps are judged together, too: in their sum the counter's steps do not show.
constexpr double kJudgedS = 1;
/// A run of which a larger share is doubtful has no energy.
constexpr double kMostLeftOut = 0.5;

/// Whether these steps can have taken their times and energies.
class StepJudge {
 public:
  explicit StepJudge(const std::vector<RunStep>& steps) : steps_(steps), is_doubtful_(steps.size()) {
    has_energy_ = std::ranges::all_of(steps, [](const RunStep& step) { return step.energy_j.has_value(); });
    std::vector<double> powers_w;
    for (const RunStep& step : steps) {
      if (has_energy_ && *step.energy_j > 0 && step.time_s > 0) powers_w.push_back(*step.energy_j / step.time_s);
    }
    if (powers_w.empty()) return;
    median_w_ = upper_median(std::span(powers_w));
  }

  /// By step.
  std::vector<bool> doubtful() {
    std::size_t first = 0;  // of those that are judged together: without energy, or short
    double time_s = 0;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].time_s <= 0) doubt(i, i + 1, "takes no time");
      if (!has_energy_) continue;
      judge(i, i + 1);
      time_s += steps_[i].time_s;
      const bool still = *steps_[i].energy_j == 0;
      const bool goes_on = i + 1 < steps_.size() && still == (*steps_[i + 1].energy_j == 0);
      if (goes_on && (still || time_s < kJudgedS)) continue;
      judge(first, i + 1);
      first = i + 1;
      time_s = 0;
    }
    return is_doubtful_;
  }

  /// Of the first one.
  [[nodiscard]] const std::string& reason() const { return reason_; }

 private:
  void doubt(std::size_t first, std::size_t end, const std::string& why) {
    if (reason_.empty()) {
      reason_ =
          (end - first == 1 ? fmt::format("step {} ", steps_[first].number)
                            : fmt::format("the sum of steps {} to {} ", steps_[first].number, steps_[end - 1].number)) +
          why;
    }
    for (std::size_t i = first; i < end; ++i) is_doubtful_[i] = true;
  }

  void judge(std::size_t first, std::size_t end) {
    StatedEnergy stated{.period_s = kCounterStepS,
                        .highest_power_w = std::min(kMostOfMedian * median_w_, kHighestGpuPowerW * profile::kMaxRanks)};
    for (std::size_t i = first; i < end; ++i) {
      if (is_doubtful_[i]) continue;
      stated.energy_j += *steps_[i].energy_j;
      stated.time_s += steps_[i].time_s;
    }
    const EnergyVerdict verdict = check_energy(stated);
    if (!verdict.usable()) return doubt(first, end, verdict.reason);
    if (stated.energy_j >= kLeastOfMedian * median_w_ * (stated.time_s - kLongestStepS - kCounterStepS)) return;
    doubt(first, end,
          fmt::format("shows {:.4g} J in {:.3g} s, and most steps draw {:.4g} W", stated.energy_j, stated.time_s,
                      median_w_));
  }

  const std::vector<RunStep>& steps_;
  std::vector<bool> is_doubtful_;
  bool has_energy_ = false;
  double median_w_ = 0;
  std::string reason_;
};

}  // namespace

std::string_view name(Basis basis) { return kBasisNames[static_cast<std::size_t>(basis)]; }

std::string_view name(WorkUnit unit) { return unit == WorkUnit::token ? "token" : "iteration"; }

bool RunRecord::has_energy() const {
  return std::ranges::all_of(steps, [](const RunStep& step) { return step.energy_j.has_value(); });
}

void leave_out_doubtful(RunRecord& run) {
  StepJudge judge(run.steps);
  std::vector<bool> left_out = judge.doubtful();
  const auto count = std::ranges::count(left_out, true);
  if (count == 0) return;
  const bool too_many = static_cast<double>(count) > kMostLeftOut * static_cast<double>(run.steps.size());
  RunStep others;
  others.energy_j = 0;
  for (std::size_t i = 0; i < left_out.size(); ++i) {
    RunStep& step = run.steps[i];
    if (too_many) {
      step.energy_j.reset();
      left_out[i] = step.time_s <= 0;
    }
    if (left_out[i]) continue;
    others.work += step.work;
    others.time_s += step.time_s;
    *others.energy_j += step.energy_j.value_or(0);
  }
  if (others.work <= 0) throw_input_error({run.source, 0, 0}, "no step takes any time", "record the run again");
  for (std::size_t i = 0; i < left_out.size(); ++i) {
    RunStep& step = run.steps[i];
    if (!left_out[i]) continue;
    step.time_s = step.work * others.time_s / others.work;
    if (step.energy_j) step.energy_j = step.work * *others.energy_j / others.work;
  }
  run.warnings.push_back(fmt::format("{}: {} of {} steps cannot be right ({}): {}", run.source, count, left_out.size(),
                                     judge.reason(),
                                     too_many ? "no energies and no times of 0 are used"
                                              : "their times and energies are left out, and the mean of the others "
                                                "replaces them"));
}

RunRecord read_metrics(std::string_view text, const std::string& source) {
  RunRecord run;
  run.source = source;
  RunValidity validity;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      run.warnings.push_back(fmt::format("{}:{}: the last line is cut off and left out", source, number));
      break;
    }
    const std::string line_source = fmt::format("{}:{}", source, number);
    const Json json = parse_json(text.substr(0, end), line_source, kMostValues);
    read_step(JsonView(json, line_source), run, validity);
    text.remove_prefix(end + 1);
  }
  if (run.steps.empty()) {
    throw_input_error({source, 0, 0}, "holds no step", "name a file that lowgear train --metrics has written");
  }
  run.invalid = validity.reason();
  if (const std::string note = validity.note(); !note.empty()) {
    run.warnings.push_back(fmt::format("{}: {}", source, note));
  }
  leave_out_doubtful(run);
  const auto without = std::ranges::count_if(run.steps, [](const RunStep& step) { return !step.energy_j; });
  if (run.basis && without > 0) {
    run.warnings.push_back(
        fmt::format("{}: {} of {} steps have no energy: no energy is reported", source, without, run.steps.size()));
  }
  return run;
}

RunRecord with_tokens(RunRecord run, double tokens_per_iteration) {
  if (run.unit == WorkUnit::token) return run;
  run.unit = WorkUnit::token;
  for (RunStep& step : run.steps) step.work = tokens_per_iteration;
  return run;
}

namespace {

/// Sums of the same steps in another order differ by rounding.
constexpr double kRounding = 1e-9;

void add(RunSums& sums, const RunStep& step, double share = 1) {
  sums.work += share * step.work;
  sums.time_s += share * step.time_s;
  sums.energy_j += share * step.energy_j.value_or(0);
}

/// Over the last steps with `window` of work, weighted with it; one step at least.
std::optional<double> trailing_loss(std::span<const RunStep> steps, double window) {
  double work = 0;
  double sum = 0;
  for (auto step = steps.rbegin(); step != steps.rend() && (work == 0 || work + step->work <= window * (1 + kRounding));
       ++step) {
    if (!step->loss) return std::nullopt;
    work += step->work;
    sum += step->work * *step->loss;
  }
  return work > 0 ? std::optional(sum / work) : std::nullopt;
}

/// The mean loss after the last step before which `is_within` does not fail.
template <typename IsWithin>
std::optional<double> loss_within(const RunRecord& run, double window, IsWithin is_within) {
  RunSums sums;
  std::size_t steps = 0;
  for (const RunStep& step : run.steps) {
    add(sums, step);
    if (!is_within(sums)) break;
    ++steps;
  }
  return trailing_loss(std::span(run.steps).first(steps), window);
}

}  // namespace

RunSums all_sums(const RunRecord& run) {
  RunSums sums;
  for (const RunStep& step : run.steps) add(sums, step);
  return sums;
}

RunSums sums_at_work(const RunRecord& run, double work, int first) {
  double done = 0;
  RunSums sums;
  for (const RunStep& step : run.steps) {
    const double share = std::min(1.0, (work - done) / step.work);
    if (share <= kRounding) break;
    done += share * step.work;
    if (step.number >= first) add(sums, step, share);
  }
  return sums;
}

std::size_t steps_within(const RunRecord& run, double work) {
  double end = 0;
  std::size_t steps = 0;
  for (const RunStep& step : run.steps) {
    end += step.work;
    if (end > work * (1 + kRounding)) break;
    ++steps;
  }
  return steps;
}

RunSums mean_per_work(const RunRecord& run, double work, int settling) {
  RunSums sums = sums_at_work(run, work, settling);
  if (sums.work == 0) sums = sums_at_work(run, work);
  return {.work = 1, .time_s = sums.time_s / sums.work, .energy_j = sums.energy_j / sums.work};
}

std::optional<double> loss_at_work(const RunRecord& run, double work, double window) {
  return loss_within(run, window, [=](const RunSums& sums) { return sums.work <= work * (1 + kRounding); });
}

std::optional<double> loss_at_energy(const RunRecord& run, double energy_j, double window) {
  return loss_within(run, window, [=](const RunSums& sums) { return sums.energy_j <= energy_j * (1 + kRounding); });
}

std::optional<double> held_out_loss_at_work(const RunRecord& run, double work) {
  RunSums sums;
  std::optional<double> last;
  for (const RunStep& step : run.steps) {
    add(sums, step);
    if (sums.work > work * (1 + kRounding)) break;
    if (step.held_out_loss) last = step.held_out_loss;
  }
  return last;
}

std::optional<RunSums> sums_at_loss(const RunRecord& run, double loss, double window) {
  RunSums sums;
  std::size_t first = 0;  // of the steps in the window
  double work = 0;
  double weighted = 0;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const RunStep& step = run.steps[i];
    if (!step.loss) return std::nullopt;
    add(sums, step);
    work += step.work;
    weighted += step.work * *step.loss;
    for (; first < i && work > window * (1 + kRounding); ++first) {
      work -= run.steps[first].work;
      weighted -= run.steps[first].work * *run.steps[first].loss;
    }
    if (weighted / work <= loss) return sums;
  }
  return std::nullopt;
}

}  // namespace lowgear::experiment
