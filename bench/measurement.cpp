#include "measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <exception>

namespace lowgear::bench {

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

double quantile(std::vector<double> values, double fraction) {
  const auto position = static_cast<std::ptrdiff_t>(fraction * static_cast<double>(values.size() - 1) + 0.5);
  std::ranges::nth_element(values, values.begin() + position);
  return values.at(static_cast<std::size_t>(position));
}

void Extent::add(double value) {
  max_ = count_ == 0 ? value : std::max(max_, value);
  sum_ += value;
  ++count_;
}

std::vector<double> even_deadlines_s(double fastest_s, double slowest_s) {
  constexpr int kDeadlines = 100;
  std::vector<double> deadlines_s;
  for (int k = 0; k < kDeadlines - 1; ++k) {
    deadlines_s.push_back(fastest_s + (slowest_s - fastest_s) * k / (kDeadlines - 1));
  }
  deadlines_s.push_back(slowest_s);
  return deadlines_s;
}

void print_target(std::string_view what, std::string_view figure, std::string_view reach, bool reached) {
  fmt::print("target: | {} | {} | {} | {} |\n", what, figure, reach, reached ? "yes" : "**no**");
}

int run_study(void (*study)()) {
  try {
    study();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return EXIT_FAILURE;
  }
}

}  // namespace lowgear::bench
