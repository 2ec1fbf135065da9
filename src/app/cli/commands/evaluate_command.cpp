#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/progress.h"
#include "app/cli/text/evaluation_text.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "rivals/evaluation/artifact.h"
#include "rivals/evaluation/evaluation.h"

namespace lowgear::cli {
namespace {

struct EvaluateArguments {
  std::vector<std::string> folders;
  std::string html;     ///< page to write, or empty
  std::string command;  ///< the command line, for the page
  bool json = false;
};

/// A file below a folder given, by its path from there with the folder's own name before it.
struct FoundFile {
  std::string name;
  std::filesystem::path path;
};

/// Contents of a folder, in the order of names.
struct FoundFolder {
  std::vector<FoundFile> artifact;                                            ///< files of the artifact's names
  std::map<std::filesystem::path, std::vector<std::filesystem::path>> dumps;  ///< `N.prof.json` by their folder
  bool has_tables = false;                                                    ///< of the artifact
};

FoundFolder files_of(const std::string& given) {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::canonical(given, failed);
  std::filesystem::recursive_directory_iterator entries;
  if (!failed) entries = std::filesystem::recursive_directory_iterator(folder, failed);
  if (failed) {
    throw_input_error({given, 0, 0},
                      failed == std::errc::not_a_directory ? "it is a file" : "cannot be read: " + failed.message(),
                      "give the folder of a job's results, or one of the shape of Perseus' sosp24_data");
  }
  FoundFolder found;
  for (const auto& entry : entries) {
    if (!entry.is_regular_file()) continue;
    std::string name = (folder.filename() / entry.path().lexically_relative(folder)).generic_string();
    if (evaluation::profile_number(entry.path().filename().string())) {
      found.dumps[entry.path().parent_path()].push_back(entry.path());
    }
    if (!evaluation::is_artifact_file(name)) continue;
    found.has_tables = found.has_tables || evaluation::is_artifact_table(name);
    found.artifact.push_back({std::move(name), entry.path()});
  }
  std::ranges::sort(found.artifact, {}, &FoundFile::name);
  return found;
}

evaluation::Dump read_dump(const std::filesystem::path& folder, std::span<const std::filesystem::path> profiles) {
  std::vector<evaluation::Window> windows;
  for (const std::filesystem::path& profile : profiles) {
    const int number = *evaluation::profile_number(profile.filename().string());
    evaluation::Window window{
        .number = number, .figures = evaluation::window_figures(read_file(profile, kMaxFileBytes), profile.string())};
    const std::filesystem::path states = folder / fmt::format("{}.sched.json", number);
    std::error_code error;
    if (std::filesystem::exists(states, error)) {
      window.states = evaluation::window_states(read_file(states, kMaxFileBytes), states.string());
    }
    windows.push_back(std::move(window));
  }
  return evaluation::compare_windows(folder.string(), std::move(windows));
}

/// A file of a folder that is read twice would be another file for the same pipeline.
void refuse_folders_given_twice(const std::vector<std::string>& folders) {
  std::set<std::filesystem::path> seen;
  for (const std::string& folder : folders) {
    std::error_code unreadable;  // which is said once it is read
    const std::filesystem::path path = std::filesystem::weakly_canonical(folder, unreadable);
    if (!unreadable && !seen.insert(path).second) {
      throw InputError(fmt::format("{}: the folder is given twice; give it once", folder));
    }
  }
}

/// Contents of all folders, and the evaluation of the artifact.
struct Evaluated {
  evaluation::Artifact artifact = {};
  std::vector<evaluation::Dump> dumps = {};
  std::vector<evaluation::Cell> cells = {};
  std::vector<evaluation::ExtrinsicCurve> extrinsic = {};
  std::vector<evaluation::MeasuredPoint> measured = {};
};

/// Runs are the artifact's where its tables are, to which they belong; otherwise each folder of them is a job of one's
/// own.
Evaluated read_input(const EvaluateArguments& arguments, ProgressBar& progress) {
  Evaluated input;
  std::vector<FoundFolder> folders;
  for (const std::string& folder : arguments.folders) folders.push_back(files_of(folder));
  const bool has_tables = std::ranges::any_of(folders, &FoundFolder::has_tables);
  for (const FoundFolder& folder : folders) {
    progress.update("reading", -1);
    if (has_tables && !folder.artifact.empty()) {
      for (const FoundFile& file : folder.artifact)
        add_file(input.artifact, file.name, read_file(file.path, kMaxFileBytes));
      continue;
    }
    for (const auto& [place, profiles] : folder.dumps) input.dumps.push_back(read_dump(place, profiles));
  }
  if (input.artifact.files == 0 && input.dumps.empty()) {
    throw InputError(fmt::format(
        "{}: no N.prof.json of a job's results, and no file of the shape of Perseus' sosp24_data (docs/formats.md)",
        arguments.folders.front()));
  }
  if (input.artifact.files == 0 && !arguments.html.empty()) {
    throw InputError("--html: draws the figures of Perseus' sosp24_data, of which there is no file in the folders");
  }
  return input;
}

Evaluated evaluate_folders(const EvaluateArguments& arguments) {
  ProgressBar progress;
  Evaluated all = read_input(arguments, progress);
  if (all.artifact.files == 0) return all;
  all.cells = evaluate(all.artifact, &progress);
  // Figure 8 takes as long as all the rest: only for those who see it.
  if (arguments.json || !arguments.html.empty()) all.extrinsic = extrinsic_curves(all.artifact, &progress);
  all.measured = measured_points(all.artifact);
  return all;
}

Json json_of(const Evaluated& all) {
  Json json = Json::object();
  if (all.artifact.files > 0) {
    json = evaluation_json(all.cells);
    json["figure8"] = extrinsic_curves_json(all.extrinsic);
    json["figure9"] = measured_points_json(all.measured);
  }
  json["dumps"] = dumps_json(all.dumps);
  return json;
}

ExitCode run_evaluate(const EvaluateArguments& arguments, Console& console) {
  refuse_folders_given_twice(arguments.folders);
  const Evaluated all = evaluate_folders(arguments);
  for (const std::string& doubt : all.artifact.doubts) console.warn(doubt);
  for (const evaluation::Dump& dump : all.dumps) {
    if (!dump.note.empty()) console.warn(fmt::format("{}: {}", printable(dump.folder), dump.note));
  }
  if (!arguments.html.empty()) {
    const EvaluationResults results{all.cells, all.extrinsic, all.measured};
    write_named_file(arguments.html, render_html_page(evaluation_page(results, arguments.command)), console);
  }
  if (arguments.json) {
    console.print_json(json_of(all));
    return ExitCode::ok;
  }
  if (all.artifact.files > 0) console.print(evaluation_text(all.cells));
  if (!all.dumps.empty()) console.print(dumps_text(all.dumps));
  return ExitCode::ok;
}

}  // namespace

VerbAction declare_evaluate(CLI::App& app) {
  auto arguments = std::make_shared<EvaluateArguments>();
  app.add_option("folders", arguments->folders,
                 "Folders of jobs' results, as Perseus' server or lowgear serve writes them (N.prof.json): a table of "
                 "their windows. Or folders of the shape of the Perseus artifact's sosp24_data: stage profiles, "
                 "frontiers, envpipe_result.csv, zeus_global.csv, N.prof.json")
      ->type_name("DIR")
      ->required();
  app.add_option("--html", arguments->html, "Also draw figures 7, 8 and 9 as an HTML page in this file, with all cells")
      ->type_name("FILE");
  add_json_flag(app, arguments->json);
  return [arguments, &app](Console& console) {
    arguments->command = command_line(app);
    return run_evaluate(*arguments, console);
  };
}

}  // namespace lowgear::cli
