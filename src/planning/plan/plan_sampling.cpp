#include "planning/plan/plan_sampling.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/core/error.h"
#include "base/core/numbers/number.h"

namespace lowgear::plan {
namespace {

constexpr std::string_view kEvery = "every:";
constexpr int kMostPlans = 10'000'000;  // rows of the longest frontier that Perseus' model makes

}  // namespace

PlanSampling read_plan_sampling(std::string_view text) {
  if (text == "all") return {};
  const bool is_distance = text.starts_with(kEvery);
  const auto number = parse_integer(is_distance ? text.substr(kEvery.size()) : text);
  if (!number || *number < 1 || *number > kMostPlans) {
    throw InputError(
        fmt::format("expected all, a number of plans as 20, or every:50 for every 50th plan, not {}", quote(text)));
  }
  const int value = static_cast<int>(*number);
  return is_distance ? PlanSampling{.every = value} : PlanSampling{.count = value};
}

std::vector<std::size_t> sampled_places(std::size_t total, const PlanSampling& sampling) {
  std::vector<std::size_t> places;
  if (total == 0) return places;
  const std::size_t last = total - 1;
  if (!sampling.count) {
    for (std::size_t place = 0; place < last; place += static_cast<std::size_t>(sampling.every)) {
      places.push_back(place);
    }
  } else {
    const std::size_t count = std::min(total, static_cast<std::size_t>(*sampling.count));
    for (std::size_t i = 0; i + 1 < count; ++i) places.push_back(i * last / (count - 1));
  }
  places.push_back(last);
  return places;
}

}  // namespace lowgear::plan
