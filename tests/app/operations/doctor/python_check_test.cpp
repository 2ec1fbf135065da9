#include "app/operations/doctor/python_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/temporary_folder.h"

namespace lowgear::operations::doctor {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

constexpr const char* kReport =
    R"({"format": "lowgear.frameworks/1", "executable": "/usr/bin/python3", "version": "3.11.2", "hook": true,
"importable": "", "library": {"path": "/usr/lib/liblowgear.so.1", "problem": ""}, "checked": "this", "not_checked": "that",
"frameworks": [
{"name": "PyTorch pipelining", "version": "2.11.0", "verdict": "attaches", "reason": "", "files": ["/stage.py"],
 "observed": ["torch.step"], "decorated": []},
{"name": "Merak", "version": null, "verdict": "refused", "reason": "why", "files": [], "observed": [], "decorated": ["x"]}]})";

std::string one_line(std::string text) {
  std::erase(text, '\n');
  return text;
}

/// A program folder with a package, and a Python that is a script.
class FakePython : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "bin");
    fs::create_directories(package() / "site");
    std::ofstream(package() / "site/sitecustomize.py") << "\n";
  }
  [[nodiscard]] fs::path package() const { return folder_ / "lib/python3.11/site-packages/lowgear"; }

  [[nodiscard]] PythonFacts ask(const std::string& script,
                                std::chrono::milliseconds limit = std::chrono::milliseconds(240'000)) const {
    const fs::path program = folder_ / "python3";
    std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(program, fs::perms::owner_all);
    return examine_python({.program = program.string(),
                           .program_folder = folder_ / "bin",
                           .limits = {.time = limit, .bytes = 100'000},
                           .between = {}});
  }
  [[nodiscard]] const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

TEST_F(FakePython, IsAskedAsLowgearRunStartsJobs) {
  fs::create_directories(folder() / "lib");
  std::ofstream(folder() / "lib/liblowgear.so.1") << "\n";
  ::unsetenv("LOWGEAR_LIBRARY");
  const PythonFacts facts =
      ask("printf '%s|%s|%s|%s' \"$1\" \"$PYTHONPATH\" \"$LOWGEAR_LIBRARY\" "
          "\"$LOWGEAR_RECORDING\" >&2; exit 1");
  EXPECT_THAT(facts.problem,
              StartsWith("ended with 1: " + (package() / "adapters").string() + "|" + (package() / "site").string()));
  EXPECT_THAT(facts.problem, EndsWith("|" + (folder() / "lib/liblowgear.so.1").string() + "|/nonexistent"));
}

TEST_F(FakePython, GivesAReportAfterWhatItsSitePrints) {
  const PythonFacts facts = ask("echo 'a message of the site'\necho '" + one_line(kReport) + "'");
  ASSERT_TRUE(facts.report) << facts.problem;
  EXPECT_EQ(facts.problem, "");
  EXPECT_EQ(facts.report->version, "3.11.2");
  EXPECT_TRUE(facts.report->hook);
  ASSERT_EQ(facts.report->frameworks.size(), 2U);
  EXPECT_EQ(facts.report->frameworks[0].version, "2.11.0");
  EXPECT_EQ(facts.report->frameworks[0].verdict, FrameworkVerdict::attaches);
  EXPECT_THAT(facts.report->frameworks[0].observed, ElementsAre("torch.step"));
  EXPECT_EQ(facts.report->frameworks[1].version, "");
  EXPECT_EQ(facts.report->frameworks[1].verdict, FrameworkVerdict::refused);
  EXPECT_EQ(facts.report->frameworks[1].reason, "why");
}

TEST_F(FakePython, ThatHangsIsEnded) {
  const PythonFacts facts = ask("sleep 1000", std::chrono::milliseconds(300));
  EXPECT_FALSE(facts.report);
  EXPECT_EQ(facts.problem, "did not end within 0.3 s and was killed");
}

TEST_F(FakePython, ThatFailsSaysItsLastLine) {
  EXPECT_EQ(ask("echo Traceback >&2; echo \"ModuleNotFoundError: No module named 'lowgear'\" >&2; exit 1").problem,
            "ended with 1: ModuleNotFoundError: No module named 'lowgear'");
  EXPECT_EQ(ask("exit 7").problem, "ended with 7");
}

TEST_F(FakePython, ThatPrintsRubbishGivesNoReport) {
  for (const char* rubbish : {"", "Segmentation fault", "[]", "{}", "null", R"({"format": "lowgear.frameworks/9"})",
                              R"({"format": "lowgear.frameworks/1", "executable": 7})", "{{{{", "\\001\\377"}) {
    const PythonFacts facts = ask(std::string("printf '") + rubbish + "'");
    EXPECT_FALSE(facts.report) << rubbish;
    EXPECT_THAT(facts.problem, StartsWith("gave no report: ")) << rubbish;
  }
  EXPECT_THAT(ask("yes").problem, HasSubstr("printed more than"));
}

TEST_F(FakePython, IsNotAskedWithoutThePackage) {
  fs::remove_all(package());
  const PythonFacts facts = ask("echo ran > " + (folder() / "ran").string());
  EXPECT_THAT(facts.problem, HasSubstr("install python3-lowgear, or the wheel"));
  EXPECT_FALSE(fs::exists(folder() / "ran"));
}

TEST(PythonFacts, OfAPythonThatIsMissing) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "bin");
  fs::create_directories(folder / "lowgear/site");
  std::ofstream(folder / "lowgear/site/sitecustomize.py") << "\n";
  const PythonFacts facts = examine_python({.program = "/no/such/python", .program_folder = folder / "bin"});
  EXPECT_EQ(facts.program, "/no/such/python");
  EXPECT_EQ(facts.problem, "cannot be started: No such file or directory");
}

TEST(PythonReport, NamesWhatIsWrongWithIt) {
  std::string text = kReport;
  text.replace(text.find("attaches"), 8, "wonders!");
  EXPECT_THAT(error_of([&] { (void)read_python_report(text); }), HasSubstr("$.frameworks[0].verdict"));
}

TEST(PythonPackage, IsFoundWhereInstallationsPutIt) {
  const TemporaryFolder folder;
  EXPECT_FALSE(python_package(folder / "prefix/bin"));
  fs::create_directories(folder / "prefix/bin");
  for (const char* place : {"prefix/lib64/python3.12/site-packages/lowgear", "prefix/lib/python3/dist-packages/lowgear",
                            "prefix/lib/python3.11/site-packages/lowgear", "prefix/lowgear"}) {
    fs::create_directories(folder / place / "site");
    std::ofstream(folder / place / "site/sitecustomize.py") << "\n";
    EXPECT_EQ(python_package(folder / "prefix/bin"), (folder / place).lexically_normal()) << place;
    fs::remove_all(folder / place);
  }
}

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::Field;
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
  EXPECT_THAT(findings, Contains(conclusion(FindingLevel::limited, "its source does not decide it: TABLE",
                                            "lowgear run --record")));
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
