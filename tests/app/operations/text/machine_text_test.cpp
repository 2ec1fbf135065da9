#include "app/operations/text/machine_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "app/operations/doctor/good_machine.h"

namespace lowgear::operations {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(DiagnosisText, IsColouredOnlyWhenAsked) {
  const std::vector<doctor::Finding> findings = doctor::diagnose(doctor::machine_without_nvml());
  const std::string plain = diagnosis_text(findings, Colours::off);
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_THAT(plain, AllOf(HasSubstr("BROKEN"), HasSubstr("-> "), HasSubstr("cannot measure")));
  EXPECT_THAT(diagnosis_text(findings, Colours::on), HasSubstr("\x1b[31mBROKEN"));
}

TEST(DiagnosisText, KeepsTheDriversWordsToOneLine) {
  const std::string text = diagnosis_text({{doctor::FindingLevel::limited, "GPU", "a\nb\x1b[2J", ""}}, Colours::off);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("a\\x0ab"));
}

TEST(DiagnosisText, NamesTheRemedyOfSeveralFindingsOnce) {
  constexpr auto kLimited = doctor::FindingLevel::limited;
  const std::string text =
      diagnosis_text({{kLimited, "clocks", "a", "do it"}, {kLimited, "agent", "b", "do it"}}, Colours::off);
  EXPECT_EQ(text.find("do it"), text.rfind("do it"));
  EXPECT_THAT(text, HasSubstr("-> as for clocks, above"));
}

TEST(DiagnosisJson, HoldsFactsAndFindings) {
  doctor::MachineFacts facts = doctor::good_machine();
  doctor::status_of(facts.nvml->gpus[0], gpu::GpuFeature::instant_power) = {
      .works = false, .code = gpu::GpuErrorCode::no_permission, .reason = "because"};
  const Json json = diagnosis_json(facts, {}, diagnose(facts));
  EXPECT_TRUE(json.at("can_measure").get<bool>());
  const Json& gpu = json.at("nvml").at("gpus").at(0);
  EXPECT_EQ(gpu.at("uuid"), "GPU-1");
  EXPECT_EQ(gpu.at("features").at("instant_power").at("code"), "no_permission");
  EXPECT_TRUE(gpu.at("features").at("energy_counter").at("works").get<bool>());
  EXPECT_EQ(json.at("agent").at("state"), "answers");
  EXPECT_EQ(json.at("findings").at(0).at("level"), "works");
  EXPECT_FALSE(json.at("nvml").at("simulated").get<bool>());
  EXPECT_TRUE(json.at("switch_latencies").is_null()) << "nothing was measured";
}

TEST(DiagnosisJson, HoldsWhatIsKnownOfThePython) {
  const doctor::MachineFacts facts = doctor::good_machine();
  doctor::PythonFacts python{.program = "python3", .report = {}, .problem = "ended with 1"};
  const Json broken = diagnosis_json(facts, python, {}).at("python");
  EXPECT_EQ(broken.at("problem"), "ended with 1");
  EXPECT_TRUE(broken.at("report").is_null());
  python.report = doctor::PythonReport{};
  python.report->library_problem = "not found";
  python.report->frameworks = {{.name = "Merak",
                                .version = "1",
                                .verdict = doctor::FrameworkVerdict::refused,
                                .reason = "why",
                                .observed = {},
                                .decorated = {}}};
  const Json report = diagnosis_json(facts, python, {}).at("python").at("report");
  EXPECT_EQ(report.at("library").at("problem"), "not found");
  EXPECT_EQ(report.at("frameworks").at(0).at("verdict"), "refused");
  EXPECT_EQ(report.at("frameworks").at(0).at("reason"), "why");
}

TEST(DiagnosisText, EndsWithWhatCannotBeMeasured) {
  doctor::MachineFacts facts = doctor::good_machine();
  EXPECT_THAT(diagnosis_text(diagnose(facts), Colours::off), HasSubstr("Lowgear can measure and set clocks here."));
  facts.agent = doctor::AgentReach::absent;
  EXPECT_THAT(diagnosis_text(diagnose(facts), Colours::off), HasSubstr("Lowgear can measure here."));
  facts.nvml->problems = {"GPU number 1: handle: GPU is lost"};
  EXPECT_THAT(diagnosis_text(diagnose(facts), Colours::off), HasSubstr("cannot measure here because of: GPU;"));
}

TEST(DiagnosisJson, SaysWhatIsSimulatedAndHowLateClocksChange) {
  doctor::MachineFacts facts = doctor::good_machine();
  facts.nvml->simulated = true;
  facts.switch_latencies = {{.uuid = "GPU-1", .latency = profile::SwitchLatency{0.0251, 0.0004, 22}, .problem = {}}};
  const Json json = diagnosis_json(facts, {}, diagnose(facts));
  EXPECT_TRUE(json.at("nvml").at("simulated").get<bool>());
  EXPECT_EQ(json.at("switch_latencies").at(0).at("changes"), 22);
}

}  // namespace
}  // namespace lowgear::operations
