#include "app/operations/doctor/python_facts.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "app/operations/doctor/python_package.h"
#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "client/rank/rank_environment.h"

namespace lowgear::operations::doctor {
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
  value.fail("is no verdict", "use the command and the Python package of one release");
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
    facts.problem = "was not asked: Lowgear's Python package is not there; install python3-lowgear, or the wheel";
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

}  // namespace lowgear::operations::doctor
