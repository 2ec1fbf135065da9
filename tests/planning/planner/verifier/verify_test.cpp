#include "planning/planner/verifier/verify.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <cctype>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "planning/planner/progress_log.h"
#include "planning/planner/sample_folder.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/torch_csv.h"

namespace lowgear::planner {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Replaces the first `from` after `anchor`; a test whose text has changed must not pass by changing nothing.
void replace(std::string& text, std::string_view anchor, std::string_view from, std::string_view to) {
  const std::size_t begin = text.find(anchor);
  ASSERT_NE(begin, std::string::npos) << anchor;
  const std::size_t at = text.find(from, begin);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

/// The place of a cell of a CSV; rows count from the header, 0.
std::pair<std::size_t, std::size_t> cell_at(const std::string& text, int row, int column) {
  std::size_t begin = 0;
  for (int i = 0; i < row; ++i) begin = text.find('\n', begin) + 1;
  for (int i = 0; i < column; ++i) begin = text.find(',', begin) + 1;
  return {begin, text.find_first_of(",\n", begin) - begin};
}

/// Multiplies a number of a CSV.
void scale_cell(std::string& text, int row, int column, double factor) {
  const auto [begin, size] = cell_at(text, row, column);
  text.replace(begin, size, fmt::format("{}", std::stod(text.substr(begin, size)) * factor));
}

void set_cell(std::string& text, int row, int column, const std::string& value) {
  const auto [begin, size] = cell_at(text, row, column);
  text.replace(begin, size, value);
}

std::string row_of(const std::string& text, int row) {
  const std::size_t begin = cell_at(text, row, 0).first;
  return text.substr(begin, text.find('\n', begin) + 1 - begin);
}

/// Multiplies a number of a JSON text, the first one of that name.
void scale_member(std::string& text, const std::string& name, double factor) {
  const std::size_t begin = text.find(':', text.find("\"" + name + "\"")) + 1;
  const std::size_t end = text.find_first_of(",}\n", begin);
  text.replace(begin, end - begin, fmt::format(" {}", std::stod(text.substr(begin, end - begin)) * factor));
}

/// Adds to the number that follows the given piece of text, the first one.
void add_behind(std::string& text, const std::string& piece, long long amount) {
  const std::size_t begin = text.find(piece) + piece.size();
  const std::size_t end = text.find_first_not_of("-0123456789", begin);
  text.replace(begin, end - begin, std::to_string(std::stoll(text.substr(begin, end - begin)) + amount));
}

TEST(Verify, AcceptsAnExactFrontier) {
  const VerifyReport report = verify(planner::sample_folder(planner::sample_run()));
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_TRUE(report.ok());
  EXPECT_GT(report.vertices, 20U);
  EXPECT_EQ(report.plans, 2U);
  EXPECT_EQ(report.epsilon, 0) << "in integers, primal and dual are the same";
  EXPECT_GT(report.max_gap_pct, 0);
}

TEST(Verify, ReportsEveryVertexAndPlanSoThatAStopIsSoon) {
  const PlanFolder folder = planner::sample_folder(planner::sample_run());
  StopsAfter counted(0);
  const VerifyReport report = verify(folder, &counted);
  EXPECT_GE(counted.reports(), static_cast<int>(report.vertices + report.plans));
  for (const int last : {1, counted.reports() / 2, counted.reports()}) {
    StopsAfter stop(last);
    EXPECT_THROW((void)verify(folder, &stop), Stopped);
    EXPECT_EQ(stop.reports(), last);
  }
}

TEST(Verify, AcceptsEverySchedule) {
  for (const schedule::ScheduleGenerator& generator : schedule::schedule_generators()) {
    SampleRun run = sample_run();
    schedule::ScheduleRequest request{std::string(generator.name), 3, 6, generator.most_chunks > 1 ? 2 : 1, {}};
    request.envpipe_stages.assign(3, {0.05, 0.1, std::nullopt});
    run.schedule = make_schedule(request);
    run.profile = with_recomputation(sample_profile(run.schedule.stages, 5), 0.9);
    const VerifyReport report = verify(planner::sample_folder(run));
    EXPECT_THAT(report.failures, IsEmpty()) << generator.name;
    EXPECT_EQ(report.epsilon, 0) << generator.name;
  }
}

TEST(Verify, RefusesARecomputationBeforeItsForwardOrAfterItsBackward) {
  SampleRun run = sample_run();
  run.schedule = schedule::make_schedule({"merak-early-recompute", 3, 4, 1, {}});
  run.profile = with_recomputation(sample_profile(3, 5), 0.9);
  const PlanFolder folder = planner::sample_folder(run);
  for (const auto& [order, other] :
       {std::pair{"0F2,0C0,0F3,0C1,0R2", "0R2,0F2,0C0,0F3,0C1"}, std::pair{"0R3,0B3", "0B3,0R3"}}) {
    PlanFolder changed = folder;
    const std::size_t at = changed.schedule.text.find(order);
    ASSERT_NE(at, std::string::npos) << changed.schedule.text;
    changed.schedule.text.replace(at, std::string_view(order).size(), other);
    EXPECT_THAT(error_of([&] { (void)verify(changed); }), HasSubstr("before what it needs"));
  }
}

TEST(Verify, AcceptsPipelinesWithNothingToPlan) {
  for (const int clocks : {1, 2}) {
    SampleRun run = sample_run();
    run.schedule = schedule::one_f_one_b_schedule(1, 1);
    run.profile = sample_profile(1, clocks);
    run.blocking_power_w = {0};
    const VerifyReport report = verify(planner::sample_folder(run));
    EXPECT_THAT(report.failures, IsEmpty()) << clocks;
    EXPECT_EQ(report.epsilon, 0) << clocks;
  }
}

TEST(Verify, AcceptsASandwichWithinItsEpsilon) {
  SampleRun run = sample_run();
  run.schedule = schedule::one_f_one_b_schedule(6, 12);
  run.profile = sample_profile(6, 8);
  run.blocking_power_w.assign(6, 80);
  run.sandwich_epsilon = 0.01;
  PlanFolder folder = planner::sample_folder(run);
  const VerifyReport report = verify(folder);
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_GT(report.epsilon, 0);
  EXPECT_LE(report.epsilon, 0.01);

  replace(folder.run.text, "epsilon", "0.01", fmt::format("{}", report.epsilon / 2));
  EXPECT_THAT(verify(folder).failures, Contains(HasSubstr("above its proven bound")));
  replace(folder.run.text, "frontier_method", "sandwich", "exact");
  EXPECT_THAT(verify(folder).failures, Contains(HasSubstr("above its proven bound")));
}

TEST(Verify, ReplaysPlansWithSwitchLatency) {
  SampleRun run = sample_run();
  run.late_by_s = 0.015;
  PlanFolder folder = planner::sample_folder(run);
  EXPECT_THAT(verify(folder).failures, IsEmpty());
  replace(folder.run.text, "late_by_s", "0.015", "0");
  EXPECT_THAT(verify(folder).failures, Contains(HasSubstr("the check computes")));
}

/// One way to tamper with a folder.
struct Tampering {
  const char* name;
  std::function<void(PlanFolder&)> apply;

  friend std::ostream& operator<<(std::ostream& out, const Tampering& tampering) { return out << tampering.name; }
};

class TamperedFolder : public ::testing::TestWithParam<Tampering> {};

TEST_P(TamperedFolder, IsFound) {
  PlanFolder folder = planner::sample_folder(planner::sample_run());
  GetParam().apply(folder);
  if (HasFatalFailure()) return;
  try {
    EXPECT_FALSE(verify(folder).ok());
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
  }
}

const auto kFrontierTampering = std::to_array<Tampering>({
    {"FrontierEnergyRaised", [](PlanFolder& f) { scale_cell(f.frontier.text, 5, 1, 1 + 1e-7); }},
    {"FrontierEnergyLowered", [](PlanFolder& f) { scale_cell(f.frontier.text, 5, 1, 1 - 1e-7); }},
    {"FrontierTimeRaised", [](PlanFolder& f) { scale_cell(f.frontier.text, 5, 0, 1 + 1e-7); }},
    {"FrontierTimeByAPicosecond",
     [](PlanFolder& f) {
       const auto [begin, size] = cell_at(f.frontier.text, 7, 0);
       set_cell(f.frontier.text, 7, 0, fmt::format("{}", std::stod(f.frontier.text.substr(begin, size)) + 1e-12));
     }},
    {"FrontierFirstRemoved", [](PlanFolder& f) { replace(f.frontier.text, "\n", row_of(f.frontier.text, 1), ""); }},
    {"FrontierMiddleRemoved", [](PlanFolder& f) { replace(f.frontier.text, "\n", row_of(f.frontier.text, 9), ""); }},
    {"FrontierLastRemoved",
     [](PlanFolder& f) { f.frontier.text.erase(f.frontier.text.rfind('\n', f.frontier.text.size() - 2) + 1); }},
    {"FrontierRowAdded", [](PlanFolder& f) { f.frontier.text += "100,100000\n"; }},
    {"FrontierRowTwice",
     [](PlanFolder& f) {
       const std::string row = row_of(f.frontier.text, 4);
       replace(f.frontier.text, "\n", row, row + row);
     }},
    {"FrontierRowBetween",
     [](PlanFolder& f) {
       const std::string row = row_of(f.frontier.text, 4);
       std::string middle = row_of(f.frontier.text, 5);
       for (const int column : {0, 1}) {
         const auto [a, a_size] = cell_at(row, 0, column);
         const auto [b, b_size] = cell_at(middle, 0, column);
         set_cell(middle, 0, column,
                  fmt::format("{}", (std::stod(row.substr(a, a_size)) + std::stod(middle.substr(b, b_size))) / 2));
       }
       replace(f.frontier.text, "\n", row, row + middle);
     }},
    {"FrontierNegativeTime", [](PlanFolder& f) { scale_cell(f.frontier.text, 5, 0, -1); }},
    {"FrontierHugeTime", [](PlanFolder& f) { set_cell(f.frontier.text, 5, 0, "1e300"); }},
    {"FrontierEmpty", [](PlanFolder& f) { f.frontier.text = ""; }},
});
INSTANTIATE_TEST_SUITE_P(Frontier, TamperedFolder, ::testing::ValuesIn(kFrontierTampering),
                         [](const auto& tampering) { return std::string(tampering.param.name); });

const auto kCertificateTampering = std::to_array<Tampering>({
    {"StatedTime", [](PlanFolder& f) { add_behind(f.certificate.text, "vertex ", 1); }},
    {"StatedFlow",
     [](PlanFolder& f) {
       const std::size_t line = f.certificate.text.find("\nvertex ");
       f.certificate.text.insert(f.certificate.text.find('\n', line + 1), "0");
     }},
    {"OpTimeLonger", [](PlanFolder& f) { add_behind(f.certificate.text, "\nt 0:", 1'000'000); }},
    {"OpTimeByAPicosecond", [](PlanFolder& f) { add_behind(f.certificate.text, "\nt 0:", -1); }},
    {"OpFlow", [](PlanFolder& f) { replace(f.certificate.text, "\nf ", ":", ":1"); }},
    {"EdgeFlow", [](PlanFolder& f) { replace(f.certificate.text, "\ne ", ":", ":1"); }},
    {"NegativeFlow", [](PlanFolder& f) { replace(f.certificate.text, "\ne ", ":", ":-"); }},
    {"FlowLineRemoved",
     [](PlanFolder& f) {
       const std::size_t line = f.certificate.text.find("\nf ");
       f.certificate.text.erase(line, f.certificate.text.find('\n', line + 1) - line);
     }},
    {"TimeLineRemoved",
     [](PlanFolder& f) {
       const std::size_t line = f.certificate.text.find("\nt ");
       f.certificate.text.erase(line, f.certificate.text.find('\n', line + 1) - line);
     }},
    {"NoVertices",
     [](PlanFolder& f) {
       f.certificate.text.erase(f.certificate.text.find("vertex"));
       f.certificate.text += "end 0\n";
     }},
    {"OnlyTheFirstVertex",
     [](PlanFolder& f) {
       const std::size_t second = f.certificate.text.find("vertex", f.certificate.text.find("vertex") + 1);
       f.certificate.text.erase(second);
       f.certificate.text += "end 1\n";
     }},
    {"LastVertexRemoved",
     [](PlanFolder& f) {
       const std::size_t last = f.certificate.text.rfind("vertex");
       const long long count = std::stoll(f.certificate.text.substr(f.certificate.text.rfind("end ") + 4));
       f.certificate.text.erase(last);
       f.certificate.text += fmt::format("end {}\n", count - 1);
     }},
    {"OtherVersion", [](PlanFolder& f) { replace(f.certificate.text, "lowgear", "/1", "/2"); }},
    {"OtherOps", [](PlanFolder& f) { add_behind(f.certificate.text, "ops ", 1); }},
    {"OtherEdges", [](PlanFolder& f) { add_behind(f.certificate.text, "edges ", -1); }},
    {"Truncated", [](PlanFolder& f) { f.certificate.text.resize(f.certificate.text.size() / 2); }},
    {"EndCutOff", [](PlanFolder& f) { f.certificate.text.erase(f.certificate.text.rfind("end ")); }},
    {"Empty", [](PlanFolder& f) { f.certificate.text.clear(); }},
});
INSTANTIATE_TEST_SUITE_P(Certificate, TamperedFolder, ::testing::ValuesIn(kCertificateTampering),
                         [](const auto& tampering) { return std::string(tampering.param.name); });

std::string& plan_text(PlanFolder& folder) { return folder.plans[1].text; }

const auto kPlanTampering = std::to_array<Tampering>({
    {"Clock", [](PlanFolder& f) { replace(plan_text(f), "\"mhz\"", ":1290", ":1350"); }},
    {"ClockThatIsNotThere", [](PlanFolder& f) { replace(plan_text(f), "\"mhz\"", ":1290", ":1291"); }},
    {"Energy", [](PlanFolder& f) { scale_member(plan_text(f), "energy_j", 1 - 1e-7); }},
    {"Time", [](PlanFolder& f) { scale_member(plan_text(f), "time_s", 1 - 1e-7); }},
    {"Bound", [](PlanFolder& f) { scale_member(plan_text(f), "lower_bound_j", 1 + 1e-7); }},
    {"Gap", [](PlanFolder& f) { scale_member(plan_text(f), "gap_pct", 1 - 1e-6); }},
    {"Switches", [](PlanFolder& f) { add_behind(plan_text(f), "\"switches\": ", 1); }},
    {"Deadline", [](PlanFolder& f) { scale_member(plan_text(f), "deadline_s", 1 + 1e-7); }},
    {"Start", [](PlanFolder& f) { replace(plan_text(f), "\"microbatch\":3", "\"start_s\":0.", "\"start_s\":1."); }},
    {"Duration", [](PlanFolder& f) { scale_member(plan_text(f), "duration_s", 1 + 1e-6); }},
    {"Policy", [](PlanFolder& f) { replace(plan_text(f), "policy", "lowgear", "highgear"); }},
    {"OpsSwapped", [](PlanFolder& f) { replace(plan_text(f), R"("op":"backward")", "backward", "forward"); }},
    {"Microbatch", [](PlanFolder& f) { replace(plan_text(f), "\"ops\"", "\"microbatch\":2", "\"microbatch\":1"); }},
    {"RankMissing",
     [](PlanFolder& f) {
       plan_text(f).erase(plan_text(f).rfind(",\n    {\"stage\": 2"));
       plan_text(f) += "]}";
     }},
    {"Truncated", [](PlanFolder& f) { plan_text(f).resize(plan_text(f).size() - 20); }},
    {"OtherVersion", [](PlanFolder& f) { replace(plan_text(f), "format", "plan/1", "plan/2"); }},
    {"Exchanged", [](PlanFolder& f) { std::swap(f.plans[0], f.plans[1]); }},
    {"ContentsExchanged", [](PlanFolder& f) { std::swap(f.plans[0].text, f.plans[1].text); }},
    {"Missing", [](PlanFolder& f) { f.plans.pop_back(); }},
    {"DeadlineMissed",
     [](PlanFolder& f) {
       scale_member(plan_text(f), "deadline_s", 0.9);
       scale_cell(f.plans_table.text, 2, 1, 0.9);
     }},
    {"OtherLead",
     [](PlanFolder& f) {
       plan_text(f).insert(plan_text(f).find("  \"switches\""), "  \"clock_lead_s\": 0.1,\n");
       replace(f.run.text, "\"late_by_s", "\"late_by_s", "\"clock_lead_s\": 0.2, \"late_by_s");
     }},
    {"LeadOfAWholeIteration",
     [](PlanFolder& f) {
       for (PlanFolder::File& plan : f.plans) {
         plan.text.insert(plan.text.find("  \"switches\""), "  \"clock_lead_s\": 9,\n");
       }
       replace(f.run.text, "\"late_by_s", "\"late_by_s", "\"clock_lead_s\": 9, \"late_by_s");
     }},
    {"BoundAndGapInBothPlaces",
     [](PlanFolder& f) {
       scale_member(plan_text(f), "lower_bound_j", 1 + 1e-6);
       scale_cell(f.plans_table.text, 2, 4, 1 + 1e-6);
     }},
    {"BoundRemoved",
     [](PlanFolder& f) {
       const std::size_t begin = plan_text(f).find("  \"lower_bound_j\"");
       plan_text(f).erase(begin, plan_text(f).find("  \"switches\"") - begin);
       set_cell(f.plans_table.text, 2, 4, "");
       set_cell(f.plans_table.text, 2, 5, "");
     }},
});
INSTANTIATE_TEST_SUITE_P(Plan, TamperedFolder, ::testing::ValuesIn(kPlanTampering),
                         [](const auto& tampering) { return std::string(tampering.param.name); });

const auto kTableTampering = std::to_array<Tampering>({
    {"Number", [](PlanFolder& f) { set_cell(f.plans_table.text, 2, 0, "7"); }},
    {"Deadline", [](PlanFolder& f) { scale_cell(f.plans_table.text, 2, 1, 1 + 1e-7); }},
    {"Time", [](PlanFolder& f) { scale_cell(f.plans_table.text, 2, 2, 1 + 1e-7); }},
    {"Energy", [](PlanFolder& f) { scale_cell(f.plans_table.text, 2, 3, 1 + 1e-7); }},
    {"Bound", [](PlanFolder& f) { scale_cell(f.plans_table.text, 2, 4, 1 + 1e-7); }},
    {"Gap", [](PlanFolder& f) { scale_cell(f.plans_table.text, 2, 5, 1 + 1e-6); }},
    {"Switches", [](PlanFolder& f) { set_cell(f.plans_table.text, 2, 6, "0"); }},
    {"NotANumber", [](PlanFolder& f) { set_cell(f.plans_table.text, 1, 3, "much"); }},
    {"RowRemoved", [](PlanFolder& f) { replace(f.plans_table.text, "\n", row_of(f.plans_table.text, 2), ""); }},
    {"ColumnRenamed", [](PlanFolder& f) { replace(f.plans_table.text, "plan", "gap_pct", "gap"); }},
});
INSTANTIATE_TEST_SUITE_P(Table, TamperedFolder, ::testing::ValuesIn(kTableTampering),
                         [](const auto& tampering) { return std::string(tampering.param.name); });

const auto kInputTampering = std::to_array<Tampering>({
    {"ProfileEnergy", [](PlanFolder& f) { scale_cell(f.profile.text, 1, 4, 1 + 1e-6); }},
    {"ProfileTime", [](PlanFolder& f) { scale_cell(f.profile.text, 1, 3, 1 + 1e-6); }},
    {"ProfileClock", [](PlanFolder& f) { set_cell(f.profile.text, 1, 2, "1411"); }},
    {"ProfileRowRemoved", [](PlanFolder& f) { replace(f.profile.text, "\n", row_of(f.profile.text, 1), ""); }},
    {"ProfileCheaperClockAdded", [](PlanFolder& f) { f.profile.text += "0,forward,1111,0.06,1\n"; }},
    {"ProfileFasterClockAdded", [](PlanFolder& f) { f.profile.text += "1,backward,2000,0.01,90\n"; }},
    {"ProfileStageMissing", [](PlanFolder& f) { f.profile.text.erase(f.profile.text.find("2,forward")); }},
    {"BlockingPower", [](PlanFolder& f) { replace(f.run.text, "blocking_power_w", "80,", "81,"); }},
    {"BlockingPowers", [](PlanFolder& f) { replace(f.run.text, "blocking_power_w", "80, ", ""); }},
    {"Microbatches", [](PlanFolder& f) { replace(f.run.text, "microbatches", "4", "5"); }},
    {"Stages", [](PlanFolder& f) { replace(f.run.text, "stages", "3", "2"); }},
    {"Policy", [](PlanFolder& f) { replace(f.run.text, "policy", "lowgear", "max"); }},
    {"Method", [](PlanFolder& f) { replace(f.run.text, "frontier_method", "exact", "guess"); }},
    {"Granularity", [](PlanFolder& f) { replace(f.run.text, "granularity", "per_op", "per_stage_kind"); }},
    {"SwitchLatency", [](PlanFolder& f) { replace(f.run.text, "late_by_s", "0", "0.01"); }},
    {"RunVersion", [](PlanFolder& f) { replace(f.run.text, "format", "run/1", "run/9"); }},
    {"RunTruncated",
     [](PlanFolder& f) {
       f.run.text.pop_back();
       f.run.text.pop_back();
     }},
    {"ScheduleSwapped", [](PlanFolder& f) { replace(f.schedule.text, "0F1", "0F1,0F2", "0F2,0F1"); }},
    {"ScheduleBackwardFirst", [](PlanFolder& f) { replace(f.schedule.text, "2F", "2F0,2B0", "2B0,2F0"); }},
    {"ScheduleOpMissing", [](PlanFolder& f) { replace(f.schedule.text, "0F", "0F0,", ""); }},
    {"ScheduleGPipe",
     [](PlanFolder& f) { f.schedule.text = schedule::write_torch_csv(schedule::gpipe_schedule(3, 4)); }},
});
INSTANTIATE_TEST_SUITE_P(Input, TamperedFolder, ::testing::ValuesIn(kInputTampering),
                         [](const auto& tampering) { return std::string(tampering.param.name); });

TEST(Verify, FindsEverySingleChangeOfADigitInTheCertificate) {
  // Whatever digit of a certificate is changed, it no longer proves the frontier, or cannot be read.
  SampleRun run = sample_run();
  run.schedule = schedule::one_f_one_b_schedule(2, 2);
  run.profile = sample_profile(2, 3);
  run.blocking_power_w.assign(2, 80);
  const PlanFolder folder = planner::sample_folder(run);
  ASSERT_TRUE(verify(folder).ok());
  int changed = 0;
  for (std::size_t at = 0; at < folder.certificate.text.size(); ++at) {
    if (std::isdigit(static_cast<unsigned char>(folder.certificate.text[at])) == 0) continue;
    PlanFolder tampered = folder;
    char& digit = tampered.certificate.text[at];
    digit = digit == '9' ? '0' : static_cast<char>(digit + 1);
    ++changed;
    try {
      EXPECT_FALSE(verify(tampered).ok()) << "character " << at;
    } catch (const InputError&) {
      continue;
    }
  }
  EXPECT_GT(changed, 500);
}

/// One rank, one microbatch, 10 W: forward 1 s, 100 J or 2 s, 40 J; backward 1 s, 50 J. The frontier is 2 s, 150 J and
/// 3 s, 90 J.
PlanFolder folder_by_hand(const std::string& certificate) {
  PlanFolder folder;
  folder.run = {"run.json", R"({"format": "lowgear.run/1", "policy": "lowgear", "stages": 1, "microbatches": 1,
    "schedule": "1f1b", "blocking_power_w": [10], "frontier_method": "exact", "granularity": "per_op",
    "late_by_s": 0})"};
  folder.profile = {"profile.csv",
                    "stage,instruction,frequency,time,energy\n"
                    "0,forward,1400,1,100\n0,forward,700,2,40\n0,backward,1400,1,50\n"};
  folder.schedule = {"schedule.csv", "0F0,0B0\n"};
  folder.frontier = {"frontier.csv", "time_s,energy_j\n2,150\n3,90\n"};
  folder.plans_table = {"plans.csv", "plan,deadline_s,time_s,energy_j,lower_bound_j,gap_pct,switches\n"};
  folder.certificate = {"certificate.txt", "lowgear.certificate/1\nops 2\nedges 1\n" + certificate};
  return folder;
}

TEST(Verify, FollowsAProofByHand) {
  // A flow of 10 W says that no slower iteration is better; one of 70 W, the saving of the slower forward with blocking
  // power taken off, that nothing between the two vertices is.
  const VerifyReport report =
      verify(folder_by_hand("vertex 3000000000000 10000000000\nt 0:2000000000000 1:1000000000000\n"
                            "f 0:10000000000 1:10000000000\ne 0:10000000000\n"
                            "vertex 2000000000000 70000000000\nt 0:-1000000000000\n"
                            "f 0+1x2:60000000000\ne 0:60000000000\nend 2\n"));
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_EQ(report.epsilon, 0);
  EXPECT_EQ(report.vertices, 2U);
}

TEST(Verify, RefusesASoundFlowThatProvesTooLittle) {
  // 69 W proves only 2 x 69 - 69 = 1 J less between the vertices.
  const VerifyReport report =
      verify(folder_by_hand("vertex 3000000000000 10000000000\nt 0:2000000000000 1:1000000000000\n"
                            "f 0:10000000000 1:10000000000\ne 0:10000000000\n"
                            "vertex 2000000000000 69000000000\nt 0:-1000000000000\n"
                            "f 0+1x2:59000000000\ne 0:59000000000\nend 2\n"));
  EXPECT_THAT(report.failures, Contains(HasSubstr("above its proven bound")));
  EXPECT_NEAR(report.epsilon, 1.0 / 149.0, 1e-9);
}

TEST(Verify, RefusesAFrontierWithoutABoundOnSlowerIterations) {
  const VerifyReport report =
      verify(folder_by_hand("vertex 3000000000000 70000000000\nt 0:2000000000000 1:1000000000000\n"
                            "f 0:70000000000 1:70000000000\ne 0:70000000000\n"
                            "vertex 2000000000000 70000000000\nt 0:-1000000000000\nend 2\n"));
  EXPECT_THAT(report.failures, Contains(HasSubstr("above its proven bound, which is not above 0 J, or missing for")));
}

TEST(Verify, SaysWhereACertificateIsDamaged) {
  PlanFolder folder = planner::sample_folder(planner::sample_run());
  folder.certificate.text.resize(folder.certificate.text.find("\nf ") + 10);
  EXPECT_THAT(error_of([&] { (void)verify(folder); }),
              HasSubstr("certificate.txt:6: the text ends before the certificate does"));
}

TEST(Verify, NamesTheOpWhoseTimeIsNotPossible) {
  PlanFolder folder = planner::sample_folder(planner::sample_run());
  add_behind(folder.certificate.text, "\nt 0:", 1'000'000'000'000);
  EXPECT_THAT(verify(folder).failures, Contains(testing::ContainsRegex(
                                           "^certificate.txt:[0-9]+ \\(vertex [0-9]+\\): op 0 \\(forward of stage 0, "
                                           "microbatch 0\\) takes 10[0-9]+ ps, but its clocks take")));
}

TEST(Verify, RefusesRunsThatOverlap) {
  PlanFolder folder = planner::sample_folder(planner::sample_run());
  replace(folder.certificate.text, "\nt 0:", "t 0:", "t 0:1 0:");
  EXPECT_THAT(error_of([&] { (void)verify(folder); }),
              testing::ContainsRegex("^certificate.txt:[0-9]+: 0 changes twice"));
}

TEST(Verify, ListsNoMoreThanTwentyFailures) {
  PlanFolder folder = planner::sample_folder(planner::sample_run());
  for (int row = 1; row <= 40; ++row) scale_cell(folder.frontier.text, row, 1, 1.5);
  EXPECT_EQ(verify(folder).failures.size(), 20U);
}

/// The sample with settings a and b, of which b is slower and saves energy, at the three highest clocks.
SampleRun run_with_settings() {
  SampleRun run = sample_run();
  profile::StageProfile with_settings(run.profile.stages());
  for (const profile::StageOp& op : run.profile.ops()) {
    for (profile::Measurement row : op.measurements) {
      row.setting = "a";
      with_settings.add(op.stage, op.kind, row);
      if (row.clock_mhz < 1290) continue;
      with_settings.add(op.stage, op.kind, {row.clock_mhz, row.time_s * 1.03, row.energy_j * 0.93, "b"});
    }
  }
  run.profile = std::move(with_settings);
  return run;
}

TEST(Verify, AcceptsSettings) {
  const VerifyReport report = verify(sample_folder(run_with_settings()));
  EXPECT_THAT(report.failures, IsEmpty());
}

TEST(Verify, FindsSettingsThatWereNotMeasuredOrTakeAnotherTime) {
  PlanFolder other = sample_folder(run_with_settings());
  replace(other.plans[0].text, "ops", R"("setting":"a")", R"("setting":"c")");
  EXPECT_THAT(verify(other).failures, Contains(HasSubstr("at 1410 MHz with setting c")));
  PlanFolder slower = sample_folder(run_with_settings());
  replace(slower.plans[0].text, "ops", R"("setting":"a")", R"("setting":"b")");
  EXPECT_THAT(verify(slower).failures, Contains(HasSubstr("the check computes")));
  PlanFolder without = sample_folder(run_with_settings());
  replace(without.plans[0].text, "ops", R"("setting":"a",)", "");
  EXPECT_THAT(verify(without).failures, Contains(HasSubstr("at 1410 MHz without a setting")));
}

}  // namespace
}  // namespace lowgear::planner
