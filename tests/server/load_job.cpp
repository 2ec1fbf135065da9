#include "server/load_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "planning/plan/plan.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/example_profile.h"

namespace lowgear::server {
namespace {

constexpr double kBlockingW = 75;
constexpr int kUnits = 30;
constexpr std::chrono::milliseconds kAgain{5};
/// Of an iteration, what the units of a rank take at full clocks when it never waits.
constexpr double kBusyShare = 0.5;

profile::StageProfile profile_of(int pp) {
  return modelled_profile(profile::ExampleGpu{}, profile::TransformerModel{.stages = pp});
}

std::vector<int> clocks_of(const profile::StageProfile& profile) {
  std::vector<int> clocks;
  for (const profile::Measurement& row : profile.measurements(0, OpKind::forward)) clocks.push_back(row.clock_mhz);
  return clocks;
}

}  // namespace

std::string job_text(const LoadJobShape& shape) {
  return fmt::format(
      R"({{"run":"{}","name":"{}","framework":"load","model":"{}","partition":"uniform","gpu":"A100",)"
      R"("parallel":{{"pp":{},"dp":{},"tp":1,"chunks":1}},"schedule":"1f1b","microbatches":{},"microbatch_size":1,)"
      R"("slowdown_pct":0,"guard_pct":1000,)"
      R"("profile":{{"clocks":4,"iterations":1,"settle_iterations":0,"min_mhz":600,"max_mhz":null}}}})",
      shape.run, shape.run, shape.model, shape.pp, shape.dp, shape.microbatches);
}

std::string rank_text(const LoadJobShape& shape, int rank) {
  static const std::string clocks = fmt::format("{}", fmt::join(clocks_of(profile::example_profile()), ","));
  return fmt::format(
      R"({{"rank":{},"pp_rank":{},"dp_rank":{},"tp_rank":0,"instance":"process-{}","host":"node-{}",)"
      R"("gpu_uuid":"GPU-{}-{}","gpu":"A100","simulated":true,"clocks_mhz":[{}],"power_limit_w":400,"follows_plans":true}})",
      rank, rank / shape.dp, rank % shape.dp, rank, shape.first_node + rank / 8, shape.run, rank, clocks);
}

/// Of a GPU in all of its iterations.
constexpr double kMeanPowerW = 312.5;

std::string reports_text(int rank, const std::vector<LoadReport>& reports) {
  std::string text = fmt::format(R"({{"rank":{},"reports":[)", rank);
  for (const LoadReport& report : reports) {
    text += fmt::format(
        R"({}{{"iteration":{},"plan_version":{},"time_s":{},"compute_s":{},"energy_j":{},"energy_error_j":0.5,)"
        R"("throttled_power":0,"throttled_thermal":0}})",
        &report == reports.data() ? "" : ",", report.iteration, report.plan_version, report.time_s, report.compute_s,
        kMeanPowerW * report.time_s);
  }
  return text + R"(],"gpu":{"power_w":312.0,"sm_clock_mhz":1215,"temperature_c":61}})";
}

LoadJob::LoadJob(LoadConnections& connections, LoadJobShape shape)
    : connections_(connections),
      shape_(std::move(shape)),
      profile_(profile_of(shape_.pp)),
      scale_(1),
      first_connection_(connections.add(2 * static_cast<std::size_t>(shape_.world_size()))),
      ranks_(static_cast<std::size_t>(shape_.world_size())) {
  const double unit_s =
      profile_.at_max_clock(0, OpKind::forward).time_s + profile_.at_max_clock(0, OpKind::backward).time_s;
  scale_ = shape_.iteration_s * kBusyShare / (unit_s * shape_.microbatches);
}

bool LoadJob::registered() const {
  return std::ranges::none_of(ranks_, [](const Rank& rank) { return rank.key.empty(); });
}

bool LoadJob::trains(int version) const {
  return std::ranges::all_of(ranks_, [version](const Rank& rank) {
    return rank.followed.purpose == "train" && rank.followed.version >= version;
  });
}

bool LoadJob::finished() const { return std::ranges::all_of(ranks_, &Rank::finished); }

void LoadJob::work() {
  const auto now = LoadConnections::Clock::now();
  if (registered() && !ending_ && now >= next_iteration_) {
    next_iteration_ = now + std::chrono::duration_cast<LoadConnections::Clock::duration>(
                                std::chrono::duration<double>(shape_.iteration_s));
    train_once();
  }
  for (int number = 0; number < shape_.world_size(); ++number) {
    const Rank& rank = rank_at(number);
    if (rank.doing == Doing::nothing && now >= rank.not_before) send_next(number);
    const std::size_t plans = first_connection_ + 2 * static_cast<std::size_t>(number);
    if (!rank.key.empty() && !rank.finished && !ending_ && !connections_.busy(plans) && now >= rank.plan_not_before) {
      ask_for_plan(number);
    }
  }
}

/// As clients do: a plan whose boundary has passed is dropped whole, to be offered again.
void LoadJob::train_once() {
  for (int number = 0; number < shape_.world_size(); ++number) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    if (rank.pending && rank.pending->from_iteration <= iteration_) {
      const bool in_time = rank.pending->from_iteration == iteration_ || rank.pending->from_iteration == 0;
      if (in_time) rank.followed = std::move(*rank.pending);
      rank.pending.reset();
    }
    const double full_s = shape_.iteration_s * kBusyShare;
    rank.unacknowledged.push_back({.iteration = iteration_,
                                   .plan_version = rank.followed.version,
                                   .time_s = shape_.iteration_s,
                                   .compute_s = rank.followed.compute_s > 0 ? rank.followed.compute_s : full_s});
    if (rank.followed.purpose == "profile" && iteration_ + 1 == rank.followed.end_iteration) {
      rank.clocks_mhz.insert(rank.followed.clocks_mhz.begin(), rank.followed.clocks_mhz.end());
      rank.cells = cells_text(number, rank);
    }
  }
  ++iteration_;
}

std::string LoadJob::cells_text(int number, const Rank& rank) const {
  const int stage = number / shape_.dp;
  std::string cells;
  for (const int clock_mhz : rank.clocks_mhz) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      const profile::Measurement& row = profile_.at_clock(stage, kind, clock_mhz);
      cells += fmt::format(
          R"({}{{"stage":{},"instruction":"{}","clock_mhz":{},"units":{},"time_s":{},"time_error_s":{},"energy_j":{},)"
          R"("energy_error_j":{}}})",
          cells.empty() ? "" : ",", stage, name(kind), clock_mhz, kUnits, row.time_s * scale_,
          row.time_s * scale_ * 1e-4, row.energy_j * scale_, row.energy_j * scale_ * 1e-3);
    }
  }
  return fmt::format(
      R"({{"rank":{},"plan_version":{},"cells":[{}],"blocking":[{{"stage":{},"power_w":{},"error_w":0.5}}]}})", number,
      rank.followed.version, cells, stage, kBlockingW);
}

void LoadJob::ask_for_plan(int number) {
  const Rank& rank = rank_at(number);
  const int after = rank.pending ? rank.pending->version : rank.followed.version;
  connections_.send(first_connection_ + 2 * static_cast<std::size_t>(number), "GET",
                    fmt::format("/v1/jobs/{}/plan?rank={}&after={}&wait_s=20", id_, number, after), {}, rank.key);
}

void LoadJob::send_next(int number) {
  Rank& rank = ranks_[static_cast<std::size_t>(number)];
  const std::size_t connection = first_connection_ + 2 * static_cast<std::size_t>(number) + 1;
  const auto post = [&](Doing doing, std::string_view what, const std::string& body) {
    rank.doing = doing;
    connections_.send(connection, "POST", what.empty() ? "/v1/jobs" : fmt::format("/v1/jobs/{}/{}", id_, what), body,
                      rank.key);
  };
  if (!rank.has_job) {
    post(Doing::registering_job, {}, job_text(shape_));
  } else if (rank.key.empty()) {
    post(Doing::registering, "ranks", rank_text(shape_, number));
  } else if (!rank.cells.empty()) {
    post(Doing::posting_cells, "profile", rank.cells);
  } else if (!rank.unacknowledged.empty()) {
    rank.reporting = std::min<std::size_t>(rank.unacknowledged.size(), 100);
    const auto end = rank.unacknowledged.begin() + static_cast<std::ptrdiff_t>(rank.reporting);
    post(Doing::reporting, "reports", reports_text(number, {rank.unacknowledged.begin(), end}));
  } else if (ending_ && !rank.finished) {
    post(Doing::finishing, "finish", fmt::format(R"({{"rank":{}}})", number));
  }
}

bool LoadJob::answered(std::size_t connection, const LoadAnswer& answer) {
  if (connection < first_connection_ || connection >= first_connection_ + 2 * ranks_.size()) return false;
  const std::size_t offset = connection - first_connection_;
  const int number = static_cast<int>(offset / 2);
  Rank& rank = ranks_[offset / 2];
  // Of a server that was killed, or has too much to do, it is asked again.
  const bool refused = answer.status == 0 || answer.status == 503;
  if (!refused && answer.status >= 300) {
    throw Error(fmt::format("rank {} of {} was answered {}: {}", number, shape_.run, answer.status, answer.body));
  }
  const auto again = LoadConnections::Clock::now() + kAgain;
  if (offset % 2 == 0) {
    if (refused) rank.plan_not_before = again;
    if (answer.status == 200) take_plan(number, rank, answer);
    return true;
  }
  if (refused) {
    rank.not_before = again;
  } else {
    take(number, rank, answer);
  }
  rank.doing = Doing::nothing;
  return true;
}

void LoadJob::take(int number, Rank& rank, const LoadAnswer& answer) {
  switch (rank.doing) {
    case Doing::nothing:
      break;
    case Doing::registering_job: {
      const std::string id(member_text(answer.body, "job"));
      if (!id_.empty() && id != id_) throw Error(fmt::format("{} has become another job", id_));
      id_ = id;
      rank.has_job = true;
      break;
    }
    case Doing::registering:
      rank.key = member_text(answer.body, "rank_key");
      break;
    case Doing::posting_cells:
      rank.cells.clear();
      ++cells_acknowledged_;
      break;
    case Doing::reporting: {
      const std::int64_t last = rank.unacknowledged[rank.reporting - 1].iteration;
      if (member_integer(answer.body, "last_iteration") < last) {
        throw Error(fmt::format("rank {} reported iteration {} and was answered {}", number, last, answer.body));
      }
      rank.acknowledged = last;
      rank.unacknowledged.erase(rank.unacknowledged.begin(),
                                rank.unacknowledged.begin() + static_cast<std::ptrdiff_t>(rank.reporting));
      break;
    }
    case Doing::finishing:
      rank.finished = true;
      break;
  }
}

void LoadJob::take_plan(int number, Rank& rank, const LoadAnswer& answer) {
  Offer offer;
  offer.version = static_cast<int>(member_integer(answer.body, "version"));
  offer.purpose = member_text(answer.body, "purpose");
  offer.from_iteration = member_integer(answer.body, "from_iteration");
  if (offer.version <= rank.followed.version) {
    throw Error(
        fmt::format("rank {} follows version {} and was given {}", number, rank.followed.version, offer.version));
  }
  offer.compute_s = compute_of(number, answer.body);
  if (offer.purpose == "profile") {
    const Json envelope = Json::parse(answer.body);
    const std::vector<plan::ClockTrial> trials = plan::read_clock_trials(JsonView(envelope, "plan").at("trials"));
    offer.end_iteration = trials.back().end_iteration();
    offer.clocks_mhz.push_back(static_cast<int>(member_integer(answer.body, "mhz")));
    for (const plan::ClockTrial& trial : trials) offer.clocks_mhz.push_back(trial.clock_mhz);
  }
  newest_version_ = std::max(newest_version_, offer.version);
  rank.pending = std::move(offer);
}

/// What the units of a rank take at the clocks of a plan.
double LoadJob::compute_of(int number, std::string_view answer) {
  const int stage = number / shape_.dp;
  const std::string_view text = answer.substr(answer.find("\"plan\":"));
  const auto [known, is_new] = compute_s_.try_emplace({stage, std::hash<std::string_view>{}(text)});
  if (!is_new) return known->second;
  const plan::Plan plan = plan::read_plan(Json::parse(answer).at("plan").dump(), "plan");
  double compute_s = 0;
  for (const plan::PlannedOp& op : plan.ranks.at(0))
    compute_s += profile_.at_clock(stage, op.kind, op.clock_mhz).time_s;
  return known->second = compute_s * scale_;
}

}  // namespace lowgear::server
