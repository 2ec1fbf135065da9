#include "app/operations/doctor/python_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "client/rank/rank_environment.h"

namespace lowgear::operations::doctor {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> package_folders(const fs::path& program_folder) {
  std::vector<fs::path> folders{program_folder / "../../../python/lowgear", program_folder / "../lowgear"};
  std::error_code unknown;
  for (const std::string_view library : {"../lib", "../lib64"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(program_folder / library, unknown)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      folders.push_back(entry.path() / "site-packages/lowgear");
      folders.push_back(entry.path() / "dist-packages/lowgear");
    }
  }
  return folders;
}

}  // namespace

std::optional<fs::path> python_package(const fs::path& program_folder) {
  for (const fs::path& folder : package_folders(program_folder)) {
    std::error_code unknown;
    if (fs::exists(folder / "site/sitecustomize.py", unknown)) return folder.lexically_normal();
  }
  return std::nullopt;
}

std::map<std::string, std::string> attaching_variables(const fs::path& package, const fs::path& program_folder) {
  std::map<std::string, std::string> variables;
  const std::string path = environment_text("PYTHONPATH");
  variables["PYTHONPATH"] = (package / "site").string() + (path.empty() ? "" : ":" + path);
  const fs::path library = (program_folder / "../lib/liblowgear.so.1").lexically_normal();
  std::error_code unknown;
  if (environment_text("LOWGEAR_LIBRARY").empty() && fs::exists(library, unknown)) {
    variables["LOWGEAR_LIBRARY"] = library.string();
  }
  return variables;
}

namespace {

constexpr std::string_view kFormat = "lowgear.frameworks/1";
constexpr std::size_t kMaxValues = 100'000;

constexpr auto kVerdicts = std::to_array<std::pair<FrameworkVerdict, std::string_view>>({
    {FrameworkVerdict::attaches, "attaches"},
    {FrameworkVerdict::measures, "measures"},
    {FrameworkVerdict::refused, "refused"},
    {FrameworkVerdict::absent, "absent"},
    {FrameworkVerdict::unclear, "unclear"},
    {FrameworkVerdict::not_installed, "not_installed"},
});

FrameworkVerdict verdict_of(const JsonView& value) {
  const std::string text = value.text();
  for (const auto& [verdict, name] : kVerdicts) {
    if (name == text) return verdict;
  }
  value.fail("is not a known verdict", "use the command and the Python package of one release");
}

std::vector<std::string> texts_of(const JsonView& values) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < values.size(); ++i) texts.push_back(values.at(i).text());
  return texts;
}

FrameworkFacts framework_of(const JsonView& value) {
  const JsonView version = value.at("version");
  return {.name = value.at("name").text(),
          .version = version.json().is_null() ? "" : version.text(),
          .verdict = verdict_of(value.at("verdict")),
          .reason = value.at("reason").text(),
          .observed = texts_of(value.at("observed")),
          .decorated = texts_of(value.at("decorated"))};
}

/// The last line that is not empty.
std::string_view last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return "";
  text = text.substr(0, end + 1);
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

std::string_view name(FrameworkVerdict verdict) {
  for (const auto& [known, name] : kVerdicts) {
    if (known == verdict) return name;
  }
  return "unclear";
}

PythonReport read_python_report(std::string_view text) {
  const Json document = parse_json(text, "the report of Python", kMaxValues);
  const JsonView report(document, "the report of Python");
  require_format(report, kFormat);
  PythonReport facts{.executable = report.at("executable").text(),
                     .version = report.at("version").text(),
                     .hook = report.at("hook").boolean(),
                     .importable = report.at("importable").text(),
                     .library = report.at("library").at("path").text(),
                     .library_problem = report.at("library").at("problem").text(),
                     .checked = report.at("checked").text(),
                     .not_checked = report.at("not_checked").text(),
                     .frameworks = {}};
  const JsonView frameworks = report.at("frameworks");
  for (std::size_t i = 0; i < frameworks.size(); ++i) facts.frameworks.push_back(framework_of(frameworks.at(i)));
  return facts;
}

PythonFacts examine_python(const PythonQuestion& question) {
  PythonFacts facts{.program = question.program,
                    .report = {},
                    .problem = {},
                    .attaching_is_off = process_environment()("LOWGEAR_ATTACH") == "0"};
  const std::optional<std::filesystem::path> package = python_package(question.program_folder);
  if (!package) {
    facts.problem = "was not checked: Lowgear's Python package is not installed; install python3-lowgear, or the wheel";
    return facts;
  }
  std::map<std::string, std::string> variables = attaching_variables(*package, question.program_folder);
  // As `lowgear run --record` asks for. Nothing of it is trained, so nothing is written.
  variables["LOWGEAR_RECORDING"] = "/nonexistent";
  variables["PYTHONDONTWRITEBYTECODE"] = "1";
  const ProgramOutput output = run_for_output({question.program, (*package / "adapters").string()}, variables,
                                              question.limits, question.between);
  if (!output.problem.empty()) {
    const std::string said = printable(last_line(output.err), 300);
    facts.problem = output.problem + (said.empty() ? "" : ": " + said);
    return facts;
  }
  try {
    facts.report = read_python_report(last_line(output.out));
  } catch (const InputError& error) {
    facts.problem = fmt::format("gave no report: {}", error.what());
  }
  return facts;
}

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
  return {FindingLevel::works, kPython, where + ": `lowgear run -- COMMAND` attaches to its training framework", ""};
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
  return {FindingLevel::limited, kFramework,
          fmt::format("{}: its source does not decide it: {}", subject, framework.reason),
          "lowgear run --record DIR -- COMMAND shows it at the first iteration"};
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
  return "Or attach to an unchanged job: lowgear run --record DIR -- COMMAND\n";
}

}  // namespace lowgear::operations::doctor
