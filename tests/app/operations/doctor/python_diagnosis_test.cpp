#include "app/operations/doctor/python_diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lowgear::operations::doctor {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

auto conclusion(FindingLevel level, const std::string& text, const std::string& fix = "") {
  return AllOf(Field(&Finding::level, level), Field(&Finding::text, HasSubstr(text)),
               Field(&Finding::fix, HasSubstr(fix)));
}

FrameworkFacts framework(FrameworkVerdict verdict, std::string reason = "") {
  return {.name = "DeepSpeed pipeline",
          .version = "0.19.6",
          .verdict = verdict,
          .reason = std::move(reason),
          .observed = {},
          .decorated = {}};
}

PythonFacts facts_of(std::vector<FrameworkFacts> frameworks) {
  PythonFacts facts{.program = "python3", .report = PythonReport{}, .problem = {}};
  facts.report->executable = "/usr/bin/python3";
  facts.report->version = "3.11.2";
  facts.report->hook = true;
  facts.report->library = "/usr/lib/liblowgear.so.1";
  facts.report->checked = "parameters";
  facts.report->not_checked = "decorators";
  facts.report->frameworks = std::move(frameworks);
  return facts;
}

TEST(PythonDiagnosis, NamesEveryVerdict) {
  const FrameworkFacts none{.name = "Merak",
                            .version = {},
                            .verdict = FrameworkVerdict::not_installed,
                            .reason = {},
                            .observed = {},
                            .decorated = {}};
  const std::vector<Finding> findings =
      diagnose_python(facts_of({framework(FrameworkVerdict::attaches), framework(FrameworkVerdict::measures),
                                framework(FrameworkVerdict::refused, "/engine.py (version 1): f(x) has no parameter y"),
                                framework(FrameworkVerdict::absent, "there is no stage"),
                                framework(FrameworkVerdict::unclear, "TABLE is computed"), none}));
  EXPECT_THAT(findings, Contains(conclusion(FindingLevel::works, "3.11.2 at /usr/bin/python3")));
  EXPECT_THAT(findings, Contains(conclusion(FindingLevel::works, "DeepSpeed pipeline 0.19.6: attaches")));
  EXPECT_THAT(findings, Contains(conclusion(FindingLevel::works, "DeepSpeed pipeline 0.19.6: measured without units")));
  EXPECT_THAT(findings,
              Contains(conclusion(FindingLevel::limited, "refused: /engine.py (version 1): f(x) has no parameter y",
                                  "docs/attaching.md")));
  EXPECT_THAT(findings, Contains(conclusion(FindingLevel::limited, "not attached: there is no stage")));
  EXPECT_THAT(findings,
              Contains(conclusion(FindingLevel::limited, "not clear by its source: TABLE", "lowgear run --record")));
  EXPECT_THAT(findings, Contains(conclusion(FindingLevel::works, "not installed: Merak")));
  EXPECT_THAT(findings, Contains(conclusion(FindingLevel::works, "checked: parameters; not checked: decorators")));
}

TEST(PythonDiagnosis, ProposesARunWhereAFrameworkIsObserved) {
  EXPECT_THAT(next_step(facts_of({framework(FrameworkVerdict::measures)})), HasSubstr("lowgear run --record DIR"));
  EXPECT_EQ(next_step(facts_of({framework(FrameworkVerdict::refused, "why")})), "");
  EXPECT_EQ(next_step(PythonFacts{}), "");
}

TEST(PythonDiagnosis, NothingOfItKeepsLowgearFromMeasuring) {
  PythonFacts broken{.program = "python3", .report = {}, .problem = "did not end within 20 s and was killed"};
  EXPECT_THAT(diagnose_python(broken),
              AllOf(SizeIs(1),
                    Each(conclusion(FindingLevel::limited, "python3 did not end within", "lowgear doctor --python"))));
  EXPECT_TRUE(can_measure(diagnose_python(broken)));
  EXPECT_THAT(diagnose_python(facts_of({framework(FrameworkVerdict::not_installed)})),
              Contains(conclusion(FindingLevel::limited, "none that Lowgear attaches to", "--python PATH")));
}

TEST(PythonDiagnosis, SaysWhatKeepsAJobFromBeingAttachedTo) {
  PythonFacts facts = facts_of({framework(FrameworkVerdict::attaches)});
  facts.report->library = "";
  facts.report->library_problem = "liblowgear.so is not found";
  EXPECT_THAT(diagnose_python(facts), Contains(conclusion(FindingLevel::limited, "not measured there: liblowgear.so")));
  facts.report->hook = false;
  EXPECT_THAT(diagnose_python(facts),
              Contains(conclusion(FindingLevel::limited, "sitecustomize", "import lowgear.auto")));
  facts.attaching_is_off = true;
  EXPECT_THAT(diagnose_python(facts),
              Contains(conclusion(FindingLevel::limited, "switched off", "unset LOWGEAR_ATTACH")));
  EXPECT_THAT(diagnose_python(facts), Not(Contains(conclusion(FindingLevel::limited, "sitecustomize"))));
}

}  // namespace
}  // namespace lowgear::operations::doctor
