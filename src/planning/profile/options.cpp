#include "planning/profile/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/core/error.h"
#include "base/core/formats/csv.h"

namespace lowgear::profile {
namespace {

/// Whether `b` lies on the line from `a` to `c` or above it. Times rise from a to c, so both products have the sign of
/// the energy they hold; compared as they are, without a tolerance.
bool is_above_chord(const Option& a, const Option& b, const Option& c) {
  return (b.effective_energy_j - a.effective_energy_j) * (c.time_s - a.time_s) >=
         (c.effective_energy_j - a.effective_energy_j) * (b.time_s - a.time_s);
}

void check_stages(int stages) {
  if (stages < 1 || stages > kMaxStages) {
    throw InputError(fmt::format("{} stages are not in 1 to {}", stages, kMaxStages));
  }
}

bool is_blocking_power(double power_w) { return power_w >= 0 && power_w <= kMaxBlockingPowerW; }

}  // namespace

std::vector<Option> pareto_options(std::span<const Measurement> measurements, double blocking_power_w) {
  std::vector<Option> candidates;
  for (const auto& [clock_mhz, time_s, energy_j, setting, line] : measurements) {
    candidates.push_back({clock_mhz, time_s, energy_j, energy_j - blocking_power_w * time_s, setting});
  }
  std::sort(candidates.begin(), candidates.end(), [](const Option& a, const Option& b) {
    return std::tie(a.time_s, a.effective_energy_j, a.energy_j, a.clock_mhz, a.setting) <
           std::tie(b.time_s, b.effective_energy_j, b.energy_j, b.clock_mhz, b.setting);
  });
  std::vector<Option> options;
  for (const Option& candidate : candidates) {
    if (options.empty() || candidate.effective_energy_j < options.back().effective_energy_j) {
      options.push_back(candidate);
    }
  }
  return options;
}

std::vector<std::size_t> lower_convex_hull(std::span<const Option> options) {
  // Andrew's monotone chain, the lower half.
  std::vector<std::size_t> hull;
  for (std::size_t next = 0; next < options.size(); ++next) {
    while (hull.size() >= 2 && is_above_chord(options[hull[hull.size() - 2]], options[hull.back()], options[next])) {
      hull.pop_back();
    }
    hull.push_back(next);
  }
  return hull;
}

std::vector<double> read_blocking_power(std::string_view text, const std::string& source, int stages) {
  check_stages(stages);
  const CsvTable table(text, source);
  const std::size_t stage_column = table.column("stage");
  const std::size_t power_column = table.column("blocking_power");
  std::vector<std::optional<double>> found(static_cast<std::size_t>(stages));
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const long long stage = table.integer(row, stage_column);
    if (stage < 0 || stage >= stages) {
      throw_input_error(table.where(row, stage_column), fmt::format("stage {} is not in 0 to {}", stage, stages - 1),
                        "give one row for each stage of the pipeline");
    }
    const double power_w = table.number(row, power_column);
    if (!is_blocking_power(power_w)) {
      throw_input_error(table.where(row, power_column),
                        fmt::format("blocking power {} W is not in 0 to {}", power_w, kMaxBlockingPowerW));
    }
    auto& power_of_stage = found[static_cast<std::size_t>(stage)];
    if (power_of_stage) {
      throw_input_error(table.where(row, stage_column), fmt::format("stage {} occurs twice", stage),
                        "keep one of its rows");
    }
    power_of_stage = power_w;
  }
  std::vector<double> blocking_power_w;
  for (const std::optional<double>& power_w : found) {
    if (!power_w) {
      throw_input_error({source, 0, 0}, fmt::format("stage {} has no blocking power", blocking_power_w.size()),
                        fmt::format("give one row for each of the stages 0 to {}", stages - 1));
    }
    blocking_power_w.push_back(*power_w);
  }
  return blocking_power_w;
}

}  // namespace lowgear::profile
