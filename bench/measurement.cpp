#include "measurement.h"

#include <fmt/format.h>

#include <algorithm>

namespace lowgear::bench {

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

void Extent::add(double value) {
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = count_ == 0 ? value : std::max(max_, value);
  sum_ += value;
  ++count_;
}

void print_target(std::string_view what, std::string_view figure, std::string_view reach, bool reached) {
  fmt::print("target: | {} | {} | {} | {} |\n", what, figure, reach, reached ? "yes" : "**no**");
}

}  // namespace lowgear::bench
