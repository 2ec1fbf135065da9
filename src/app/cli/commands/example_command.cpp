#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "app/cli/arguments/options.h"
#include "app/cli/commands/verbs.h"
#include "base/core/error.h"
#include "base/core/files/folder_manifest.h"
#include "planning/profile/example_profile.h"
#include "planning/profile/profile_file.h"

namespace lowgear::cli {
namespace {

struct ExampleArguments {
  std::string out = "example";
  bool json = false;
};

constexpr std::string_view kReadme =
    "profile.csv: GPT-3 175B (96 layers, tensor parallel 8, microbatch 1) on eight stages of A100-like GPUs.\n"
    "\n"
    "It is MODELLED, not measured: times are t = a + b / f and powers P = p0 + p1 f V(f)^2, with the parameters and\n"
    "sources of Lowgear's docs/profiling.md. Figures made from it show what Lowgear does, not what a GPU would save.\n"
    "\n"
    "A waiting GPU is assumed to draw 75 W (column blocking_power):\n"
    "  lowgear plan profile.csv --microbatches 32\n";

ExitCode run_example(const ExampleArguments& arguments, Console& console) {
  const std::filesystem::path folder = arguments.out;
  std::error_code error;
  const bool made = std::filesystem::create_directories(folder, error);
  if (error) throw_input_error({arguments.out, 0, 0}, "cannot be made: " + error.message(), "name another folder");
  if (std::filesystem::exists(folder / "run.json", error)) {
    throw_input_error({arguments.out, 0, 0}, "holds a plan, whose profile.csv the example would replace",
                      "name another folder");
  }
  // File by file: the folder may hold plans that were made in it since.
  const std::filesystem::path profile = folder / "profile.csv";
  profile::ProfileFile file{.profile = profile::example_profile()};
  file.columns.blocking_power_w.assign(static_cast<std::size_t>(file.profile.stages()),
                                       profile::kExampleBlockingPowerW);
  try {
    write_listed_file(folder, "profile.csv", profile::write_profile_file(file));
    write_listed_file(folder, "README.txt", kReadme);
  } catch (...) {
    if (made) std::filesystem::remove(folder, error);  // while it is empty
    throw;
  }
  if (arguments.json) {
    console.print_json(
        {{"profile", profile.string()}, {"stages", profile::example_profile().stages()}, {"modelled", true}});
  } else {
    console.print(
        fmt::format("{}: modelled, not measured (see README.txt there)\n"
                    "next: lowgear plan {} --microbatches 32 --out {}\n",
                    profile.string(), shell_word(profile.string()), shell_word((folder / "plan").string())));
  }
  return ExitCode::ok;
}

}  // namespace

VerbAction declare_example(CLI::App& app) {
  auto arguments = std::make_shared<ExampleArguments>();
  app.add_option("--out", arguments->out, "Folder to write profile.csv and README.txt to (default example)")
      ->type_name("DIR");
  add_json_flag(app, arguments->json);
  return [arguments](Console& console) { return run_example(*arguments, console); };
}

}  // namespace lowgear::cli
