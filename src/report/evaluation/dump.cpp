#include "report/evaluation/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/core/error.h"
#include "base/core/formats/json.h"

namespace lowgear::evaluation {
namespace {

constexpr std::string_view kProfileEnd = ".prof.json";
constexpr std::string_view kStatesEnd = ".sched.json";

std::optional<int> number_before(std::string_view name, std::string_view end) {
  constexpr std::size_t kMostDigits = 6;
  if (!name.ends_with(end)) return std::nullopt;
  name.remove_suffix(end.size());
  if (name.empty() || name.size() > kMostDigits) return std::nullopt;
  int number = 0;
  for (const char digit : name) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = 10 * number + (digit - '0');
  }
  return number;
}

void require_ranks(const JsonView& ranks) {
  if (ranks.size() == 0) ranks.fail("no rank has reported");
  std::set<long long> seen;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const JsonView rank = ranks.at(i).at("rank");
    if (!seen.insert(rank.integer()).second) rank.fail(fmt::format("rank {} is there twice", rank.integer()));
  }
}

/// The mean over iterations of what `combine` makes of all ranks.
template <typename Combine>
double mean_of_iterations(const JsonView& ranks, std::string_view member, const Combine& combine) {
  const std::size_t iterations = ranks.at(std::size_t{0}).at(member).size();
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const JsonView values = ranks.at(rank).at(member);
    if (values.size() == iterations) continue;
    values.fail(fmt::format("{} iterations, where the first rank has {}", values.size(), iterations));
  }
  if (iterations <= kWarmUpIterations) {
    ranks.at(std::size_t{0})
        .at(member)
        .fail(fmt::format("{} iterations, of which the first {} are warm-up", iterations, kWarmUpIterations),
              "measure more iterations in a window");
  }
  double sum = 0;
  for (std::size_t iteration = kWarmUpIterations; iteration < iterations; ++iteration) {
    double value = 0;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const JsonView measured = ranks.at(rank).at(member).at(iteration);
      if (measured.number() < 0) measured.fail(fmt::format("{} is negative", measured.number()));
      value = combine(value, measured.number());
    }
    sum += value;
  }
  return sum / static_cast<double>(iterations - kWarmUpIterations);
}

/// Of windows 0 and 1, as far as they are there.
void set_baseline(Dump& dump) {
  PipelineFigures sum;
  std::vector<const Window*> parts;
  for (const Window& window : dump.windows) {
    if (window.number >= kWarmUpWindows) continue;
    sum.time_s += window.figures.time_s;
    sum.energy_j += window.figures.energy_j;
    parts.push_back(&window);
  }
  if (parts.empty()) {
    dump.note = "windows 0 and 1, which the others are compared with, are not there";
    return;
  }
  const auto count = static_cast<double>(parts.size());
  dump.baseline = {sum.time_s / count, sum.energy_j / count};
  if (parts.size() < kWarmUpWindows) {
    dump.note = fmt::format("window {} is not there: the baseline is window {} alone", 1 - parts.front()->number,
                            parts.front()->number);
    return;
  }
  int highest = 0;
  for (const Window& window : dump.windows) {
    if (window.states) highest = std::max(highest, window.states->second);
  }
  const bool lower = std::ranges::any_of(
      parts, [highest](const Window* window) { return window->states && window->states->first < highest; });
  if (lower) {
    dump.note = fmt::format(
        "windows 0 and 1 did not run at {} alone, the highest power state of the job: they are no "
        "baseline at full clocks (warmup_iters of the scheduler)",
        highest);
  }
}

}  // namespace

std::optional<int> profile_number(std::string_view file_name) { return number_before(file_name, kProfileEnd); }

std::optional<int> states_number(std::string_view file_name) { return number_before(file_name, kStatesEnd); }

PipelineFigures window_figures(std::string_view profile_json, const std::string& source) {
  const Json document = parse_json(profile_json, source);
  const JsonView ranks(document, source);
  require_ranks(ranks);
  return {mean_of_iterations(ranks, "iter_time", [](double a, double b) { return std::max(a, b); }),
          mean_of_iterations(ranks, "iter_energy", [](double a, double b) { return a + b; })};
}

std::pair<int, int> window_states(std::string_view states_json, const std::string& source) {
  const Json document = parse_json(states_json, source);
  const JsonView ranks(document, source);
  require_ranks(ranks);
  std::optional<std::pair<int, int>> range;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const JsonView states = ranks.at(rank).at("power_states");
    for (std::size_t i = 0; i < states.size(); ++i) {
      constexpr long long kHighest = 100'000;
      const long long value = states.at(i).integer();
      if (value < 1 || value > kHighest) states.at(i).fail(fmt::format("{} is no power state", value));
      const int state = static_cast<int>(value);
      if (!range) range = {state, state};
      range = {std::min(range->first, state), std::max(range->second, state)};
    }
  }
  if (!range) ranks.fail("no rank has a power state");
  return *range;
}

Dump compare_windows(std::string folder, std::vector<Window> windows) {
  Dump dump{.folder = std::move(folder), .windows = std::move(windows), .baseline = std::nullopt};
  std::ranges::sort(dump.windows, {}, &Window::number);
  set_baseline(dump);
  if (!dump.baseline || dump.baseline->time_s <= 0 || dump.baseline->energy_j <= 0) return dump;
  for (Window& window : dump.windows) {
    if (window.number < kWarmUpWindows) continue;
    window.saving_pct = simulator::saving_pct(dump.baseline->energy_j, window.figures.energy_j);
    window.slowdown_pct = -simulator::saving_pct(dump.baseline->time_s, window.figures.time_s);
  }
  return dump;
}

}  // namespace lowgear::evaluation
