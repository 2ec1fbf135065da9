#include "base/core/numbers/even_division.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/core/error.h"

namespace lowgear {
namespace {

/// Costs of parts by their elements; the same elements always cost the same to the last bit.
class PartCosts {
 public:
  explicit PartCosts(const SequenceCosts& costs) : last_(costs.last), sums_{costs.first} {
    for (const double cost : costs.elements) sums_.push_back(sums_.back() + cost);
  }

  [[nodiscard]] std::size_t size() const { return sums_.size() - 1; }
  /// Of the elements [begin, end), with what else is in such a part.
  [[nodiscard]] double operator()(std::size_t begin, std::size_t end) const {
    const double before = begin == 0 ? 0 : sums_[begin];
    return sums_[end] - before + (end == size() ? last_ : 0);
  }

 private:
  double last_;
  std::vector<double> sums_;  ///< what is before the elements, and the first i of them
};

constexpr double kNever = std::numeric_limits<double>::infinity();

/// The first place of [begin, end) of which `before` does not hold, which holds up to there; `end` when there is none.
template <typename Predicate>
std::size_t first_not(std::size_t begin, std::size_t end, Predicate before) {
  while (begin < end) {
    const std::size_t middle = begin + (end - begin) / 2;
    if (before(middle)) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

/// The least cost that the costliest of `parts` parts can have.
double least_bottleneck(const PartCosts& cost, std::size_t parts) {
  const std::size_t size = cost.size();
  // best[end]: of the first `end` elements in the parts so far, each with an element.
  std::vector<double> best(size + 1, kNever);
  for (std::size_t end = 1; end <= size; ++end) best[end] = cost(0, end);
  for (std::size_t part = 1; part < parts; ++part) {
    // From the last element down, so that the places read are still those of one part fewer.
    for (std::size_t end = size; end > part; --end) {
      // The later the last part begins, the less it costs, and the more those before it do: the best place is where
      // the two meet, or the one before.
      const std::size_t meeting =
          first_not(part, end, [&](std::size_t begin) { return best[begin] < cost(begin, end); });
      double least = kNever;
      if (meeting < end) least = best[meeting];
      if (meeting > part) least = std::min(least, cost(meeting - 1, end));
      best[end] = least;
    }
    best[part] = kNever;
  }
  return best[size];
}

/// Of the divisions whose parts cost no more than `bottleneck`, the one with the least sum of squares.
std::vector<std::int64_t> most_even_boundaries(const PartCosts& cost, std::size_t parts, double bottleneck) {
  const std::size_t size = cost.size();
  const double unit = bottleneck > 0 ? bottleneck : 1;  // so that no square overflows
  std::vector<double> best(size + 1, kNever);
  best[0] = 0;
  std::vector<std::vector<std::size_t>> begins(parts, std::vector<std::size_t>(size + 1));
  for (std::size_t part = 0; part < parts; ++part) {
    std::vector<double> next(size + 1, kNever);
    for (std::size_t end = part + 1; end <= size; ++end) {
      for (std::size_t begin = end; begin-- > part && cost(begin, end) <= bottleneck;) {
        const double share = cost(begin, end) / unit;
        const double sum = best[begin] + share * share;
        if (sum >= next[end]) continue;
        next[end] = sum;
        begins[part][end] = begin;
      }
    }
    best = std::move(next);
  }
  std::vector<std::int64_t> boundaries(parts + 1);
  std::size_t end = size;
  for (std::size_t part = parts; part-- > 0;) {
    boundaries[part + 1] = static_cast<std::int64_t>(end);
    end = begins[part][end];
  }
  return boundaries;
}

}  // namespace

std::vector<std::int64_t> divide_evenly(const SequenceCosts& costs, int parts) {
  const auto is_cost = [](double cost) { return cost >= 0 && std::isfinite(cost); };
  if (!is_cost(costs.first) || !is_cost(costs.last) || !std::ranges::all_of(costs.elements, is_cost)) {
    throw InputError("a cost is negative or not finite; give costs of 0 or more");
  }
  if (parts < 1 || costs.elements.size() < static_cast<std::size_t>(parts)) {
    throw InputError(fmt::format("{} elements cannot be divided into {} parts; give 1 to {}", costs.elements.size(),
                                 parts, costs.elements.size()));
  }
  const PartCosts cost(costs);
  const auto count = static_cast<std::size_t>(parts);
  return most_even_boundaries(cost, count, least_bottleneck(cost, count));
}

}  // namespace lowgear
