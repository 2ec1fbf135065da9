#include <filesystem>
#include <memory>
#include <string>

#include "app/cli/arguments/options.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/runs/plan_output.h"
#include "base/core/files/folder_manifest.h"
#include "report/report/html_report.h"
#include "report/report/run_report.h"

namespace lowgear::cli {
namespace {

struct ReportArguments {
  std::string folder;
  bool json = false;
};

ExitCode run_report(const ReportArguments& arguments, Console& console) {
  const std::filesystem::path folder = arguments.folder;
  const planner::PlanFolder files = read_plan_folder(folder);
  workflow::RunContents contents = read_run_contents(files, folder);
  contents.verified = verify(files);
  const std::filesystem::path path = folder / output_file::kReport;
  write_listed_file(folder, std::string(output_file::kReport),
                    report::render_html_report(report::build_report(contents)));
  if (arguments.json) {
    console.print_json({{"report", path.string()}, {"verified", contents.verified->ok()}});
  } else {
    console.print(path.string() + '\n');
  }
  if (contents.verified->ok()) return ExitCode::ok;
  console.error(contents.verified->failures.front());
  return ExitCode::failed;
}

}  // namespace

VerbAction declare_report(CLI::App& app) {
  auto arguments = std::make_shared<ReportArguments>();
  app.add_option("folder", arguments->folder, "Folder that lowgear plan has written")->type_name("DIR")->required();
  add_json_flag(app, arguments->json);
  return [arguments](Console& console) { return run_report(*arguments, console); };
}

}  // namespace lowgear::cli
