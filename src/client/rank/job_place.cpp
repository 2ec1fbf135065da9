#include "client/rank/job_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/number.h"

namespace lowgear::client {

namespace {

constexpr int kMaxSize = 1 << 24;
constexpr std::string_view kWhatToPass =
    "pass pp_rank when the client is opened (LOWGEAR_PP_RANK), or how ranks are numbered as rank_order "
    "(LOWGEAR_RANK_ORDER): megatron, deepspeed, or axes such as tp-cp-ep-dp-pp";

using Axis = RankOrder::Axis;
using SizedAxis = RankOrder::SizedAxis;

constexpr std::array<std::pair<std::string_view, Axis>, 4> kAxes = {
    {{"tp", Axis::tp}, {"cp", Axis::cp}, {"dp", Axis::dp}, {"pp", Axis::pp}}};

std::string_view name_of(Axis axis) {
  return std::ranges::find(kAxes, axis, [](const auto& each) { return each.second; })->first;
}

[[noreturn]] void throw_no_order(std::string_view text, std::string_view why) {
  throw InputError(fmt::format(
      "rank order {}: {}; expected megatron, deepspeed, or axes from that of neighbouring ranks on, such as "
      "tp-cp-ep-dp-pp or tp2-cp1-pp4-dp2",
      quote(text), why));
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

/// `tp` or `tp2`; nothing for `ep`, whose ranks lie within dp.
std::optional<SizedAxis> parse_axis(std::string_view word, std::string_view order) {
  if (word == "ep") return std::nullopt;
  if (word.starts_with("ep")) throw_no_order(order, "ep takes no size, as expert parallel ranks lie within dp");
  const auto* const found = std::ranges::find_if(kAxes, [&](const auto& each) { return word.starts_with(each.first); });
  if (found == kAxes.end()) throw_no_order(order, fmt::format("there is no axis {}", quote(word)));
  const std::string_view digits = word.substr(found->first.size());
  if (digits.empty()) return SizedAxis{found->second, std::nullopt};
  const std::optional<long long> size = parse_integer(digits);
  if (!size || *size < 1 || *size > kMaxSize) {
    throw_no_order(order, fmt::format("{} has no whole number from 1 as its size", quote(word)));
  }
  return SizedAxis{found->second, static_cast<int>(*size)};
}

std::optional<long long> product(std::span<const SizedAxis> axes) {
  long long result = 1;
  for (const SizedAxis& axis : axes) {
    if (!axis.size || result > kMaxSize) return std::nullopt;
    result *= *axis.size;
  }
  return result;
}

/// The axes of an order with the sizes that are known. Context parallel ranks next to replicas are one axis with them,
/// as sizes of a job have it.
std::vector<SizedAxis> sized_axes(const RankOrder& order, const std::optional<JobSizes>& sizes,
                                  std::optional<int> plan_ranks) {
  std::vector<SizedAxis> axes = order.axes();
  const auto find = [&](Axis axis) { return std::ranges::find(axes, axis, &SizedAxis::axis); };
  const auto know = [&](Axis axis, std::optional<int> size) {
    if (const auto found = find(axis); found != axes.end() && !found->size) found->size = size;
  };
  know(Axis::pp, plan_ranks);
  if (sizes) {
    know(Axis::pp, sizes->pp);
    know(Axis::tp, sizes->tp);
  }
  const std::optional<int> replicas = sizes ? std::optional(sizes->dp) : std::nullopt;
  const auto cp = find(Axis::cp);
  const auto dp = find(Axis::dp);
  if (cp == axes.end()) {
    know(Axis::dp, replicas);
  } else if (dp == axes.end()) {
    know(Axis::cp, replicas);
    cp->axis = Axis::dp;
  } else if (std::abs(cp - dp) == 1) {
    const bool both = cp->size && dp->size;
    dp->size = both ? std::optional(*cp->size * *dp->size) : replicas;
    axes.erase(cp);
  } else if (replicas) {
    if (cp->size && *replicas % *cp->size == 0) know(Axis::dp, *replicas / *cp->size);
    if (dp->size && *replicas % *dp->size == 0) know(Axis::cp, *replicas / *dp->size);
    if (*replicas == 1) {
      know(Axis::cp, 1);
      know(Axis::dp, 1);
    }
  }
  return axes;
}

/// Where the order contradicts the sizes of job and plan; empty where it does not.
std::string contradiction(const RankOrder& order, const std::optional<JobSizes>& sizes, std::optional<int> plan_ranks) {
  const auto written = [&](Axis axis) {
    const auto found = std::ranges::find(order.axes(), axis, &SizedAxis::axis);
    return found != order.axes().end() ? found->size : std::optional(1);
  };
  const auto differs = [&](Axis axis, std::optional<int> size) {
    return written(axis) && size && written(axis) != size;
  };
  if (differs(Axis::pp, plan_ranks)) {
    return fmt::format("it has pp {}, and the plan {} ranks", *written(Axis::pp), *plan_ranks);
  }
  if (!sizes) return "";
  for (const auto& [axis, size] : {std::pair(Axis::tp, sizes->tp), std::pair(Axis::pp, sizes->pp)}) {
    if (differs(axis, size))
      return fmt::format("it has {0} {1}, and the job {0} {2}", name_of(axis), *written(axis), size);
  }
  const std::optional<int> cp = written(Axis::cp);
  const std::optional<int> dp = written(Axis::dp);
  if (cp && dp && 1LL * *cp * *dp != sizes->dp) {
    return fmt::format("it has cp {} x dp {}, and the job dp {}", *cp, *dp, sizes->dp);
  }
  return "";
}

std::string place_in_world(const JobPlaceFacts& facts) {
  return facts.world_size ? fmt::format("rank {} of {}", facts.rank, *facts.world_size)
                          : fmt::format("rank {} of a job of unknown size", facts.rank);
}

/// An axis among the ranks of a job: how many ranks lie within one position of it, its size, and how many blocks of
/// both there are. Empty: not known.
struct Extent {
  std::optional<long long> inner;
  std::optional<long long> size;
  std::optional<long long> outer;
};

/// The last of three that is not known follows from the size of the job.
Extent extent_of(std::span<const SizedAxis> axes, std::size_t at, std::optional<int> world_size) {
  Extent extent{.inner = product(axes.first(at)), .size = axes[at].size, .outer = product(axes.subspan(at + 1))};
  if (!world_size || !extent.outer) return extent;
  const long long world = *world_size;
  const auto remaining = [&](long long others) {
    return world % others == 0 ? std::optional<long long>(world / others) : std::nullopt;
  };
  if (!extent.size && extent.inner) {
    extent.size = remaining(*extent.inner * *extent.outer);
  } else if (!extent.inner && extent.size) {
    extent.inner = remaining(*extent.size * *extent.outer);
  }
  return extent;
}

/// Where this rank is on `target`, counted over all other axes.
AxisRank rank_by_order(const JobPlaceFacts& facts, Axis target, std::optional<int> plan_ranks) {
  const std::string source = fmt::format("rank order {}", facts.order->text());
  const auto refused = [&](std::string_view why) {
    return AxisRank{.rank = {}, .reason = fmt::format("{}: {}", source, why)};
  };
  const std::string wrong = contradiction(*facts.order, facts.sizes, plan_ranks);
  if (!wrong.empty()) return refused(wrong);
  const std::vector<SizedAxis> axes = sized_axes(*facts.order, facts.sizes, plan_ranks);
  const auto found = std::ranges::find(axes, target, &SizedAxis::axis);
  if (found == axes.end()) return {.rank = 0, .reason = source};
  const auto at = static_cast<std::size_t>(found - axes.begin());
  const auto [inner, size, outer] = extent_of(axes, at, facts.world_size);
  if (!inner || !size) {
    return refused(
        fmt::format("the sizes of its axes are not known well enough to tell the {0} rank of rank {1}; write them, as "
                    "in tp2-cp1-pp4-dp2, or pass {0}_rank",
                    name_of(target), facts.rank));
  }
  const long long block = *inner * *size;
  const bool fits = !facts.world_size || (outer ? *facts.world_size == block * *outer : *facts.world_size % block == 0);
  if (!fits || (outer && facts.rank >= block * *outer)) {
    return refused(
        fmt::format("its axes and the plan do not make up the job, in which this is {}", place_in_world(facts)));
  }
  return {.rank = static_cast<int>(facts.rank / *inner % *size), .reason = source};
}

/// Where this rank is among replicas, context parallel ranks that stand apart from them in the order counted in.
AxisRank replica_by_order(const JobPlaceFacts& facts) {
  AxisRank replica = rank_by_order(facts, Axis::dp, {});
  if (!replica.rank) return replica;
  const std::vector<SizedAxis> axes = sized_axes(*facts.order, facts.sizes, {});
  const auto apart = std::ranges::find(axes, Axis::cp, &SizedAxis::axis);
  if (apart == axes.end()) return replica;
  const AxisRank context = rank_by_order(facts, Axis::cp, {});
  if (!context.rank) return context;
  if (!apart->size)
    return {.rank = {}, .reason = fmt::format("rank order {}: write the size of cp", facts.order->text())};
  *replica.rank = *replica.rank * *apart->size + *context.rank;
  return replica;
}

/// Where sizes of the job alone tell; empty where they do not decide.
std::optional<AxisRank> rank_by_sizes(const JobPlaceFacts& facts, int size) {
  const JobSizes& sizes = *facts.sizes;
  if (size == 1) return AxisRank{.rank = 0, .reason = "the job has one along this axis"};
  const long long all = sizes.world_size();
  if ((facts.world_size && *facts.world_size != all) || facts.rank >= all) {
    return AxisRank{
        .rank = {},
        .reason = fmt::format("the job's pp x dp x tp is {} ranks, and this is {}", all, place_in_world(facts))};
  }
  if (all != size) return std::nullopt;
  return AxisRank{.rank = facts.rank, .reason = "no other axis of the job has more than one"};
}

AxisRank decided_pipeline_rank(const JobPlaceFacts& facts, std::optional<int> plan_ranks) {
  if (facts.pp_rank) return {.rank = facts.pp_rank, .reason = "pp_rank"};
  if (facts.order) return rank_by_order(facts, Axis::pp, plan_ranks);
  if (facts.sizes) {
    if (auto known = rank_by_sizes(facts, facts.sizes->pp)) return *std::move(known);
  } else {
    if (facts.world_size == 1) return {.rank = 0, .reason = "one process"};
    if (plan_ranks == 1) return {.rank = 0, .reason = "a plan of one rank"};
    if (plan_ranks && facts.world_size == plan_ranks) return {.rank = facts.rank, .reason = "a plan of all ranks"};
  }
  return {
      .rank = {},
      .reason =
          plan_ranks
              ? fmt::format("which of the plan's {} ranks this process follows is not certain, as it is {}; {}",
                            *plan_ranks, place_in_world(facts), kWhatToPass)
              : fmt::format("the pipeline rank is not known, as this is {}; {}", place_in_world(facts), kWhatToPass)};
}

int required(AxisRank known) {
  if (!known.rank) throw InputError(known.reason);
  return *known.rank;
}

/// A rank along dp or tp.
int other_rank(const JobPlaceFacts& facts, Axis axis, std::optional<int> given, std::optional<int> size) {
  if (given && size && *given >= *size) {
    throw InputError(fmt::format("{0}_rank {1} is not below the job's {0} {2}", name_of(axis), *given, *size));
  }
  if (given) return *given;
  if (facts.order && size && *size > 1) {
    return required(axis == Axis::dp ? replica_by_order(facts) : rank_by_order(facts, axis, {}));
  }
  if (!size) return 0;  // the server says what the job lacks
  if (const auto known = rank_by_sizes(facts, *size)) return required(*known);
  throw InputError(
      fmt::format("the {0} rank is not known, as this is {1} and the job has {0} {2}; pass {0}_rank, or "
                  "how ranks are numbered as rank_order (LOWGEAR_RANK_ORDER), such as megatron",
                  name_of(axis), place_in_world(facts), *size));
}

}  // namespace

std::optional<JobSizes> read_job_sizes(std::string_view job_json) {
  if (job_json.empty()) return std::nullopt;
  const Json json = parse_json(job_json, "job");
  const JsonView view(json, "job");
  if (!json.is_object() || !view.has("parallel")) return std::nullopt;
  const JsonView parallel = view.at("parallel");
  const auto size = [&](std::string_view axis) {
    return parallel.has(axis) ? parallel.at(axis).integer_in(1, kMaxSize) : 1;
  };
  JobSizes sizes{.pp = size("pp"), .dp = size("dp"), .tp = size("tp")};
  const bool named_schedule = !json.contains("schedule") || json["schedule"].is_string();
  sizes.stage_is_pp_rank = size("chunks") == 1 && named_schedule;
  return sizes;
}

RankOrder RankOrder::parse(std::string_view text) {
  RankOrder order;
  order.text_ = lower_case(text);
  std::string axes = order.text_;
  if (axes == "megatron") axes = "tp-cp-ep-dp-pp";
  if (axes == "deepspeed") axes = "tp-dp-pp";
  for (std::size_t begin = 0; begin <= axes.size();) {
    const std::size_t end = std::min(axes.find('-', begin), axes.size());
    if (const auto axis = parse_axis(std::string_view(axes).substr(begin, end - begin), text)) {
      if (std::ranges::find(order.axes_, axis->axis, &SizedAxis::axis) != order.axes_.end()) {
        throw_no_order(text, fmt::format("{} occurs in it twice", name_of(axis->axis)));
      }
      order.axes_.push_back(*axis);
    }
    begin = end + 1;
  }
  if (std::ranges::find(order.axes_, Axis::pp, &SizedAxis::axis) == order.axes_.end()) {
    throw_no_order(text, "pp is not in it");
  }
  return order;
}

AxisRank pipeline_rank(const JobPlaceFacts& facts, std::optional<int> plan_ranks) {
  if (facts.sizes && plan_ranks && facts.sizes->pp != *plan_ranks) {
    return {.rank = {},
            .reason =
                fmt::format("the plan is for {} pipeline ranks, and the job has pp {}", *plan_ranks, facts.sizes->pp)};
  }
  const AxisRank known = decided_pipeline_rank(facts, plan_ranks);
  if (!known.rank) return known;
  if (facts.sizes && *known.rank >= facts.sizes->pp) {
    return {.rank = {}, .reason = fmt::format("pp_rank {} is not below the job's pp {}", *known.rank, facts.sizes->pp)};
  }
  if (plan_ranks && *known.rank >= *plan_ranks) {
    return {.rank = {},
            .reason = fmt::format("there is no rank {} in this plan of {} ranks", *known.rank, *plan_ranks)};
  }
  if (plan_ranks && !facts.pp_rank && facts.world_size && *plan_ranks > *facts.world_size) {
    return {.rank = {},
            .reason = fmt::format("the plan is for {} pipeline ranks, and the job has {} {}; {}", *plan_ranks,
                                  *facts.world_size, *facts.world_size == 1 ? "process" : "processes", kWhatToPass)};
  }
  return known;
}

JobPlace job_place(const JobPlaceFacts& facts) {
  const std::optional<JobSizes>& sizes = facts.sizes;
  JobPlace place;
  place.pp = required(pipeline_rank(facts));
  place.dp = other_rank(facts, Axis::dp, facts.dp_rank, sizes ? std::optional(sizes->dp) : std::nullopt);
  place.tp = other_rank(facts, Axis::tp, facts.tp_rank, sizes ? std::optional(sizes->tp) : std::nullopt);
  return place;
}

void KnownPlace::set(AxisRank pipeline, std::optional<int> stage) {
  const std::lock_guard lock(mutex_);
  pipeline_ = std::move(pipeline);
  stage_ = stage;
}

KnownPlace::Place KnownPlace::get() const {
  const std::lock_guard lock(mutex_);
  Place place{.pp_rank = pipeline_.rank, .stage = stage_, .text = pipeline_.reason};
  if (pipeline_.rank && !stage_) {
    place.text = fmt::format(
        "pipeline rank {} ({}) has more than one stage, or one that is not known: name the stage "
        "with every unit",
        *pipeline_.rank, pipeline_.reason);
  }
  return place;
}

}  // namespace lowgear::client
