#include "planning/sharing/contention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"
#include "base/core/text.h"

namespace lowgear::sharing {

namespace {

/// A job without pauses pauses for this share of its time: the chain needs a rate.
constexpr double kShortestPause = 1e-7;
/// A job without kernels.
constexpr double kLeastBusy = 1e-9;

using Matrix = std::vector<std::vector<double>>;

void check(std::span<const Demand> jobs, double margin) {
  if (jobs.size() > kMaxJobsPerGpu) {
    throw InputError(fmt::format("{} jobs on one GPU: at most {} can share it", jobs.size(), kMaxJobsPerGpu));
  }
  if (!(margin >= 0 && margin <= 10)) throw InputError(fmt::format("the margin must be from 0 to 10, not {}", margin));
  for (const Demand& job : jobs) {
    if (!(job.busy >= 0 && job.busy <= 1)) {
      throw InputError(fmt::format("a busy share must be from 0 to 1, not {}", job.busy));
    }
    if (!(job.width > 0 && job.width <= 1)) {
      throw InputError(fmt::format("a share of the SMs must be above 0 and at most 1, not {}", job.width));
    }
  }
}

bool holds(std::size_t set, std::size_t job) { return ((set >> job) & 1U) != 0; }

/// Of each kernel while exactly the jobs of `set` have one.
double rate_of(std::span<const Demand> jobs, std::size_t set) {
  double width = 0;
  for (std::size_t job = 0; job < jobs.size(); ++job) width += holds(set, job) ? jobs[job].width : 0;
  return 1 / std::max(1.0, width);
}

/// Solves `matrix` x = `right`. Partial pivoting; the matrix is regular.
std::vector<double> solve(Matrix matrix, std::vector<double> right) {
  const std::size_t size = right.size();
  for (std::size_t column = 0; column < size; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < size; ++row) {
      if (std::fabs(matrix[row][column]) > std::fabs(matrix[pivot][column])) pivot = row;
    }
    std::swap(matrix[column], matrix[pivot]);
    std::swap(right[column], right[pivot]);
    for (std::size_t row = 0; row < size; ++row) {
      if (row == column) continue;
      const double factor = matrix[row][column] / matrix[column][column];
      for (std::size_t other = column; other < size; ++other) matrix[row][other] -= factor * matrix[column][other];
      right[row] -= factor * right[column];
    }
  }
  for (std::size_t row = 0; row < size; ++row) right[row] /= matrix[row][row];
  return right;
}

/// Probabilities of the sets of jobs that have a kernel.
std::vector<double> set_probabilities(std::span<const Demand> jobs) {
  const std::size_t sets = std::size_t{1} << jobs.size();
  Matrix balance(sets, std::vector<double>(sets, 0));
  const auto add_flow = [&](std::size_t from, std::size_t to, double rate) {
    balance[to][from] += rate;
    balance[from][from] -= rate;
  };
  for (std::size_t set = 0; set < sets; ++set) {
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      const double busy = std::max(kLeastBusy, jobs[job].busy);
      const double pause = std::max(kShortestPause, 1 - jobs[job].busy);
      const std::size_t other = set ^ (std::size_t{1} << job);
      add_flow(set, other, holds(set, job) ? rate_of(jobs, set) / busy : 1 / pause);
    }
  }
  // The balance of one state follows from the others'; in its place the probabilities sum to 1.
  std::ranges::fill(balance.back(), 1);
  std::vector<double> right(sets, 0);
  right.back() = 1;
  return solve(std::move(balance), std::move(right));
}

double predicted_slowdown(std::span<const Demand> jobs, const std::vector<double>& probabilities, std::size_t job) {
  double per_time = 0;  // time of the job alone that passes in a unit of time: it passes in pauses and in kernels
  for (std::size_t set = 0; set < probabilities.size(); ++set) {
    per_time += probabilities[set] * (holds(set, job) ? rate_of(jobs, set) : 1);
  }
  return std::max(1.0, 1 / per_time);
}

/// While its kernels overlap with others, a job loses at most 1 - 1/c of its rate, with c the sum of all widths. They
/// overlap for at most all of their time, and at most as long as the others have kernels.
double worst_slowdown(std::span<const Demand> jobs, std::size_t job) {
  double width = 0;
  double busy_others = 0;
  for (std::size_t other = 0; other < jobs.size(); ++other) {
    width += jobs[other].width;
    if (other != job) busy_others += jobs[other].busy;
  }
  const double excess = std::max(1.0, width) - 1;
  const double lost_by_own = jobs[job].busy * excess;
  const double share = excess * busy_others;
  return 1 + (share < 1 ? std::min(lost_by_own, share / (1 - share)) : lost_by_own);
}

double best_slowdown(std::span<const Demand> jobs, const std::vector<double>& worst, std::size_t job) {
  double left = 1;
  for (std::size_t other = 0; other < jobs.size(); ++other) {
    if (other != job) left -= jobs[other].busy * jobs[other].width / worst[other];
  }
  return left > 0 ? std::max(1.0, jobs[job].busy * jobs[job].width / left) : 1;
}

}  // namespace

std::vector<Slowdown> shared_slowdowns(std::span<const Demand> jobs, double margin) {
  check(jobs, margin);
  const std::vector<double> probabilities = set_probabilities(jobs);
  std::vector<double> worst;
  for (std::size_t job = 0; job < jobs.size(); ++job) worst.push_back(worst_slowdown(jobs, job));
  std::vector<Slowdown> slowdowns;
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    const double low = std::min(best_slowdown(jobs, worst, job), worst[job]);
    const double predicted = std::clamp(predicted_slowdown(jobs, probabilities, job), low, worst[job]);
    const bool alone = jobs.size() == 1;
    slowdowns.push_back({.low = low, .predicted = predicted, .high = alone ? 1 : worst[job] * (1 + margin)});
  }
  return slowdowns;
}

namespace {

constexpr double kMostMemoryGib = 1e4;
constexpr double kMostPowerW = 1e4;
constexpr double kLongestIterationS = 1e6;
constexpr double kPercent = 100;

/// The table with its rows and columns, of which some may be absent.
class Cells {
 public:
  Cells(std::string_view csv, const std::string& source) : table_(csv, source) {}

  [[nodiscard]] const CsvTable& table() const { return table_; }
  [[nodiscard]] bool has(std::size_t row, std::string_view column) const {
    return table_.has_column(column) && !table_.text(row, table_.column(column)).empty();
  }
  [[nodiscard]] const std::string& text(std::size_t row, std::string_view column) const {
    return table_.text(row, table_.column(column));
  }
  [[nodiscard]] double number(std::size_t row, std::string_view column, double low, double high) const {
    const double value = table_.number(row, table_.column(column));
    if (value < low || value > high) {
      fail(row, column, fmt::format("{} must be from {} to {}, not {}", column, low, high, value));
    }
    return value;
  }
  [[noreturn]] void fail(std::size_t row, std::string_view column, const std::string& what,
                         std::string_view fix = {}) const {
    throw_input_error(table_.where(row, table_.column(column)), what, fix);
  }

 private:
  CsvTable table_;
};

void read_name(const Cells& cells, std::size_t row, const std::vector<JobLoad>& others, JobLoad& job) {
  job.name = cells.text(row, "job");
  constexpr std::size_t kLongestName = 60;
  if (job.name.empty() || job.name.size() > kLongestName || printable(job.name) != job.name) {
    cells.fail(row, "job", "is not a valid job name", fmt::format("write 1 to {} printable characters", kLongestName));
  }
  if (std::ranges::find(others, job.name, &JobLoad::name) != others.end()) {
    cells.fail(row, "job", fmt::format("job {} occurs twice", quote(job.name)),
               "write one row with its number of GPUs: two ranks of a job never share one, as NCCL refuses that");
  }
}

void read_measured(const Cells& cells, std::size_t row, const MeasurementReader& measurement, JobTable& result,
                   JobLoad& job) {
  for (const std::string_view column : {"gpus", "busy_pct", "power_w"}) {
    if (cells.has(row, column)) {
      cells.fail(row, column, fmt::format("{} follows from the measurement", column), "leave one of the two empty");
    }
  }
  const MonitoredLoad load = measurement(cells.text(row, "measurement"));
  job.gpus = load.gpus;
  job.busy = load.busy;
  job.power_w = load.power_w;
  result.simulated = result.simulated || load.simulated;
}

void read_stated(const Cells& cells, std::size_t row, JobLoad& job) {
  if (cells.has(row, "gpus")) {
    static_cast<void>(cells.table().integer(row, cells.table().column("gpus")));  // throws on a fraction
    job.gpus = static_cast<int>(cells.number(row, "gpus", 1, kMaxGpusOfJob));
  }
  job.busy = cells.number(row, "busy_pct", 0, kPercent) / kPercent;
  job.power_w = cells.number(row, "power_w", 0, kMostPowerW);
}

void read_optional(const Cells& cells, std::size_t row, JobLoad& job) {
  if (cells.has(row, "sm_active_pct")) {
    job.sm_active = cells.number(row, "sm_active_pct", 0, kPercent) / kPercent;
    if (*job.sm_active > job.busy) {
      cells.fail(row, "sm_active_pct",
                 fmt::format("SMs are active {:.4g} % of the time and kernels run {:.4g} %", kPercent * *job.sm_active,
                             kPercent * job.busy),
                 "SMs are active only while a kernel runs");
    }
  }
  if (cells.has(row, "iteration_s")) job.iteration_s = cells.number(row, "iteration_s", 1e-6, kLongestIterationS);
}

void check_columns(const CsvTable& table, std::string_view csv, const std::string& source) {
  static constexpr auto kKnown = std::to_array<std::string_view>(
      {"job", "memory_gib", "measurement", "gpus", "busy_pct", "power_w", "sm_active_pct", "iteration_s"});
  for (const std::string_view column : {"job", "memory_gib"}) static_cast<void>(table.column(column));
  const std::vector<CsvRow> rows = parse_csv(csv, source);
  for (const CsvCell& cell : rows.front().cells) {
    if (std::ranges::find(kKnown, cell.text) != kKnown.end()) continue;
    const auto nearest = nearest_name(cell.text, std::vector<std::string_view>(kKnown.begin(), kKnown.end()));
    throw_input_error({source, cell.line, cell.column}, fmt::format("there is no column {}", quote(cell.text)),
                      nearest ? fmt::format("did you mean {}?", quote(*nearest)) : "leave it out");
  }
}

}  // namespace

MonitoredLoad read_monitored_load(std::string_view json, const std::string& source) {
  const Json document = parse_json(json, source);
  const JsonView root(document, source);
  const JsonView gpus = root.at("gpus");
  MonitoredLoad load;
  if (gpus.size() == 0 || gpus.size() > kMaxGpusOfJob) {
    gpus.fail(fmt::format("holds {} GPUs", gpus.size()),
              fmt::format("measure the 1 to {} GPUs of one job: lowgear monitor --gpu GPU", kMaxGpusOfJob));
  }
  load.gpus = static_cast<int>(gpus.size());
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    load.busy = std::max(load.busy, number_in(gpus.at(i).at("mean_utilisation_percent"), 0, kPercent) / kPercent);
    load.power_w += number_in(gpus.at(i).at("mean_power_w"), 0, kMostPowerW) / load.gpus;
  }
  load.simulated = root.has("simulated") && root.at("simulated").boolean();
  return load;
}

JobTable read_job_table(std::string_view csv, const std::string& source, const MeasurementReader& measurement) {
  const Cells cells(csv, source);
  check_columns(cells.table(), csv, source);
  JobTable result;
  for (std::size_t row = 0; row < cells.table().rows(); ++row) {
    JobLoad job;
    read_name(cells, row, result.jobs, job);
    job.memory_gib = cells.number(row, "memory_gib", 0, kMostMemoryGib);
    if (cells.has(row, "measurement")) {
      read_measured(cells, row, measurement, result, job);
    } else {
      read_stated(cells, row, job);
    }
    read_optional(cells, row, job);
    result.jobs.push_back(std::move(job));
  }
  if (result.jobs.empty()) throw_input_error({source, 0, 0}, "holds no job", "write a row for each");
  return result;
}

}  // namespace lowgear::sharing
