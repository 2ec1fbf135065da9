#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/operations/doctor/diagnosis.h"
#include "app/operations/doctor/program_output.h"

namespace lowgear::operations::doctor {

/// The Python package that belongs to a program in this folder: in the source of a build, or installed below the same
/// prefix by a package, by pip or by `pip --target`. Nothing where there is none.
[[nodiscard]] std::optional<std::filesystem::path> python_package(const std::filesystem::path& program_folder);

/// Variables with which a Python process attaches, once another one names the server or the plan: the package's
/// sitecustomize first in PYTHONPATH, and LOWGEAR_LIBRARY where the library of that program is not where the package
/// looks and no variable names another.
[[nodiscard]] std::map<std::string, std::string> attaching_variables(const std::filesystem::path& package,
                                                                     const std::filesystem::path& program_folder);

/// How Lowgear treats jobs of a framework, as its adapters conclude from the framework's source.
enum class FrameworkVerdict : unsigned char {
  attaches,       ///< units are marked, and plans can be followed
  measures,       ///< iterations are measured, without units and plans
  refused,        ///< a function or a parameter is missing
  absent,         ///< a module is missing in this version
  unclear,        ///< the source does not say
  not_installed,  ///< the Python does not find it
};
/// `attaches`, ..., `not_installed`.
[[nodiscard]] std::string_view name(FrameworkVerdict verdict);

/// One framework of a Python.
struct FrameworkFacts {
  std::string name;
  std::string version;  ///< empty where it does not say
  FrameworkVerdict verdict = FrameworkVerdict::not_installed;
  std::string reason;                  ///< of refused, absent and unclear ones: file, version, function, parameter
  std::vector<std::string> observed;   ///< functions that the adapter replaces
  std::vector<std::string> decorated;  ///< those of them whose decorators were not looked into
};

/// Report of a Python about itself: `python3 -m lowgear.adapters` prints it.
struct PythonReport {
  std::string executable;
  std::string version;
  bool hook = false;            ///< it loads the sitecustomize of `lowgear run`
  std::string importable;       ///< the folder of the package that it finds without `lowgear run`; may be empty
  std::string library;          ///< liblowgear.so as the package loads it; empty where it cannot
  std::string library_problem;  ///< why there is no `library`
  std::string checked;          ///< in words, of all frameworks
  std::string not_checked;
  std::vector<FrameworkFacts> frameworks;
};

/// Facts about the Python that would run a job.
struct PythonFacts {
  std::string program;  ///< as it was named
  std::optional<PythonReport> report;
  std::string problem;            ///< why there is no report
  bool attaching_is_off = false;  ///< LOWGEAR_ATTACH=0
};

/// A request for a Python's report.
struct PythonQuestion {
  std::string program = "python3";
  std::filesystem::path program_folder;  ///< of `lowgear`: the package is looked for from there
  ProgramLimits limits = {};
  std::function<void()> between = {};  ///< called while the report is awaited; may throw
};

/// Reads a report. Throws InputError for anything else.
[[nodiscard]] PythonReport read_python_report(std::string_view text);

/// Has a Python report, started as `lowgear run` starts jobs. Whatever is wrong with it is the `problem`.
[[nodiscard]] PythonFacts examine_python(const PythonQuestion& question);

/// Conclusions from the facts about the Python that would run a job, in reading order. None is `broken`: whatever is
/// wrong with it, Lowgear measures.
[[nodiscard]] std::vector<Finding> diagnose_python(const PythonFacts& facts);

/// The command to run next, as one line; empty where no framework is observed.
[[nodiscard]] std::string next_step(const PythonFacts& facts);

}  // namespace lowgear::operations::doctor
