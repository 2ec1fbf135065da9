#include "app/operations/doctor/python_diagnosis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

namespace lowgear::operations::doctor {
namespace {

constexpr const char* kPython = "Python";
constexpr const char* kFramework = "framework";

Finding hook_finding(const PythonFacts& facts) {
  const PythonReport& report = *facts.report;
  const std::string where = fmt::format("{} at {}", report.version, report.executable);
  if (facts.attaching_is_off) {
    return {FindingLevel::limited, kPython, where + ": attaching is switched off", "unset LOWGEAR_ATTACH"};
  }
  if (!report.hook) {
    return {FindingLevel::limited, kPython, where + ": it does not load the sitecustomize of `lowgear run`",
            "start it without -I, -E and -S, or write `import lowgear.auto` first in the script, with the wheel "
            "installed"};
  }
  return {FindingLevel::works, kPython, where + ": `lowgear run -- COMMAND` attaches to what it trains with", ""};
}

Finding framework_finding(const FrameworkFacts& framework) {
  const std::string subject = framework.name + (framework.version.empty() ? "" : " " + framework.version);
  switch (framework.verdict) {
    case FrameworkVerdict::attaches:
      return {FindingLevel::works, kFramework, subject + ": attaches: units are marked, plans can be followed", ""};
    case FrameworkVerdict::measures:
      return {FindingLevel::works, kFramework,
              subject + ": measured without units: time and energy of iterations, no plan", ""};
    case FrameworkVerdict::refused:
      return {FindingLevel::limited, kFramework, fmt::format("{}: refused: {}", subject, framework.reason),
              "jobs of it run, and are measured at most; docs/attaching.md has the versions that are known"};
    case FrameworkVerdict::absent:
      return {FindingLevel::limited, kFramework, fmt::format("{}: not attached: {}", subject, framework.reason),
              "docs/attaching.md has the versions that are known"};
    case FrameworkVerdict::unclear:
    case FrameworkVerdict::not_installed:
      break;
  }
  return {FindingLevel::limited, kFramework, fmt::format("{}: not clear by its source: {}", subject, framework.reason),
          "lowgear run --record DIR -- COMMAND says it at the first iteration"};
}

void add_frameworks(const PythonReport& report, std::vector<Finding>& findings) {
  std::vector<std::string> missing;
  for (const FrameworkFacts& framework : report.frameworks) {
    if (framework.verdict == FrameworkVerdict::not_installed) {
      missing.push_back(framework.name);
    } else {
      findings.push_back(framework_finding(framework));
    }
  }
  const bool none = missing.size() == report.frameworks.size();
  if (none) {
    findings.push_back({FindingLevel::limited, kFramework, "none that Lowgear attaches to is installed there",
                        "lowgear doctor --python PATH, with the Python that trains, in the folder of the job"});
    return;
  }
  if (!missing.empty()) {
    findings.push_back(
        {FindingLevel::works, kFramework, fmt::format("not installed: {}", fmt::join(missing, ", ")), ""});
  }
  findings.push_back({FindingLevel::works, kFramework,
                      fmt::format("checked: {}; not checked: {}", report.checked, report.not_checked), ""});
}

}  // namespace

std::vector<Finding> diagnose_python(const PythonFacts& facts) {
  if (!facts.report) {
    return {{FindingLevel::limited, kPython, fmt::format("{} {}", facts.program, facts.problem),
             "lowgear doctor --python PATH, with the Python that trains; without one nothing can be attached to"}};
  }
  std::vector<Finding> findings = {hook_finding(facts)};
  if (facts.report->library.empty()) {
    findings.push_back(
        {FindingLevel::limited, kPython, "jobs are not measured there: " + facts.report->library_problem, ""});
  }
  add_frameworks(*facts.report, findings);
  return findings;
}

std::string next_step(const PythonFacts& facts) {
  const auto observed = [](const FrameworkFacts& framework) {
    return framework.verdict == FrameworkVerdict::attaches || framework.verdict == FrameworkVerdict::measures;
  };
  if (!facts.report || std::ranges::none_of(facts.report->frameworks, observed)) return "";
  return "Or attach to a job as it is: lowgear run --record DIR -- COMMAND\n";
}

}  // namespace lowgear::operations::doctor
