#pragma once

#include <string>
#include <vector>

namespace lowgear::bench {

/// One line of the first table: a check with the number that it should reach.
struct AccuracyTarget {
  std::string check;
  std::string figure;
  std::string reach;
  bool reached = false;
};

/// A plot next to the text.
struct PlotFile {
  std::string name;  ///< `published.svg`
  std::string svg;
};

/// A part of bench/ACCURACY.md.
struct AccuracySection {
  std::string markdown;  ///< with its heading
  std::vector<AccuracyTarget> targets;
  std::vector<PlotFile> plots;  ///< that the markdown refers to as accuracy/NAME
};

/// Iterations of published runs against analytic estimates. As the others: what needs reference data that is not in
/// ../shared/data says so.
[[nodiscard]] AccuracySection iteration_section();

/// States and activations of Korthikanti et al. 2022, table 5.
[[nodiscard]] AccuracySection memory_section();

/// Regressors on sampled operators: held-out samples, at random and the largest.
[[nodiscard]] AccuracySection operator_section();

/// `--peer-formula` against what the published estimator itself says.
[[nodiscard]] AccuracySection peer_section();

/// What a plan made from an estimate saves, against one made from a measured stage profile.
[[nodiscard]] AccuracySection saving_section();

/// How fast layouts are searched, and how good the energy is that they are ranked by.
[[nodiscard]] AccuracySection search_section();

}  // namespace lowgear::bench
