#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/arguments/planner_arguments.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/progress.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/numbers/figure_text.h"
#include "rivals/formats/perseus_plan.h"

namespace lowgear::cli {
namespace {

/// File in the written folder that names its source.
constexpr const char* kRecord = "thinned.json";

struct ThinArguments {
  std::string folder;
  std::string out;
  std::optional<plan::PlanSampling> keep;
  bool json = false;
};

/// The folder's plan files in the order of their names, which is that of lowtime's iterations.
std::vector<std::filesystem::path> plan_files(const std::filesystem::path& folder) {
  std::error_code failure;
  const std::filesystem::directory_iterator entries(folder, failure);
  if (failure) {
    throw_input_error({folder.string(), 0, 0},
                      failure == std::errc::not_a_directory ? "it is a file" : "cannot be read: " + failure.message(),
                      "give a folder with freqs_pipeline_NNNNN.py files");
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : entries) {
    if (entry.is_regular_file() && entry.path().extension() == ".py") files.push_back(entry.path());
  }
  if (files.empty()) {
    throw InputError(
        fmt::format("{}: holds no .py file; lowgear plan --perseus-format writes such plans", folder.string()));
  }
  std::ranges::sort(files);
  return files;
}

ExitCode run_thin(const ThinArguments& arguments, Console& console) {
  const std::vector<std::filesystem::path> files = plan_files(arguments.folder);
  const std::vector<std::size_t> kept = plan::sampled_places(files.size(), *arguments.keep);
  const Json result = {{"folder", arguments.folder}, {"plans", files.size()}, {"kept", kept.size()}};
  StagedDirectory folder(arguments.out, kRecord);
  {
    ProgressBar progress;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      progress.update("copying plans", static_cast<double>(i) / static_cast<double>(kept.size()));
      const std::filesystem::path& file = files[kept[i]];
      const std::string text = read_file(file, formats::kMaxPerseusPlanBytes);
      (void)formats::read_perseus_plan(text, file.string());
      folder.write(file.filename(), text);
    }
  }
  folder.write(kRecord, result.dump() + '\n');
  commit_folder(folder, console);
  if (arguments.json) {
    console.print_json(result);
  } else {
    console.print(
        fmt::format("kept      {} of {}, in {}\n", kept.size(), counted(files.size(), "plan", "plans"), arguments.out));
  }
  return ExitCode::ok;
}

}  // namespace

VerbAction declare_thin(CLI::App& app) {
  auto arguments = std::make_shared<ThinArguments>();
  app.add_option("folder,--thin", arguments->folder, "Folder with plans of Perseus or Zeus, as freqs_pipeline_NNNNN.py")
      ->type_name("DIR")
      ->required();
  add_plan_sampling_option(
      app, "--keep", arguments->keep,
      "Plans to keep, in the order of their names: all, a number of them (20), evenly, or every 50th and "
      "the last (every:50)")
      ->required();
  app.add_option("--out", arguments->out,
                 "Folder to write. The output of an earlier run is replaced; a folder with other files is refused")
      ->type_name("DIR")
      ->required();
  add_json_flag(app, arguments->json);
  return [arguments](Console& console) { return run_thin(*arguments, console); };
}

}  // namespace lowgear::cli
