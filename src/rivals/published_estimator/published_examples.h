#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "rivals/published_estimator/published_formula.h"

namespace lowgear::published_estimator {

/// Times by power laws around one shape, from a table that was fitted to sampling files: it replaces samples and is
/// read at once.
class FittedTimes : public PublishedTimes {
 public:
  /// The shape at which the times of the table hold.
  static constexpr estimator::SampledShape kReference{
      .ranks = 2, .batch = 4, .heads = 32, .sequence = 4096, .hidden = 4096};
  /// Largest factor between a size and that of the reference: the range of the fits.
  static constexpr double kReach = 4;

  /// Reads `function,pass,nodes,GPUsPerNode,at,time(us)` and the exponents of `mp,b,h,l,dim,at`. `at` is the number of
  /// layers of an optimizer's stage, or of elements of a collective, at which the time holds. Throws InputError with
  /// line and column.
  FittedTimes(std::string_view csv, std::string source);

  /// Throws InputError if the table lacks the function, and on sizes beyond kReach.
  [[nodiscard]] double operator_s(const estimator::SampledFunction& function, const estimator::SampledShape& shape,
                                  estimator::Pass pass) const override;
  [[nodiscard]] double collective_s(std::string_view function, std::int64_t elements, int nodes,
                                    int per_node) const override;

 private:
  static constexpr int kSizes = 6;
  struct Fit {
    double at = 0;
    double time_s = 0;
    std::array<double, kSizes> exponents{};
  };
  using Key = std::tuple<std::string, std::string, long long, long long>;  ///< function, pass, nodes, GPUs per node

  [[nodiscard]] const Fit& find(const Key& key) const;
  /// `ratios`: each size over that of the reference.
  [[nodiscard]] double scaled_s(const Key& key, const Fit& fit, const std::array<double, kSizes>& ratios) const;

  std::string source_;
  std::map<Key, Fit> fits_;
};

/// An example job of the published estimator.
struct PublishedExample {
  std::string_view name;            ///< `llemma-7b-perlmutter`
  std::string_view published_name;  ///< `llemma_7b_4_2_2_P`
  std::string_view summary;         ///< one line
};

[[nodiscard]] std::span<const PublishedExample> published_examples();

/// The example with this name or its other one. Throws InputError that lists the names.
[[nodiscard]] const PublishedExample& published_example(std::string_view name);

/// The example's job in the published estimator's format, with comments.
[[nodiscard]] std::string_view example_job(const PublishedExample& example);

/// The fitted times that a job names instead of a folder, such as `packaged:perlmutter`. Empty for a real folder.
/// Throws InputError on an unknown package.
[[nodiscard]] std::optional<FittedTimes> packaged_times(std::string_view folder);

}  // namespace lowgear::published_estimator
