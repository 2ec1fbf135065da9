#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "app/cli/arguments/command_line.h"
#include "app/cli/arguments/options.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/progress_bar.h"
#include "app/cli/text/evaluation/evaluation_page.h"
#include "app/cli/text/evaluation/evaluation_text.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "report/evaluation/evaluation.h"
#include "report/evaluation/figures.h"

namespace lowgear::cli {
namespace {

struct EvaluateArguments {
  std::vector<std::string> folders;
  std::string html;     ///< page to write, or empty
  std::string command;  ///< the command line, for the page
  bool json = false;
};

/// Paths of files below a folder, in the order of their names, with the folder's own name before them.
struct FoundFile {
  std::string name;
  std::filesystem::path path;
};

std::vector<FoundFile> artifact_files(const std::string& given) {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::canonical(given, failed);
  if (failed || !std::filesystem::is_directory(folder)) {
    throw InputError(fmt::format("{}: {}; give a folder of the shape of Perseus' sosp24_data", given,
                                 failed ? "no such folder" : "it is a file"));
  }
  std::vector<FoundFile> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::string name = (folder.filename() / entry.path().lexically_relative(folder)).generic_string();
    if (evaluation::is_artifact_file(name)) files.push_back({std::move(name), entry.path()});
  }
  std::ranges::sort(files, {}, &FoundFile::name);
  return files;
}

/// A file of a folder that is read twice would be another file for the same pipeline.
void refuse_folders_given_twice(const std::vector<std::string>& folders) {
  std::set<std::filesystem::path> seen;
  for (const std::string& folder : folders) {
    if (!seen.insert(std::filesystem::weakly_canonical(folder)).second) {
      throw InputError(fmt::format("{}: the folder is given twice; give it once", folder));
    }
  }
}

ExitCode run_evaluate(const EvaluateArguments& arguments, Console& console) {
  std::vector<evaluation::Cell> cells;
  std::vector<evaluation::ExtrinsicCurve> extrinsic;
  evaluation::Artifact artifact;
  refuse_folders_given_twice(arguments.folders);
  // Figure 8 takes as long as all the rest: only for those who see it.
  const bool has_figures = arguments.json || !arguments.html.empty();
  {
    ProgressBar progress;
    for (const std::string& folder : arguments.folders) {
      for (const FoundFile& file : artifact_files(folder)) {
        progress.update("reading", -1);
        add_file(artifact, file.name, read_file(file.path, kMaxFileBytes));
      }
    }
    if (artifact.files == 0) {
      throw InputError(
          fmt::format("{}: no file of the shape of Perseus' sosp24_data (docs/formats.md)", arguments.folders.front()));
    }
    cells = evaluate(artifact, &progress);
    if (has_figures) extrinsic = extrinsic_curves(artifact, &progress);
  }
  const std::vector<evaluation::MeasuredPoint> measured = measured_points(artifact);
  if (!arguments.html.empty()) {
    const EvaluationResults results{cells, extrinsic, measured};
    write_file_atomically(arguments.html, render_estimate_report(evaluation_page(results, arguments.command)));
  }
  if (arguments.json) {
    Json json = evaluation_json(cells);
    json["figure8"] = extrinsic_curves_json(extrinsic);
    json["figure9"] = measured_points_json(measured);
    console.print_json(json);
  } else {
    console.print(evaluation_text(cells));
  }
  return ExitCode::ok;
}

}  // namespace

VerbAction declare_evaluate(CLI::App& app) {
  auto arguments = std::make_shared<EvaluateArguments>();
  app.add_option("folders", arguments->folders,
                 "Folders of the shape of the Perseus artifact's sosp24_data: stage profiles, frontiers, "
                 "envpipe_result.csv, zeus_global.csv, N.prof.json")
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
