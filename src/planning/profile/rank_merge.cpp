#include "planning/profile/rank_merge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/core/error.h"
#include "planning/profile/group_check.h"

namespace lowgear::profile {
namespace {

/// GPUs of one model differ by some per cent, and one that is slow by more deserves a word, too.
constexpr double kRanksApart = 1.5;
/// Most clocks and ranks that a message lists.
constexpr std::size_t kMostListed = 8;

using RankedOp = std::pair<int, OpKind>;
using RankedCell = std::tuple<int, OpKind, int, std::string>;  // with clock and setting

template <typename Values>
std::string list_text(const Values& values) {
  const std::size_t more = values.size() > kMostListed ? values.size() - kMostListed : 0;
  const auto end = std::next(values.begin(), static_cast<std::ptrdiff_t>(values.size() - more));
  return fmt::format("{}{}", fmt::join(values.begin(), end, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string op_text(const RankedOp& op) { return fmt::format("stage {} {}", op.first, name(op.second)); }

class RankMerger {
 public:
  RankMerger(const std::vector<ProfileRow>& rows, const std::string& source) : source_(source) {
    for (const ProfileRow& row : rows) {
      ranks_of_stage_[row.stage].insert(row.rank);
      ranks_[{row.stage, row.kind}].insert(row.rank);
      cells_[{row.stage, row.kind, row.measurement.clock_mhz, row.measurement.setting}].push_back(&row);
    }
  }

  MergedRanks merge() {
    std::set<RankedOp> complete;
    for (const auto& [key, measured] : cells_) {
      const RankedOp op{std::get<0>(key), std::get<1>(key)};
      if (measured.size() < ranks_.at(op).size()) {
        leave_out(op, std::get<2>(key), measured);
        continue;
      }
      merged_.rows.push_back(merged(measured));
      complete.insert(op);
      compare(op, measured);
    }
    for (const auto& [op, those] : ranks_) {
      if (complete.contains(op)) continue;
      throw_input_error({source_, 0, 0},
                        fmt::format("the {} ranks of {} have no clock in common", those.size(), op_text(op)),
                        "profile all ranks of a stage at the same clocks");
    }
    say_apart();
    say_left_out();
    say_missing_kinds();
    return std::move(merged_);
  }

 private:
  struct LeftOut {
    std::set<int, std::greater<>> clocks_mhz;
    std::set<long long> lacking;
  };
  struct Apart {
    std::string what;
    int line = 0;
    int rows = 0;
  };

  static ProfileRow merged(const std::vector<const ProfileRow*>& measured) {
    ProfileRow row = *measured.front();
    row.measurement.time_s = 0;
    row.measurement.energy_j = 0;
    for (const ProfileRow* each : measured) {
      row.measurement.time_s = std::max(row.measurement.time_s, each->measurement.time_s);
      row.measurement.energy_j += each->measurement.energy_j / static_cast<double>(measured.size());
    }
    return row;
  }

  void leave_out(const RankedOp& op, int clock_mhz, const std::vector<const ProfileRow*>& measured) {
    LeftOut& left = left_out_[op];
    left.clocks_mhz.insert(clock_mhz);
    std::set<long long> lacking = ranks_.at(op);
    for (const ProfileRow* row : measured) lacking.erase(row->rank);
    left.lacking.merge(lacking);
  }

  /// Against the median of the ranks, or of two the second against the first.
  void compare(const RankedOp& op, const std::vector<const ProfileRow*>& measured) {
    if (measured.size() < 2) return;
    const Measurement& first = measured.front()->measurement;
    double usual_s = first.time_s;
    double usual_w = first.energy_j / first.time_s;
    const bool are_two = measured.size() == 2;
    if (!are_two) {
      std::vector<double> times_s;
      std::vector<double> powers_w;
      for (const ProfileRow* row : measured) {
        times_s.push_back(row->measurement.time_s);
        powers_w.push_back(row->measurement.energy_j / row->measurement.time_s);
      }
      usual_s = median_of(std::move(times_s));
      usual_w = median_of(std::move(powers_w));
    }
    const auto is_apart = [](double ratio) { return ratio > kRanksApart || ratio < 1 / kRanksApart; };
    for (const ProfileRow* row : measured) {
      const auto& [clock_mhz, time_s, energy_j, setting, line] = row->measurement;
      const double power_w = energy_j / time_s;
      if (!is_apart(time_s / usual_s) && !is_apart(power_w / usual_w)) continue;
      Apart& apart = apart_[{op.first, row->rank}];
      if (++apart.rows > 1) continue;
      apart.line = line;
      apart.what = fmt::format(
          "rank {} takes {:.4g} s and draws {:.4g} W for stage {} {} at {} MHz, and {} {:.4g} s "
          "and {:.4g} W",
          row->rank, time_s, power_w, op.first, name(op.second), clock_mhz,
          are_two ? fmt::format("rank {} (line {})", measured.front()->rank, first.line)
                  : fmt::format("the {} ranks of the stage, by their medians,", measured.size()),
          usual_s, usual_w);
    }
  }

  void say_apart() {
    std::size_t said = 0;
    for (const auto& [key, apart] : apart_) {
      if (said++ == kMostListed) {
        merged_.doubts.push_back(
            fmt::format("{} more ranks are far from others of their stage", apart_.size() - said + 1));
        break;
      }
      merged_.doubts.push_back(fmt::format("{}: {}{}; check its units, or the GPU",
                                           to_string(SourceLocation{source_, apart.line, 0}), apart.what,
                                           apart.rows > 1 ? fmt::format(" (and {} more rows)", apart.rows - 1) : ""));
    }
  }

  void say_left_out() {
    for (const auto& [op, left] : left_out_) {
      merged_.doubts.push_back(fmt::format(
          "{}: {} at {} MHz is left out, since not every rank of the stage measured it: rank {} did not; profile all "
          "ranks of a stage at the same clocks",
          source_, op_text(op), list_text(left.clocks_mhz), list_text(left.lacking)));
    }
  }

  void say_missing_kinds() {
    for (const auto& [op, those] : ranks_) {
      std::vector<long long> lacking;
      std::ranges::set_difference(ranks_of_stage_.at(op.first), those, std::back_inserter(lacking));
      if (lacking.empty()) continue;
      merged_.doubts.push_back(fmt::format("{}: rank {} of stage {} has no {} rows; the other ranks' rows are used",
                                           source_, list_text(lacking), op.first, name(op.second)));
    }
  }

  const std::string& source_;
  std::map<int, std::set<long long>> ranks_of_stage_;
  std::map<RankedOp, std::set<long long>> ranks_;
  std::map<RankedCell, std::vector<const ProfileRow*>> cells_;
  std::map<RankedOp, LeftOut> left_out_;
  std::map<std::pair<int, long long>, Apart> apart_;  ///< by stage and rank
  MergedRanks merged_;
};

}  // namespace

MergedRanks merge_ranks(const std::vector<ProfileRow>& rows, const std::string& source) {
  return RankMerger(rows, source).merge();
}

}  // namespace lowgear::profile
