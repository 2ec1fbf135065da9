/// How far estimates are from what was published and sampled: writes ACCURACY.md and its plots into a folder.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>

#include "accuracy/section.h"
#include "base/core/files/file.h"

namespace lowgear::bench {
namespace {

constexpr std::string_view kHeading =
    "# How accurate estimates are\n\nWritten by `accuracy_study` (`./dev bench accuracy_study`). *Estimated* is "
    "Lowgear's estimate, made without a GPU; *measured* figures are those of the named publications. Errors are "
    "(estimated - "
    "measured) / "
    "measured; means are means of absolute errors.\n\n| check | reached | reach | |\n|---|---|---|---|\n";

void write(const std::filesystem::path& folder) {
  std::string text(kHeading);
  std::string body;
  std::filesystem::create_directories(folder / "accuracy");
  for (const auto& section_of :
       {iteration_section, memory_section, operator_section, peer_section, saving_section, search_section}) {
    const AccuracySection section = section_of();
    for (const AccuracyTarget& target : section.targets) {
      text += fmt::format("| {} | {} | {} | {} |\n", target.check, target.figure, target.reach,
                          target.reached ? "yes" : "**no**");
      fmt::print("target: | {} | {} | {} | {} |\n", target.check, target.figure, target.reach,
                 target.reached ? "yes" : "**no**");
    }
    std::fflush(stdout);  // the next section takes minutes
    for (const PlotFile& plot : section.plots) write_file_atomically(folder / "accuracy" / plot.name, plot.svg);
    body += "\n" + section.markdown;
  }
  write_file_atomically(folder / "ACCURACY.md", text + body);
}

}  // namespace
}  // namespace lowgear::bench

int main(int argc, char** argv) {
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    fmt::print(stderr,
               "usage: accuracy_study [FOLDER]\nwrites ACCURACY.md and its plots into FOLDER, or into bench/\n");
    return 2;
  }
  const std::filesystem::path folder =
      argc > 1 ? std::filesystem::path(argv[1]) : std::filesystem::path(LOWGEAR_SOURCE_DIR) / "bench";
  try {
    lowgear::bench::write(folder);
  } catch (const std::exception& error) {
    fmt::print(stderr, "accuracy_study: {}\n", error.what());
    return 1;
  }
  return 0;
}
