#include "planning/api/plan_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lowgear::api {
namespace {

constexpr int kDefaultPlans = 20;
constexpr double kPercent = 100;
constexpr double kSameTime = 1e-6;  // relative: nobody wants two plans that differ by less

}  // namespace

double deadline_or_fastest_s(double deadline_s, double fastest_s) {
  constexpr double kPrintedRounding = 1e-5;
  const bool is_printed = deadline_s < fastest_s && deadline_s >= fastest_s * (1 - kPrintedRounding);
  return is_printed ? fastest_s : deadline_s;
}

std::optional<double> single_deadline_s(const Deadlines& deadlines, double fastest_s, double slowest_s) {
  if (deadlines.deadline_s) return deadline_or_fastest_s(*deadlines.deadline_s, fastest_s);
  if (deadlines.slowdown_pct) return fastest_s * (1 + *deadlines.slowdown_pct / kPercent);
  if (deadlines.straggler_factor) return std::min(*deadlines.straggler_factor * fastest_s, slowest_s);
  return std::nullopt;
}

std::optional<std::string> beyond_least_energy(std::optional<double> deadline_s, double slowest_s) {
  if (!deadline_s || *deadline_s <= slowest_s * (1 + kDeadlineRounding)) return std::nullopt;
  return fmt::format(
      "the deadline of {:.6g} s is later than T* = {:.6g} s, the time of least energy: a slower iteration only uses "
      "more, so the plan is for T*",
      *deadline_s, slowest_s);
}

std::vector<double> deadlines_s(const Deadlines& deadlines, const FrontierTimes& range) {
  const auto [fastest_s, slowest_s, reference_s] = range;
  if (const auto single = single_deadline_s(deadlines, fastest_s, slowest_s)) return {*single};
  const int count = fastest_s < slowest_s ? deadlines.plans.value_or(kDefaultPlans) : 1;
  std::vector<double> times_s;
  for (int i = 0; i < count; ++i) {
    const double share = count > 1 ? static_cast<double>(i) / (count - 1) : 0;
    times_s.push_back(i + 1 == count && count > 1 ? slowest_s : fastest_s + share * (slowest_s - fastest_s));
  }
  const bool is_between = reference_s > fastest_s * (1 + kSameTime) && reference_s < slowest_s * (1 - kSameTime);
  if (count < 3 || !is_between) return times_s;
  const auto distance_s = [&](double time_s) { return std::abs(time_s - range.reference_s); };
  *std::ranges::min_element(times_s.begin() + 1, times_s.end() - 1, {}, distance_s) = reference_s;
  return times_s;
}

}  // namespace lowgear::api
