#include "planning/sharing/job_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"
#include "base/core/suggestion.h"

namespace lowgear::sharing {
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
    if (value < low || value > high) fail(row, column, fmt::format("{} is {} to {}, not {}", column, low, high, value));
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
    cells.fail(row, "job", "is no name of a job", fmt::format("write 1 to {} printable characters", kLongestName));
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
      cells.fail(row, column, fmt::format("{} follows from the measurement", column), "leave one of both empty");
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
    gpus.fail(fmt::format("{} GPUs were measured", gpus.size()),
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
