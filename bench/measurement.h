#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>
#include <vector>

namespace lowgear::bench {

/// Repeated measurements of one thing.
struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};

/// `values` must not be empty.
[[nodiscard]] Spread spread_of(std::vector<double> values);

/// The value that this part of the values does not exceed.
[[nodiscard]] double quantile(std::vector<double> values, double fraction);

/// Mean and largest of many figures.
class Extent {
 public:
  void add(double value);
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] double mean() const { return sum_ / static_cast<double>(count_); }
  [[nodiscard]] double max() const { return max_; }

 private:
  std::size_t count_ = 0;
  double sum_ = 0;
  double max_ = 0;
};

/// Wall clock of one call.
template <typename Function>
[[nodiscard]] double seconds_of(Function&& function) {
  const auto begin = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The deadlines that plans are judged at: 100, evenly over [T_min, T*], both ends included.
[[nodiscard]] std::vector<double> even_deadlines_s(double fastest_s, double slowest_s);

/// Times that are sums of the same terms in another order, or of whole picoseconds, differ by less (relative).
inline constexpr double kTimeTolerance = 1e-9;

/// A figure with the number that it should reach, as one line `target: | what | figure | reach | reached |`, which
/// bench/results.sh collects into the first table of bench/RESULTS.md.
void print_target(std::string_view what, std::string_view figure, std::string_view reach, bool reached);

/// The main of a study that the system may fail: runs it, and says on standard error what went wrong. Returns the
/// program's exit status.
[[nodiscard]] int run_study(void (*study)());

}  // namespace lowgear::bench
