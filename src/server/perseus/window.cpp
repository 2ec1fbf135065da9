#include "server/perseus/window.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "base/core/energy/energy_check.h"
#include "base/core/error.h"

namespace lowgear::server::perseus {
namespace {

/// Results of the ranks that share a position, put together.
struct Pooled {
  std::vector<double> time_s;
  std::vector<double> energy_j;
};

enum class Pooling : unsigned char { longest, sum };

/// Pools lists of equal length, element by element.
void pool(std::vector<double>& into, std::span<const double> values, Pooling pooling) {
  if (into.empty()) {
    into.assign(values.begin(), values.end());
    return;
  }
  for (std::size_t i = 0; i < into.size(); ++i) {
    into[i] = pooling == Pooling::longest ? std::max(into[i], values[i]) : into[i] + values[i];
  }
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

[[noreturn]] void refuse(int rank, std::string_view what, std::string_view fix) {
  throw InputError(fmt::format("result of rank {}: {}; {}", rank, what, fix));
}

void require_equal(std::size_t expected, const Result& result, std::size_t given, std::string_view what) {
  if (expected == given) return;
  refuse(result.rank, fmt::format("{} {}, where another rank of its stage has {}", given, what, expected),
         "all ranks of a stage run the same iterations");
}

/// Values of one kind of instruction after the warm-up, iteration after iteration. Empty when it was not measured.
std::vector<double> values_of(const Breakdown& breakdown, Instruction kind, std::size_t skipped) {
  std::vector<double> values;
  const auto found = breakdown.find(kind);
  if (found == breakdown.end()) return values;
  for (std::size_t i = skipped; i < found->second.size(); ++i) {
    values.insert(values.end(), found->second[i].begin(), found->second[i].end());
  }
  return values;
}

/// Joules of one GPU, which all schedulers compare: millijoules and sums over GPUs are none.
void require_possible(const Result& result, std::size_t skipped) {
  for (std::size_t i = skipped; i < result.iteration_time_s.size(); ++i) {
    if (result.iteration_time_s[i] <= 0) continue;  // refused by its time
    const EnergyVerdict verdict =
        check_energy({.energy_j = result.iteration_energy_j[i], .time_s = result.iteration_time_s[i]});
    if (verdict.fault != EnergyFault::too_high) continue;
    refuse(result.rank, fmt::format("the energy of an iteration {}", verdict.reason),
           "report seconds, and the joules of one GPU");
  }
}

Pooled pool_iterations(std::span<const Result* const> ranks, std::size_t skipped) {
  Pooled pooled;
  for (const Result* rank : ranks) {
    pool(pooled.time_s, std::span(rank->iteration_time_s).subspan(skipped), Pooling::longest);
    pool(pooled.energy_j, std::span(rank->iteration_energy_j).subspan(skipped), Pooling::sum);
  }
  return pooled;
}

/// Empty when the ranks did not measure this kind. Without energies when any of them did not measure those.
std::optional<Unit> pool_units(std::span<const Result* const> ranks, Instruction kind, std::size_t skipped,
                               std::size_t iterations) {
  Pooled pooled;
  bool have_energies = true;
  for (const Result* rank : ranks) {
    const std::vector<double> times = values_of(rank->time_s, kind, skipped);
    if (!pooled.time_s.empty() || rank != ranks.front()) {
      require_equal(pooled.time_s.size(), *rank, times.size(), fmt::format("times of {}", name(kind)));
    }
    pool(pooled.time_s, times, Pooling::longest);
    const std::vector<double> energies = values_of(rank->energy_j, kind, skipped);
    if (!energies.empty() && energies.size() != times.size()) {
      refuse(rank->rank, fmt::format("{} energies for {} times of {}", energies.size(), times.size(), name(kind)),
             "give one for each, or none");
    }
    have_energies = have_energies && !energies.empty();
    if (have_energies) pool(pooled.energy_j, energies, Pooling::sum);
  }
  if (pooled.time_s.empty()) return std::nullopt;
  Unit unit;
  unit.per_iteration = static_cast<double>(pooled.time_s.size()) / static_cast<double>(iterations);
  unit.time_s = mean(pooled.time_s);
  if (have_energies) unit.energy_j = mean(pooled.energy_j);
  return unit;
}

Window condense_position(std::span<const Result* const> ranks, double warmup_step_ratio) {
  const Result& first = *ranks.front();
  const std::size_t reported = first.iteration_time_s.size();
  for (const Result* rank : ranks) {
    require_equal(reported, *rank, rank->iteration_time_s.size(), "iterations");
  }
  const std::size_t skipped =
      std::max<std::size_t>(static_cast<std::size_t>(static_cast<double>(reported) * warmup_step_ratio), 1);
  if (reported <= skipped) {
    refuse(first.rank, fmt::format("{} iterations, of which the first {} are warm-up", reported, skipped),
           "report more iterations of a window");
  }
  for (const Result* rank : ranks) require_possible(*rank, skipped);
  const Pooled iterations = pool_iterations(ranks, skipped);
  std::vector<double> power_w;
  for (std::size_t i = 0; i < iterations.time_s.size(); ++i) {
    if (iterations.time_s[i] <= 0) refuse(first.rank, "an iteration that took no time", "report seconds");
    power_w.push_back(iterations.energy_j[i] / iterations.time_s[i]);
  }
  Window window;
  window.iteration_time_s = mean(iterations.time_s);
  window.iteration_energy_j = mean(iterations.energy_j);
  window.power_w = mean(power_w);
  window.forward = pool_units(ranks, Instruction::forward, skipped, iterations.time_s.size());
  window.backward = pool_units(ranks, Instruction::backward, skipped, iterations.time_s.size());
  return window;
}

Json to_json(const std::optional<Unit>& unit) {
  if (!unit) return nullptr;
  return {{"per_iteration", unit->per_iteration},
          {"time_s", unit->time_s},
          {"energy_j", unit->energy_j ? Json(*unit->energy_j) : Json(nullptr)}};
}

std::optional<Unit> read_unit(const JsonView& view) {
  if (view.json().is_null()) return std::nullopt;
  Unit unit;
  unit.per_iteration = view.at("per_iteration").number();
  unit.time_s = view.at("time_s").number();
  if (!view.at("energy_j").json().is_null()) unit.energy_j = view.at("energy_j").number();
  return unit;
}

}  // namespace

Layout rank_layout(const JobInfo& job, std::span<const RankInfo> ranks) {
  Layout layout;
  layout.job = job;
  layout.positions.assign(ranks.begin(), ranks.end());
  layout.position_of_rank.resize(ranks.size());
  std::iota(layout.position_of_rank.begin(), layout.position_of_rank.end(), 0);
  layout.power_states = ranks.front().power_states;
  return layout;
}

Layout stage_layout(const JobInfo& job, std::span<const RankInfo> ranks) {
  Layout layout;
  layout.job = job;
  layout.positions.resize(static_cast<std::size_t>(job.pp_degree));
  for (const RankInfo& rank : ranks) {
    layout.position_of_rank.push_back(rank.pp_rank);
    layout.positions.at(static_cast<std::size_t>(rank.pp_rank)) = rank;
  }
  layout.power_states = ranks.front().power_states;
  return layout;
}

std::vector<Window> condense(const Layout& layout, std::span<const Result> results, double warmup_step_ratio) {
  std::vector<std::vector<const Result*>> by_position(layout.positions.size());
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    by_position.at(static_cast<std::size_t>(layout.position_of_rank.at(rank))).push_back(&results[rank]);
  }
  std::vector<Window> windows;
  windows.reserve(by_position.size());
  for (const auto& ranks : by_position) windows.push_back(condense_position(ranks, warmup_step_ratio));
  return windows;
}

Json to_json(std::span<const Window> windows) {
  Json list = Json::array();
  for (const Window& window : windows) {
    list.push_back({{"time_s", window.iteration_time_s},
                    {"energy_j", window.iteration_energy_j},
                    {"power_w", window.power_w},
                    {"forward", to_json(window.forward)},
                    {"backward", to_json(window.backward)}});
  }
  return list;
}

std::vector<Window> read_perseus_windows(const JsonView& view) {
  std::vector<Window> windows;
  for (std::size_t i = 0; i < view.size(); ++i) {
    const JsonView element = view.at(i);
    windows.push_back({element.at("time_s").number(), element.at("energy_j").number(), element.at("power_w").number(),
                       read_unit(element.at("forward")), read_unit(element.at("backward"))});
  }
  return windows;
}

}  // namespace lowgear::server::perseus
