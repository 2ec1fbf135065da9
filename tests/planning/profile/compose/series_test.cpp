#include "planning/profile/compose/series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace lowgear::profile {
namespace {

using testing::ElementsAre;
using testing::FieldsAre;

constexpr double kAnySlope = std::numeric_limits<double>::infinity();

/// Every choice of one option for each part.
std::vector<SeriesOption> all_choices(const std::vector<SeriesPart>& parts) {
  std::vector<SeriesOption> all{{0, 0, {}}};
  for (const SeriesPart& part : parts) {
    std::vector<SeriesOption> longer;
    for (const SeriesOption& shorter : all) {
      for (std::size_t k = 0; k < part.options.size(); ++k) {
        SeriesOption& option = longer.emplace_back(shorter);
        option.time_s += part.count * part.options[k].time_s;
        option.energy_j += part.count * part.options[k].energy_j;
        option.choice.push_back(k);
      }
    }
    all = std::move(longer);
  }
  return all;
}

/// Whether no line between two points of `all`, nor a point, lies at or below `point`, itself excepted: by definition,
/// and apart from ends. For each slope at which the point could be best it is compared with all.
std::vector<std::pair<double, double>> brute_force_hull(const std::vector<SeriesPart>& parts) {
  std::vector<std::pair<double, double>> points;
  for (const SeriesOption& option : all_choices(parts)) points.emplace_back(option.time_s, option.energy_j);
  std::ranges::sort(points);
  const auto same_time = [](const auto& a, const auto& b) { return a.first == b.first; };
  points.erase(std::unique(points.begin(), points.end(), same_time), points.end());
  // Gift wrapping: from the fastest point always along the line that falls most steeply.
  std::vector<std::pair<double, double>> hull{points.front()};
  for (std::size_t at = 0; at + 1 < points.size();) {
    std::size_t best = at + 1;
    for (std::size_t to = at + 1; to < points.size(); ++to) {
      const double cross = (points[to].second - points[at].second) * (points[best].first - points[at].first) -
                           (points[best].second - points[at].second) * (points[to].first - points[at].first);
      if (cross <= 0) best = to;  // of equal slopes the farthest
    }
    hull.push_back(points[best]);
    at = best;
  }
  return hull;
}

std::vector<SeriesPart> random_parts(std::mt19937_64& random) {
  // Small whole numbers: sums and slopes are exact, and many choices coincide or lie on a line.
  const auto below = [&random](std::uint64_t bound) { return static_cast<int>(random() % bound); };
  std::vector<SeriesPart> parts(1 + random() % 4);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].name = "p" + std::to_string(i);
    parts[i].count = 1 + below(3);
    const int options = 1 + below(5);
    for (int k = 0; k < options; ++k) {
      parts[i].options.push_back({1.0 + below(12), 1.0 + below(20), "s" + std::to_string(k)});
    }
  }
  return parts;
}

TEST(ComposeSeries, GivesTheHullOfTheWholeProduct) {
  std::mt19937_64 random(20261123);
  for (int i = 0; i < 5000; ++i) {
    const std::vector<SeriesPart> parts = random_parts(random);
    std::vector<std::pair<double, double>> composed;
    for (const SeriesOption& option : compose_series(parts, kAnySlope)) {
      composed.emplace_back(option.time_s, option.energy_j);
    }
    ASSERT_EQ(composed, brute_force_hull(parts)) << "case " << i;
  }
}

TEST(ComposeSeries, NamesAChoiceThatHasItsTimeAndEnergy) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 1000; ++i) {
    const std::vector<SeriesPart> parts = random_parts(random);
    for (const SeriesOption& option : compose_series(parts, kAnySlope)) {
      ASSERT_EQ(option.choice.size(), parts.size());
      double time_s = 0;
      double energy_j = 0;
      for (std::size_t part = 0; part < parts.size(); ++part) {
        time_s += parts[part].count * parts[part].options.at(option.choice[part]).time_s;
        energy_j += parts[part].count * parts[part].options.at(option.choice[part]).energy_j;
      }
      ASSERT_EQ(time_s, option.time_s);
      ASSERT_EQ(energy_j, option.energy_j);
    }
  }
}

/// What a time between two options costs: the step that the gap states bounds it for every choice there is.
TEST(ComposeSeries, IsAboveNoChoiceByMoreThanItsLargestStep) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 1000; ++i) {
    const std::vector<SeriesPart> parts = random_parts(random);
    const std::vector<SeriesOption> hull = compose_series(parts, 0);
    const SeriesGap gap = gap_of(hull, hull);
    EXPECT_EQ(gap.thinned, 0);
    for (const SeriesOption& choice : all_choices(parts)) {
      const SeriesOption* used = nullptr;  // the slowest that is as fast as the choice
      for (const SeriesOption& option : hull) {
        if (option.time_s <= choice.time_s) used = &option;
      }
      ASSERT_NE(used, nullptr);
      EXPECT_LE(used->energy_j, choice.energy_j * (1 + gap.step) * (1 + 1e-12)) << "case " << i;
    }
  }
}

TEST(ComposeSeries, LeavesOutWhatCostsMoreThanWaiting) {
  const std::vector<SeriesPart> parts{{"a", 1, {{1, 100, "x"}, {2, 50, "y"}, {3, 130, "z"}}}};
  EXPECT_EQ(compose_series(parts, 79).size(), 2);
  EXPECT_EQ(compose_series(parts, 81).size(), 3);
}

TEST(ComposeSeries, RepeatsAPartWithOneOption) {
  const std::vector<SeriesPart> parts{{"layer", 12, {{1, 10, "fast"}, {2, 4, "slow"}}}, {"head", 1, {{5, 7, ""}}}};
  EXPECT_THAT(compose_series(parts, kAnySlope),
              ElementsAre(FieldsAre(17, 127, ElementsAre(0, 0)), FieldsAre(29, 55, ElementsAre(1, 0))));
}

TEST(ComposeSeries, NamesTheSettingsOfThePartsThatHaveOne) {
  const std::vector<SeriesPart> parts{
      {"attn", 1, {{1, 10, "sm12"}, {2, 4, "sm6"}}}, {"rest", 1, {{1, 1, ""}}}, {"mlp", 1, {{1, 10, "sm3"}}}};
  const std::vector<SeriesOption> composed = compose_series(parts, kAnySlope);
  EXPECT_EQ(setting_of(composed.front(), parts), "attn=sm12;mlp=sm3");
  EXPECT_EQ(setting_of(composed.back(), parts), "attn=sm6;mlp=sm3");
}

TEST(ThinnedSeries, KeepsEndsAndSaysHowFarItIsAboveTheHull) {
  SeriesPart part{"a", 1, {}};
  for (int k = 1; k <= 200; ++k) part.options.push_back({1.0 * k, 1000.0 / k, "s" + std::to_string(k)});
  const std::vector<SeriesOption> hull = compose_series(std::span(&part, 1), 0);
  ASSERT_EQ(hull.size(), 200);
  double before = 0;
  for (const std::size_t most : {100, 40, 10, 4, 2}) {
    const std::vector<SeriesOption> kept = thinned(hull, most);
    ASSERT_EQ(kept.size(), most);
    EXPECT_EQ(kept.front().time_s, 1);
    EXPECT_EQ(kept.back().time_s, 200);
    const SeriesGap gap = gap_of(hull, kept);
    EXPECT_GT(gap.thinned, before);
    before = gap.thinned;
    for (const SeriesOption& vertex : hull) {
      const auto slower = std::ranges::lower_bound(kept, vertex.time_s, {}, &SeriesOption::time_s);
      if (slower == kept.begin()) continue;
      const SeriesOption& faster = *std::prev(slower);
      const double share = (vertex.time_s - faster.time_s) / (slower->time_s - faster.time_s);
      const double chord_j = faster.energy_j + share * (slower->energy_j - faster.energy_j);
      EXPECT_LE(chord_j, vertex.energy_j * (1 + gap.thinned) * (1 + 1e-12));
    }
  }
  EXPECT_EQ(thinned(hull, 200).size(), 200);
}

}  // namespace
}  // namespace lowgear::profile
