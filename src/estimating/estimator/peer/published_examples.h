#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "estimating/estimator/peer/fitted_times.h"

namespace lowgear::estimator {

/// A job that the published estimator has as an example.
struct PublishedExample {
  std::string_view name;            ///< `llemma-7b-perlmutter`
  std::string_view published_name;  ///< `llemma_7b_4_2_2_P`
  std::string_view summary;         ///< one line
};

[[nodiscard]] std::span<const PublishedExample> published_examples();

/// By either of its names. Throws InputError with the names that there are.
[[nodiscard]] const PublishedExample& published_example(std::string_view name);

/// The example's job in the published estimator's format, with comments.
[[nodiscard]] std::string_view example_job(const PublishedExample& example);

/// The times that a job's folder names: those fitted for the example where it is `packaged:perlmutter` and the like;
/// nothing where it names a folder. Throws InputError on a package that there is not.
[[nodiscard]] std::optional<FittedTimes> packaged_times(std::string_view folder);

}  // namespace lowgear::estimator
