#include "client/search/point_search.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/numbers/median.h"
#include "planning/adapt/change_record.h"

namespace lowgear::client {

namespace {

constexpr std::size_t kKept = 20;
constexpr std::size_t kLeastKnown = 3;
constexpr double kFactor = 2;
constexpr double kFactorAmongPoints = 4;

double median_of(const std::deque<double>& times) {
  return upper_median(std::vector<double>(times.begin(), times.end()));
}

bool is_far(double time_s, double usual_s, double factor) {
  return time_s > factor * usual_s || time_s < usual_s / factor;
}

}  // namespace

void PauseFilter::keep(Times& times, double time_s) {
  times.push_back(time_s);
  if (times.size() > kKept) times.pop_front();
}

bool PauseFilter::is_pause(int point, double time_s) {
  Times& own = of_point_[point];
  bool far = false;
  if (own.size() >= kLeastKnown) {
    far = is_far(time_s, median_of(own), kFactor);
  } else if (of_all_.size() >= kLeastKnown) {
    far = is_far(time_s, median_of(of_all_), kFactorAmongPoints);
  }
  if (far) {
    ++in_a_row_;
    return true;
  }
  in_a_row_ = 0;
  keep(own, time_s);
  keep(of_all_, time_s);
  return false;
}

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kNsPerS = 1e9;
/// Longest that the training thread is taken to need between reading the clock and marking what it read it for.
constexpr std::uint64_t kMarkingNs = 100'000'000;
/// After this rank has given its lease back, and until other ranks have.
constexpr std::uint64_t kFirstRequestNs = 500'000'000;
constexpr std::uint64_t kMostWaitingNs = 60'000'000'000;
constexpr std::uint64_t kMostAwayNs = 60'000'000'000;
/// Not measured: kernels are chosen, memory is allocated.
constexpr std::size_t kFirstIterations = 3;
constexpr int kMostPausesInARow = 20;
constexpr double kBlocksAtMost = 30;

FileDescriptor open_record(const std::filesystem::path& path) {
  if (path.empty()) return {};
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) {
    throw InputError(
        fmt::format("{}: cannot be written: {}", printable(path.native()), std::generic_category().message(errno)));
  }
  return file;
}

}  // namespace

PointSearch::PointSearch(PointSearchOptions options, HeldPoint held, std::vector<measure::GpuMeter> meters,
                         NowNs now_ns, Say say)
    : options_(std::move(options)),
      held_(std::move(held)),
      now_ns_(std::move(now_ns)),
      say_(std::move(say)),
      record_(open_record(options_.record)),
      since_ns_(now_ns_()) {
  for (measure::GpuMeter& meter : meters) meters_.emplace_back(std::move(meter));
  // Throws for options out of range.
  adapt::ChangeOptions checked = change_options();
  if (options_.choose) checked.points.emplace_back("another");
  (void)adapt::ChangeController(checked);
  status_.kind = options_.kind;
  status_.reason = "the GPUs are asked for";
}

PointSearch::~PointSearch() {
  const PointSearchState state = status_.state;
  held_.release();
  if (state != PointSearchState::waiting && state != PointSearchState::searching) return;
  say_(
      fmt::format("the job ended before the search of its operating point had, after {} iterations ({}); its GPUs are "
                  "set as before",
                  status_.iterations, status_.reason));
}

PointSearchStatus PointSearch::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

adapt::ChangeOptions PointSearch::change_options() const {
  adapt::ChangeOptions options;
  for (const double value : options_.values) options.points.push_back(point_name(options_.kind, value));
  options.search = options_.search;
  if (options_.adapts_limit && !first_times_s_.empty()) {
    const double time_s = std::ranges::min(first_times_s_);
    const double most = std::min(std::ceil(kBlocksAtMost * options.search.block_s / time_s), 1e9);
    options.search.max_iterations = std::max(options.search.max_iterations, static_cast<int>(most));
  }
  return options;
}

void PointSearch::look() {
  const std::uint64_t now_ns = now_ns_();
  for (IterationMeter& meter : meters_) meter.advance_to(now_ns - std::min(now_ns, kMarkingNs));
  switch (status_.state) {
    case PointSearchState::waiting:
      return held_.value() == 0 ? request_gpus() : keep_held();
    case PointSearchState::searching:
    case PointSearchState::found:
      return keep_held();
    case PointSearchState::none:
    case PointSearchState::cut_off:
      return;
  }
}

/// Requests GPUs before the first block, so that refusals come early. Other ranks may still hold their leases.
void PointSearch::request_gpus() {
  const std::uint64_t now_ns = now_ns_();
  if (now_ns < since_ns_ + kFirstRequestNs) return;
  std::string problem;
  try {
    try_points();
    if (held_.away().empty()) {
      const std::lock_guard lock(mutex_);
      status_.value = held_.value();
      status_.reason = "waits for the job's first iterations";
      return;
    }
    problem = held_.away();
  } catch (const GpuHeld& error) {
    problem = error.what();
  } catch (const LeaseRefused& error) {
    return end(PointSearchState::cut_off, error.what());
  }
  held_.release();
  if (now_ns - since_ns_ >= kMostWaitingNs) return end(PointSearchState::cut_off, problem);
  const std::lock_guard lock(mutex_);
  status_.reason = problem;
}

void PointSearch::try_points() {
  std::string refusal;
  for (std::size_t i = options_.values.size(); i-- > 0;) {
    try {
      held_.run_at(options_.values[i]);
    } catch (const GpuHeld&) {
      throw;
    } catch (const LeaseRefused& error) {
      const bool may_go = options_.choose && i > 0 && options_.values.size() > 2;
      if (!may_go)
        throw LeaseRefused(fmt::format("{}: {}", point_name(options_.kind, options_.values[i]), error.what()));
      options_.values.erase(options_.values.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (!held_.away().empty()) return;
  }
}

/// The job has run at full speed, so that it is known what holds it back.
void PointSearch::choose_points() {
  try {
    options_.values = options_.choose(full_speed_);
    try_points();
  } catch (const Error& error) {
    return end(PointSearchState::cut_off, error.what());
  }
  if (held_.away().empty()) return begin_search();
  held_.release();
  options_.values.resize(1);
  first_times_s_.clear();
  since_ns_ = now_ns_();
}

void PointSearch::keep_held() {
  const bool was_held = held_.away().empty();
  try {
    held_.keep();
  } catch (const LeaseRefused& error) {
    if (status_.state == PointSearchState::searching) return could_not_switch(error.what());
    return end(PointSearchState::cut_off, error.what());
  }
  if (status_.state != PointSearchState::searching || held_.away().empty()) return;
  if (was_held) observe(kNone, kNone, true);  // abandons the block
  if (status_.state != PointSearchState::searching) return;
  if (now_ns_() - held_.away_since_ns() >= kMostAwayNs) could_not_switch(held_.away());
}

void PointSearch::add(const UnitRecord& record) {
  std::optional<MeasuredIteration> all;
  for (IterationMeter& meter : meters_) {
    std::optional<MeasuredIteration> measured = meter.add(record);
    if (!measured) continue;
    // Points differ by less than power readings err.
    if (!measured->is_counted) measured->energy_j.reset();
    if (!all) {
      all = measured;
    } else if (all->energy_j && measured->energy_j) {
      *all->energy_j += *measured->energy_j;
    } else {
      all->energy_j.reset();
    }
    // The slowest GPU sets the pace.
    if (measured->mean_sm_clock_mhz < all->mean_sm_clock_mhz) all->mean_sm_clock_mhz = measured->mean_sm_clock_mhz;
  }
  if (all) observe(*all, record.end_ns);
}

void PointSearch::observe(const MeasuredIteration& measured, std::uint64_t end_ns) {
  if (held_.value() == 0 || !held_.away().empty() || end_ns < held_.settled_ns()) return;
  if (status_.state == PointSearchState::waiting) {
    const double begin_ns = static_cast<double>(end_ns) - measured.time_s * kNsPerS;
    if (begin_ns < static_cast<double>(held_.settled_ns())) return;
    first_times_s_.push_back(measured.time_s);
    full_speed_ = {.clock_mhz = measured.mean_sm_clock_mhz.value_or(full_speed_.clock_mhz),
                   .power_w = measured.energy_j.value_or(0) / measured.time_s / static_cast<double>(meters_.size())};
    if (first_times_s_.size() < kFirstIterations) return;
    return options_.choose ? choose_points() : begin_search();
  }
  const int point = controller_->current().point;
  const bool is_pause = pauses_.is_pause(point, measured.time_s);
  if (pauses_.in_a_row() >= kMostPausesInARow) {
    first_times_s_.assign(1, measured.time_s);
    pauses_ = {};
    return begin_search();
  }
  if (status_.state != PointSearchState::searching) return;
  observe(measured.time_s, measured.energy_j.value_or(kNone), !is_pause);
}

void PointSearch::begin_search() {
  const adapt::ChangeOptions options = change_options();
  controller_.emplace(options);
  rounds_said_ = -1;
  write(adapt::write_change_header(options, controller_->state(), status_.iterations));
  {
    const std::lock_guard lock(mutex_);
    status_.state = PointSearchState::searching;
    status_.estimate = {};
  }
  observe(first_times_s_.back(), kNone, false);  // begins it
}

void PointSearch::observe(double time_s, double energy_j, bool counted) {
  decide({.steps_done = status_.iterations + 1,
          .time_s = time_s,
          .energy_j = energy_j,
          .counted = counted,
          .switched = true});
}

void PointSearch::could_not_switch(const std::string& why) {
  decide({.steps_done = status_.iterations + 1, .time_s = kNone, .energy_j = kNone, .counted = true, .switched = false},
         why);
}

void PointSearch::decide(const adapt::IterationSeen& seen, const std::string& problem) {
  const adapt::ChangeStep step{.window = {}, .iteration = seen, .decisions = controller_->observe(seen)};
  write(adapt::write_change_line(step));
  {
    const std::lock_guard lock(mutex_);
    status_.iterations = seen.steps_done;
    if (controller_->search() != nullptr) status_.cost = controller_->search()->cost();
  }
  for (const adapt::ChangeDecision& decision : step.decisions) handle(decision, problem);
  if (status_.state != PointSearchState::searching) return;
  say_progress(step.decisions);
  const int point = controller_->current().point;
  if (held_.value() != options_.values[static_cast<std::size_t>(point)]) run_at(point);
}

void PointSearch::handle(const adapt::ChangeDecision& decision, const std::string& problem) {
  if (decision.action == adapt::ChangeAction::adopt) return adopt(decision);
  if (decision.action == adapt::ChangeAction::reject) return end(PointSearchState::none, decision.reason);
  if (decision.action == adapt::ChangeAction::cut_off) {
    return end(PointSearchState::cut_off,
               problem.empty() ? decision.reason : fmt::format("{}: {}", decision.reason, problem));
  }
  const std::lock_guard lock(mutex_);
  status_.reason = decision.reason;
}

/// The search takes minutes.
void PointSearch::say_progress(const std::vector<adapt::ChangeDecision>& decisions) {
  if (controller_->search() == nullptr) return;
  const adapt::SearchProgress now = controller_->search()->progress();
  if (now.rounds == rounds_said_) return;
  rounds_said_ = now.rounds;
  const std::string round = duration_text(now.round_s);
  if (now.rounds == 0) {
    return say_(fmt::format("searching the operating point among {}: at least two rounds of at least {} each",
                            now.points, round));
  }
  std::string dropped;
  for (const adapt::ChangeDecision& decision : decisions) {
    if (decision.action == adapt::ChangeAction::drop) dropped += fmt::format("{}; ", decision.reason);
  }
  say_(fmt::format("searching: {}{} left after round {}; the next takes at least {}", dropped,
                   counted(now.points, "point", "points"), now.rounds, round));
}

/// It is said once the job runs there.
void PointSearch::adopt(const adapt::ChangeDecision& decision) {
  const int point = decision.configuration.point;
  {
    const std::lock_guard lock(mutex_);
    status_.state = PointSearchState::found;
    status_.value = options_.values[static_cast<std::size_t>(point)];
    status_.estimate = controller_->search()->estimate(point);
    status_.reason = decision.reason;
  }
  run_at(point);
  if (status_.state != PointSearchState::found) return;
  say_(fmt::format("operating point {}", decision.reason));
}

void PointSearch::run_at(int point) {
  try {
    held_.run_at(options_.values[static_cast<std::size_t>(point)]);
  } catch (const LeaseRefused& error) {
    if (status_.state == PointSearchState::searching) return could_not_switch(error.what());
    return end(PointSearchState::cut_off, error.what());
  }
  const std::lock_guard lock(mutex_);
  status_.value = held_.value();
}

void PointSearch::end(PointSearchState state, std::string reason) {
  std::string_view what = "no operating point was found";
  if (state == PointSearchState::none) what = "the operating point stays";
  if (status_.state == PointSearchState::found) what = "the operating point is given up";
  held_.release();
  say_(fmt::format("{}: {}; the GPUs are set as before", what, reason));
  const std::lock_guard lock(mutex_);
  status_.state = state;
  status_.value = 0;
  status_.estimate = {};
  status_.reason = std::move(reason);
}

/// A record that cannot be written to (a full disk) is no reason to end anything.
void PointSearch::write(const std::string& line) {
  if (!record_) return;
  const std::string text = line + "\n";
  if (::write(record_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) return;
  record_.reset();
  say_(fmt::format("{}: cannot be written to: {}", options_.record.string(), std::generic_category().message(errno)));
}

}  // namespace lowgear::client
