#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace lowgear::profile {

/// One way to run a part of an op.
struct PartOption {
  double time_s = 0;    ///< 0 or more
  double energy_j = 0;  ///< of one GPU over that time, 0 or more
  std::string setting;  ///< empty: nothing is set
};

/// A part of an op: its partitions of layers, or a fixed overhead, which has one option.
struct SeriesPart {
  std::string name;
  int count = 1;                    ///< how many times the op runs it; all of them with the same option
  std::vector<PartOption> options;  ///< never empty
};

/// One way to run all parts of an op, one after the other.
struct SeriesOption {
  double time_s = 0;
  double energy_j = 0;
  std::vector<std::size_t> choice;  ///< by part: the index of its option
};

/// The vertices of the lower convex hull of (time, energy) over all choices of one option for each part, fastest first:
/// of the product of all options, in the time of sorting their sum. The hull of a Minkowski sum is the sum of the
/// hulls, so that the segments of the parts' hulls, merged by slope, are the segments of the whole (docs/planner.md).
/// It goes from the fastest choice along all segments that rise by less than `steepest_w`: a GPU that waits draws
/// blocking power, so that up to that slope a slower, dearer choice may still be worth its time. Neighbours differ in
/// the options of those parts alone whose segments have the slope between them, in most cases of one part. Exact on the
/// hull; choices strictly above it are not among the result.
[[nodiscard]] std::vector<SeriesOption> compose_series(std::span<const SeriesPart> parts, double steepest_w);

/// Energy lost by omitted options, as shares of the energy of the whole.
struct SeriesGap {
  /// By how much the chain through the options lies above the hull, at most. 0 where all vertices were kept.
  double thinned = 0;
  /// Largest step of energy between neighbouring options: with a time between those of two options, the faster one has
  /// to be used; no choice of the parts uses less by more than this.
  double step = 0;
};

/// `hull`, as `compose_series` returns it, with at most `max_options` (2 or more) of its vertices: the ends, and others
/// from which one by one that of the least height below its neighbours' chord was removed. O(n log n).
[[nodiscard]] std::vector<SeriesOption> thinned(std::vector<SeriesOption> hull, std::size_t max_options);

/// Of `kept` out of `hull`.
[[nodiscard]] SeriesGap gap_of(std::span<const SeriesOption> hull, std::span<const SeriesOption> kept);

/// The option's setting: `attn=sm12;mlp=sm6`, the parts in their order, without those for which nothing is set.
[[nodiscard]] std::string setting_of(const SeriesOption& option, std::span<const SeriesPart> parts);

}  // namespace lowgear::profile
