#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "checks.h"
#include "protocol/rank_reports.h"
#include "protocol/rank_spec.h"
#include "server/job/iteration_log.h"
#include "server/job/plan_version.h"
#include "server/planning/planning_inputs.h"

namespace {

using namespace lowgear;

constexpr int kStages = 8;

/// Schedules of more units than this are left out: they take longer than there is to be found.
constexpr long long kMostUnits = 4'096;

void read_job(const JsonView& body) {
  const protocol::JobSpec spec = protocol::read_job_spec(body);
  const Json json = to_json(spec);
  require(protocol::read_job_spec(JsonView(json, "written")) == spec);
  require(first_difference(spec, spec).empty());
  if (2LL * spec.parallel.stages() * spec.microbatches > kMostUnits) return;
  const schedule::Schedule schedule = server::make_schedule(spec);
  require(schedule.rank_count() == spec.parallel.pp && schedule.microbatches == spec.microbatches);
}

void read_rank(const JsonView& body) {
  const protocol::JobParallel parallel{.pp = 4, .dp = 2, .tp = 2, .chunks = 1};
  const protocol::RankSpec rank = read_rank_spec(body, parallel);
  require(rank.rank >= 0 && rank.rank < parallel.world_size());
  const Json json = to_json(rank);
  require(to_json(protocol::read_rank_spec(JsonView(json, "written"), parallel)) == json);
}

/// Whatever a rank reports can be written down, and never opens more than it says.
void read_reports(const JsonView& body) {
  protocol::RankReports reports = protocol::read_rank_reports(body);
  const Json json = to_json(reports);
  require(to_json(protocol::read_rank_reports(JsonView(json, "written"))) == json);
  server::IterationLog log(2);
  reports.rank = 0;
  const std::size_t added = log.add(reports, 0);
  require(added <= reports.reports.size());
  require(log.add(reports, 1) == 0);
  reports.rank = 1;
  (void)log.add(reports, 2);
  std::size_t whole = 0;
  std::int64_t before = -1;
  while (const auto iteration = log.next(3)) {
    require(iteration->iteration > before && iteration->ranks == 2);
    before = iteration->iteration;
    ++whole;
  }
  require(whole == added);
}

void read_cells(const JsonView& body) {
  const protocol::RankCells cells = protocol::read_rank_cells(body, kStages);
  const Json json = to_json(cells);
  require(to_json(protocol::read_rank_cells(JsonView(json, "written"), kStages)) == json);
  const server::MeasuredProfile merged = server::merge_cells(std::vector<protocol::RankCells>{cells, cells}, kStages);
  const std::string text = write_measured_profile(merged);
  require(server::write_measured_profile(server::read_measured_profile(text)) == text);
}

void read_decisions(const JsonView& body) {
  const protocol::RankDecisions decisions = protocol::read_rank_decisions(body);
  const Json json = Json::parse(write_rank_decisions(decisions));
  require(protocol::read_rank_decisions(JsonView(json, "written")) == decisions);
}

void read_finish(const JsonView& body) {
  const protocol::RankFinish finish = protocol::read_rank_finish(body, protocol::kMaxJobRanks);
  const Json json = Json::parse(write_rank_finish(finish));
  require(protocol::read_rank_finish(JsonView(json, "written"), protocol::kMaxJobRanks) == finish);
}

void read_version(std::string_view text) {
  const server::PlanVersion version = server::read_plan_version(text);
  const std::string written = write_plan_version(version);
  require(server::write_plan_version(server::read_plan_version(written)) == written);
  if (version.plan_of_replica.empty() || version.plan_of(0).ranks.empty()) return;
  require(!server::RankPlanTexts(version).text(0, 0, 7)->empty());
}

void read_profile(std::string_view text) {
  const std::string written = server::write_measured_profile(server::read_measured_profile(text));
  require(server::write_measured_profile(server::read_measured_profile(written)) == written);
}

}  // namespace

/// The first byte says what the rest is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] == 'v') return read_version(text), 0;
    if (data[0] == 'p') return read_profile(text), 0;
    const Json document = parse_json(text, "body", 100'000);
    const JsonView body(document, "body");
    switch (data[0]) {
      case 'j':
        read_job(body);
        break;
      case 'r':
        read_rank(body);
        break;
      case 'i':
        read_reports(body);
        break;
      case 'd':
        read_decisions(body);
        break;
      case 'f':
        read_finish(body);
        break;
      default:
        read_cells(body);
    }
  } catch (const InputError&) {
    // What is wrong is refused.
  }
  return 0;
}
