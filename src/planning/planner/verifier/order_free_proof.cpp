#include "planning/planner/verifier/order_free_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "planning/planner/verifier/pipeline.h"

namespace lowgear::planner::verifier {
namespace {

/// So that sums of two stay within 64 bits.
constexpr PowerNw kMostPriceNw = std::numeric_limits<PowerNw>::max() / 8;

/// One way to place stages: the rank of each, in the order of a microbatch's forwards.
struct Placing {
  std::vector<int> rank_of_stage;
  bool splits = false;

  [[nodiscard]] int stages() const { return static_cast<int>(rank_of_stage.size()); }
};

std::vector<Placing> placings(const profile::StageProfile& profile) {
  const int ranks = profile.stages();
  std::vector<std::vector<int>> ways(3);
  for (int rank = 0; rank < ranks; ++rank) {
    for (auto& way : ways) way.push_back(rank);
  }
  for (int i = 0; i < ranks; ++i) {
    ways[1].push_back(i);
    ways[2].push_back(ranks - 1 - i);
  }
  if (ranks == 1) ways.resize(1);
  const auto all_have = [&](OpKind kind) {
    for (int rank = 0; rank < ranks; ++rank) {
      if (!profile.has(rank, kind)) return false;
    }
    return true;
  };
  std::vector<Placing> result;
  for (const auto& way : ways) {
    if (all_have(OpKind::backward)) result.push_back({way, false});
    if (all_have(OpKind::input_gradient) && all_have(OpKind::weight_gradient)) result.push_back({way, true});
  }
  return result;
}

/// How often each op is on a path, by (rank, kind): one entry for each op that is.
using Counts = std::map<std::pair<int, OpKind>, std::vector<int>>;

/// Writes down the ops of a path, in the order in which they have to run.
class PathOps {
 public:
  PathOps(const OrderFreeWork& work, const Placing& placing, int rank)
      : placing_(&placing),
        rank_(rank),
        first_(static_cast<int>(std::ranges::find(placing.rank_of_stage, rank) - placing.rank_of_stage.begin())) {
    int stages_here = 0;
    for (int stage = 0; stage < placing.stages(); ++stage) {
      if (placing.rank_of_stage[static_cast<std::size_t>(stage)] != rank) continue;
      last_ = stage;
      ++stages_here;
    }
    microbatches_ = work.microbatches;
    all_ = stages_here * work.microbatches;
    places_ = stages_here * std::min(work.microbatches, work.memory[static_cast<std::size_t>(rank)]);
    early_ = std::min(all_, places_);
  }

  /// False when there is no such path.
  [[nodiscard]] bool follow(std::string_view begin, std::string_view end) {
    if (end == "activations") return begin == "first_forward" && hold();
    int forwards = all_;
    if (begin == "first_forward") {
      for (int stage = 0; stage < first_; ++stage) pass(stage, OpKind::forward);
    } else if (begin == "first_backward") {
      for (int stage = 0; stage < placing_->stages(); ++stage) pass(stage, OpKind::forward);
      for (int stage = placing_->stages() - 1; stage > last_; --stage) pass(stage, back());
      forwards -= early_;  // may have run meanwhile
    } else {
      return false;
    }
    return finish(end, forwards);
  }

  /// Of each (rank, kind), most often first.
  [[nodiscard]] Counts counts() const {
    Counts sorted = counts_;
    for (auto& [op, times] : sorted) std::ranges::sort(times, std::greater{});
    return sorted;
  }
  /// How many iterations the ops can take together.
  [[nodiscard]] int parallel() const { return parallel_; }

 private:
  [[nodiscard]] OpKind back() const { return placing_->splits ? OpKind::input_gradient : OpKind::backward; }
  void pass(int stage, OpKind kind, int times = 1) {
    counts_[{placing_->rank_of_stage[static_cast<std::size_t>(stage)], kind}].push_back(times);
  }
  void work_here(OpKind kind, int ops) {
    for (int i = 0; i < ops; ++i) counts_[{rank_, kind}].push_back(1);
  }

  /// Every place in memory is idle until the first forward has come, and where nothing but backwards frees memory,
  /// while the last gradient goes back. Between them each activation holds one from its forward to the end of its
  /// backward.
  [[nodiscard]] bool hold() {
    parallel_ = places_;
    for (int stage = 0; stage < first_; ++stage) {
      pass(stage, OpKind::forward, places_);
      if (!placing_->splits) pass(stage, OpKind::backward, places_);
    }
    for (int microbatch = 0; microbatch < microbatches_; ++microbatch) {
      int holds = 0;
      for (int stage = first_; stage < placing_->stages(); ++stage) {
        holds += placing_->rank_of_stage[static_cast<std::size_t>(stage)] == rank_ ? 1 : 0;
        pass(stage, OpKind::forward, holds);
        pass(stage, back(), holds);
      }
    }
    if (placing_->splits) work_here(OpKind::weight_gradient, all_);
    return true;
  }

  [[nodiscard]] bool finish(std::string_view end, int forwards) {
    if (end == "last_forward") {
      const int before = all_ - early_;  // activations that must have been freed
      if (before == 0) return false;
      work_here(OpKind::forward, forwards - 1);
      work_here(back(), before);
      if (placing_->splits) work_here(OpKind::weight_gradient, before);
      for (int stage = last_; stage < placing_->stages(); ++stage) pass(stage, OpKind::forward);
      go_back_from(placing_->stages());
      return true;
    }
    work_here(OpKind::forward, forwards);
    work_here(back(), all_);
    if (end == "last_backward") {
      go_back_from(first_);
      return true;
    }
    if (placing_->splits) work_here(OpKind::weight_gradient, all_);
    return end == "last_op" && placing_->splits;
  }

  /// One microbatch's way through the stages before `stage`, and the weight gradient that nothing waits for.
  void go_back_from(int stage) {
    const bool moves = stage > 0;
    while (stage-- > 0) pass(stage, back());
    if (moves && placing_->splits) pass(0, OpKind::weight_gradient);
  }

  const Placing* placing_;
  int rank_;
  int first_;  ///< stages of the rank
  int last_ = 0;
  int microbatches_ = 1;
  int parallel_ = 1;
  int places_ = 0;  ///< activations that fit
  int all_ = 0;     ///< ops of a kind on the rank
  int early_ = 0;   ///< forwards that can run before its first backward
  Counts counts_;
};

struct PricedCounts {
  Counts counts;
  int parallel = 1;
  PowerNw price_nw = 0;
};

/// Everything that one way to place stages needs.
class PlacedWork {
 public:
  PlacedWork(const OrderFreeWork& work, const Placing& placing) : work_(&work), placing_(&placing) {
    const double parts = static_cast<double>(placing.stages()) / work.of_ranks->stages();
    for (int rank = 0; rank < work.of_ranks->stages(); ++rank) {
      for (const OpKind kind : kinds()) {
        std::vector<profile::Measurement> rows;
        for (profile::Measurement row : work.of_ranks->measurements(rank, kind)) {
          row.time_s /= parts;
          row.energy_j /= parts;
          rows.push_back(row);
        }
        curves_.emplace(std::pair(rank, kind), CostCurve(rows, work.blocking_power_w[static_cast<std::size_t>(rank)]));
      }
    }
    ops_of_a_kind_ = static_cast<std::size_t>(work.microbatches * placing.stages() / work.of_ranks->stages());
  }

  [[nodiscard]] PricedCounts path(const JsonView& priced) const {
    PathOps ops(*work_, *placing_, priced.at("rank").integer_in(0, work_->of_ranks->stages() - 1));
    if (!ops.follow(priced.at("begin").text(), priced.at("end").text())) priced.fail("there is no such path");
    const double price_w = priced.at("price_w").number();
    if (price_w < 0 || price_w > w_from_nw(kMostPriceNw)) priced.at("price_w").fail("out of range");
    return {ops.counts(), ops.parallel(), nw_from_w(price_w)};
  }

  /// Sum over all ops of the least of effective energy and priced time: op m of a rank and kind pays each path for the
  /// m-th of its counts.
  [[nodiscard]] EnergyZj least_zj(std::span<const PricedCounts> paths) const {
    EnergyZj sum_zj = 0;
    for (const auto& [op, curve] : curves_) {
      for (std::size_t m = 0; m < ops_of_a_kind_; ++m) {
        PowerNw price_nw = 0;
        for (const PricedCounts& path : paths) {
          const auto found = path.counts.find(op);
          if (found == path.counts.end() || found->second.size() <= m) continue;
          price_nw += path.price_nw * found->second[m];
        }
        sum_zj += curve.least_at_price_zj(price_nw);
      }
    }
    return sum_zj;
  }

  /// The longest path of all with every op at its fastest.
  [[nodiscard]] TimePs least_time_ps() const {
    TimePs longest_ps = 0;
    for (int rank = 0; rank < work_->of_ranks->stages(); ++rank) {
      for (const char* begin : {"first_forward", "first_backward"}) {
        for (const char* end : {"last_op", "last_backward", "last_forward", "activations"}) {
          PathOps ops(*work_, *placing_, rank);
          if (!ops.follow(begin, end)) continue;
          TimePs length_ps = 0;
          for (const auto& [op, counts] : ops.counts()) {
            for (const int count : counts) length_ps += count * curves_.at(op).fastest_ps();
          }
          longest_ps = std::max(longest_ps, (length_ps + ops.parallel() - 1) / ops.parallel());
        }
      }
    }
    return longest_ps;
  }

 private:
  [[nodiscard]] std::vector<OpKind> kinds() const {
    if (placing_->splits) return {OpKind::forward, OpKind::input_gradient, OpKind::weight_gradient};
    return {OpKind::forward, OpKind::backward};
  }

  const OrderFreeWork* work_;
  const Placing* placing_;
  std::map<std::pair<int, OpKind>, CostCurve> curves_;
  std::size_t ops_of_a_kind_ = 0;  ///< on each rank
};

bool is_of(const JsonView& layout, const Placing& placing) {
  const JsonView ranks = layout.at("rank_of_stage");
  if (ranks.size() != placing.rank_of_stage.size() || layout.at("splits_backward").boolean() != placing.splits) {
    return false;
  }
  for (std::size_t i = 0; i < placing.rank_of_stage.size(); ++i) {
    if (ranks.at(i).integer() != placing.rank_of_stage[i]) return false;
  }
  return true;
}

JsonView layout_of(const JsonView& layouts, const Placing& placing) {
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    if (is_of(layouts.at(i), placing)) return layouts.at(i);
  }
  layouts.fail(fmt::format("lacks the {} stages of {} backwards on ranks {}", placing.stages(),
                           placing.splits ? "split" : "whole", fmt::join(placing.rank_of_stage, ",")),
               "plan again");
}

}  // namespace

OrderFreeProof::OrderFreeProof(const OrderFreeWork& work, std::string_view text, const std::string& source) {
  const Json json = parse_json(text, source);
  const JsonView document(json, source);
  if (document.at("format").text() != "lowgear.joint_bound/1") document.at("format").fail("unknown format");
  const JsonView layouts = document.at("layouts");
  for (const double power_w : work.blocking_power_w) blocking_power_nw_ += nw_from_w(power_w);
  for (const Placing& placing : placings(*work.of_ranks)) {
    const JsonView lines = layout_of(layouts, placing).at("lines");
    const PlacedWork placed(work, placing);
    Layout layout{.least_time_ps = placed.least_time_ps(), .lines = {}};
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const JsonView prices = lines.at(i).at("prices");
      std::vector<PricedCounts> paths;
      Line line;
      for (std::size_t p = 0; p < prices.size(); ++p) {
        paths.push_back(placed.path(prices.at(p)));
        const PricedCounts& path = paths.back();
        if (path.price_nw > (kMostPriceNw - line.slope_nw) / path.parallel) prices.fail("they are too high together");
        line.slope_nw += path.price_nw * path.parallel;
      }
      line.intercept_zj = placed.least_zj(paths);
      layout.lines.push_back(line);
    }
    layouts_.push_back(std::move(layout));
  }
}

double OrderFreeProof::lower_bound_j_at(double time_s) const {
  double least_j = std::numeric_limits<double>::infinity();
  for (const Layout& layout : layouts_) {
    const TimePs time_ps = ps_not_below_s(time_s);
    if (time_ps < layout.least_time_ps) continue;
    double bound_j = -std::numeric_limits<double>::infinity();
    for (const Line& line : layout.lines) {
      // With less than the blocking power, ending earlier would cost less: at no time at all the line says least.
      const EnergyZj per_ps = static_cast<EnergyZj>(blocking_power_nw_) - line.slope_nw;
      bound_j = std::max(bound_j, j_from_zj(line.intercept_zj + (per_ps < 0 ? per_ps * time_ps : 0)));
    }
    least_j = std::min(least_j, bound_j);
  }
  return least_j;
}

}  // namespace lowgear::planner::verifier
