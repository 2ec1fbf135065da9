#include "app/cli/runs/compose_run.h"

#include <fmt/format.h>

#include <cmath>

#include "app/cli/arguments/command_line.h"
#include "app/cli/text/composed_text.h"
#include "base/core/error.h"
#include "base/core/files/file.h"

namespace lowgear::cli {
namespace {

std::string next_step(const ComposeRun& run) {
  if (run.out == "-") return "";
  const double power_w = run.options.blocking_power_w;
  return fmt::format("Next: lowgear plan --profile {} --microbatches M --blocking-power {} --out DIR\n",
                     shell_word(run.out), std::isfinite(power_w) ? fmt::to_string(power_w) : "W");
}

}  // namespace

void run_compose(const ComposeRun& run, Console& console) {
  if (run.out.empty()) throw InputError("--out is missing: where to write the profile");
  refuse_to_overwrite(run.out, {run.parts});
  const profile::PartTable parts = profile::read_part_table(read_file(run.parts), run.parts);
  const profile::ComposedProfile composed = compose_profile(parts, run.options);
  const std::string text = write_stage_profile(composed.profile);
  // Checked as a reader would: every stage with what a plan needs.
  (void)profile::read_stage_profile(text, "the profile composed of " + run.parts);
  write_file_atomically(run.out, text);
  if (run.json) {
    Json json = composed_json(composed);
    json["out"] = run.out;
    console.print_json(json);
  } else if (run.out != "-") {
    console.print(composed_table(composed) + next_step(run));
  }
}

}  // namespace lowgear::cli
