#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/progress_bar.h"
#include "app/cli/text/evaluation/evaluation_text.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "report/evaluation/evaluation.h"

namespace lowgear::cli {
namespace {

struct EvaluateArguments {
  std::vector<std::string> folders;
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
  evaluation::Artifact artifact;
  refuse_folders_given_twice(arguments.folders);
  {
    ProgressBar progress;
    for (const std::string& folder : arguments.folders) {
      for (const FoundFile& file : artifact_files(folder)) {
        progress.update("reading", -1);
        add_file(artifact, file.name, read_file(file.path));
      }
    }
    if (artifact.files == 0) {
      throw InputError(
          fmt::format("{}: no file of the shape of Perseus' sosp24_data (docs/formats.md)", arguments.folders.front()));
    }
    cells = evaluate(artifact, &progress);
  }
  if (arguments.json) {
    Json json = evaluation_json(cells);
    json["figure9"] = measured_points_json(artifact);
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
  add_json_flag(app, arguments->json);
  return [arguments](Console& console) { return run_evaluate(*arguments, console); };
}

}  // namespace lowgear::cli
