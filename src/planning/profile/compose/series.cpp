#include "planning/profile/compose/series.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace lowgear::profile {
namespace {

/// Whether `b` lies on the line from `a` to `c` or above it. Times rise from `a` to `c`.
template <typename Point>
bool is_above_chord(const Point& a, const Point& b, const Point& c) {
  return (b.energy_j - a.energy_j) * (c.time_s - a.time_s) >= (c.energy_j - a.energy_j) * (b.time_s - a.time_s);
}

/// Indices of the vertices of the lower convex hull of a part's options, fastest first.
std::vector<std::size_t> hull_of(std::span<const PartOption> options) {
  std::vector<std::size_t> by_time(options.size());
  for (std::size_t i = 0; i < options.size(); ++i) by_time[i] = i;
  std::ranges::sort(by_time, [&](std::size_t a, std::size_t b) {
    return std::tie(options[a].time_s, options[a].energy_j, options[a].setting) <
           std::tie(options[b].time_s, options[b].energy_j, options[b].setting);
  });
  std::vector<std::size_t> hull;
  for (const std::size_t next : by_time) {
    if (!hull.empty() && options[next].time_s == options[hull.back()].time_s) continue;
    while (hull.size() >= 2 && is_above_chord(options[hull[hull.size() - 2]], options[hull.back()], options[next])) {
      hull.pop_back();
    }
    hull.push_back(next);
  }
  return hull;
}

/// A step along the hull of one part, to its next slower option.
struct Segment {
  double slope_w = 0;  ///< energy over time: negative where the slower option saves energy
  std::size_t part = 0;
  std::size_t to = 0;  ///< index of the slower option
};

SeriesOption total(std::span<const SeriesPart> parts, std::vector<std::size_t> choice) {
  SeriesOption sum;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const PartOption& option = parts[part].options[choice[part]];
    sum.time_s += parts[part].count * option.time_s;
    sum.energy_j += parts[part].count * option.energy_j;
  }
  sum.choice = std::move(choice);
  return sum;
}

/// Height of `b` below the chord from `a` to `c`.
double height_j(const SeriesOption& a, const SeriesOption& b, const SeriesOption& c) {
  const double share = (b.time_s - a.time_s) / (c.time_s - a.time_s);
  return a.energy_j + share * (c.energy_j - a.energy_j) - b.energy_j;
}

}  // namespace

std::vector<SeriesOption> compose_series(std::span<const SeriesPart> parts, double steepest_w) {
  std::vector<std::size_t> choice;
  std::vector<Segment> segments;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::vector<PartOption>& options = parts[part].options;
    assert(!options.empty());
    const std::vector<std::size_t> hull = hull_of(options);
    choice.push_back(hull.front());
    double before_w = -std::numeric_limits<double>::infinity();
    for (std::size_t k = 1; k < hull.size(); ++k) {
      const PartOption& from = options[hull[k - 1]];
      const PartOption& to = options[hull[k]];
      // A part's slopes rise; where rounding says otherwise they are equal, so that its options keep their order.
      before_w = std::max(before_w, (to.energy_j - from.energy_j) / (to.time_s - from.time_s));
      if (before_w < steepest_w) segments.push_back({before_w, part, hull[k]});
    }
  }
  std::ranges::stable_sort(segments, {}, &Segment::slope_w);
  std::vector<SeriesOption> vertices{total(parts, choice)};
  for (std::size_t k = 0; k < segments.size(); ++k) {
    choice[segments[k].part] = segments[k].to;
    const bool is_collinear = k + 1 < segments.size() && segments[k + 1].slope_w == segments[k].slope_w;
    if (is_collinear) continue;
    SeriesOption next = total(parts, choice);
    if (next.time_s > vertices.back().time_s) vertices.push_back(std::move(next));
  }
  return vertices;
}

std::vector<SeriesOption> thinned(std::vector<SeriesOption> hull, std::size_t max_options) {
  assert(max_options >= 2);
  if (hull.size() <= max_options) return hull;
  std::vector<std::size_t> before(hull.size());
  std::vector<std::size_t> after(hull.size());
  std::vector<double> height(hull.size(), std::numeric_limits<double>::infinity());
  std::set<std::pair<double, std::size_t>> inner;  // those that can go, the least missed first
  for (std::size_t i = 0; i < hull.size(); ++i) {
    before[i] = i - 1;
    after[i] = i + 1;
    if (i == 0 || i + 1 == hull.size()) continue;
    height[i] = height_j(hull[i - 1], hull[i], hull[i + 1]);
    inner.emplace(height[i], i);
  }
  for (std::size_t left = hull.size(); left > max_options; --left) {
    const std::size_t gone = inner.begin()->second;
    inner.erase(inner.begin());
    after[before[gone]] = after[gone];
    before[after[gone]] = before[gone];
    height[gone] = -1;
    for (const std::size_t neighbour : {before[gone], after[gone]}) {
      if (neighbour == 0 || neighbour + 1 == hull.size()) continue;
      inner.erase({height[neighbour], neighbour});
      height[neighbour] = height_j(hull[before[neighbour]], hull[neighbour], hull[after[neighbour]]);
      inner.emplace(height[neighbour], neighbour);
    }
  }
  std::vector<SeriesOption> kept;
  for (std::size_t i = 0; i < hull.size(); i = after[i]) kept.push_back(std::move(hull[i]));
  return kept;
}

SeriesGap gap_of(std::span<const SeriesOption> hull, std::span<const SeriesOption> kept) {
  SeriesGap gap;
  std::size_t next = 1;
  for (const SeriesOption& vertex : hull) {
    while (next + 1 < kept.size() && kept[next].time_s < vertex.time_s) ++next;
    if (next >= kept.size()) break;
    const double above_j = height_j(kept[next - 1], vertex, kept[next]);
    if (above_j > 0) gap.thinned = std::max(gap.thinned, above_j / vertex.energy_j);
  }
  for (std::size_t k = 1; k < kept.size(); ++k) {
    gap.step = std::max(gap.step, (kept[k - 1].energy_j - kept[k].energy_j) / kept[k].energy_j);
  }
  return gap;
}

std::string setting_of(const SeriesOption& option, std::span<const SeriesPart> parts) {
  std::string text;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::string& setting = parts[part].options[option.choice[part]].setting;
    if (setting.empty()) continue;
    if (!text.empty()) text += ';';
    text += parts[part].name + '=' + setting;
  }
  return text;
}

}  // namespace lowgear::profile
