#include "app/cli/arguments/profile_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "app/cli/arguments/options.h"
#include "app/cli/arguments/profile_input.h"
#include "base/core/error.h"
#include "base/core/units.h"
#include "planning/profile/compose/composed_profile.h"
#include "planning/profile/few_clock_fit.h"
#include "planning/profile/options.h"
#include "planning/steps/work_model.h"

namespace lowgear::cli {
namespace {

constexpr std::array<std::string_view, 2> kClockChoices = {"all", "few"};
constexpr int kMaxSkippedIterations = 1'000'000;
constexpr std::string_view kCompose = "compose";
constexpr std::string_view kRecordings = "RECORDING";
constexpr auto kOptionsOfSources = std::to_array<OptionOfAction>({
    {kCompose, "--max-options"},
    {kRecordings, "--merak"},
    {kRecordings, "--fill"},
    {kRecordings, "--choose"},
    {kRecordings, "--supported-clocks"},
    {kRecordings, "--clocks"},
    {kRecordings, "--gpu-file"},
    {kRecordings, "--job"},
    {kRecordings, "--stages"},
    {kRecordings, "--microbatches"},
    {kRecordings, "--iterations"},
    {kRecordings, "--skip-iterations"},
    {kRecordings, "--own-clock"},
    {kRecordings, "--errors-out"},
    {kRecordings, "--blocking-power-out"},
    {kRecordings, "--freqevents"},
    {kRecordings, "--html"},
});

void declare_sources(CLI::App& app, ProfileArguments& arguments) {
  app.add_option(
         "recordings", arguments.recordings,
         "Recordings of the client library: folders of ranks, or folders of such folders; or compose PARTS.csv: "
         "ops made of parts in series, each with settings of its own, as options with the column setting")
      ->type_name("RECORDING");
  app.add_option("--merak", arguments.merak,
                 "Folder of a profiling run of Merak: instructions-N.csv and time-energy-N.csv. --supported-clocks "
                 "gives the clocks in the order of the run")
      ->type_name("DIR");
  add_whole_number(app, "--stages", {1, profile::kMaxStages}, into(arguments.merak_run.stages),
                   "Merak: pipeline stages; rank r runs stage r mod stages");
  add_whole_number(app, "--microbatches", {1, profile::kMaxIteration}, into(arguments.merak_run.microbatches),
                   "Merak: microbatches per iteration");
  add_whole_number(app, "--iterations", {1, profile::kMaxIteration}, into(arguments.merak_run.iterations),
                   "Merak: iterations per clock (num_prof_steps)");
  app.add_option("--fill", arguments.fill,
                 "Stage profile with at least four clocks; the other supported clocks are predicted")
      ->type_name("FILE");
  add_whole_number(app, "--choose", {profile::kMinMeasuredClocks, kMaxClockMhz}, into(arguments.choose),
                   "Only print which N of the supported clocks to measure");
}

}  // namespace

bool ProfileArguments::composes() const { return !recordings.empty() && recordings.front() == kCompose; }

std::vector<std::string> ProfileArguments::inputs() const {
  std::vector<std::string> paths = recordings;
  for (const std::string& path : {merak, fill, gpu_file, job}) {
    if (!path.empty()) paths.push_back(path);
  }
  return paths;
}

std::vector<std::string> ProfileArguments::outputs() const {
  std::vector<std::string> paths;
  for (const std::string& path : {out, work_path(), errors_out, blocking_power_out, freqevents, html}) {
    if (!path.empty()) paths.push_back(path);
  }
  return paths;
}

std::string ProfileArguments::work_path() const { return out.empty() ? "" : steps::work_file_of(out); }

std::string ProfileArguments::errors_path() const { return errors_out.empty() ? out + ".errors.csv" : errors_out; }

void add_profile_options(CLI::App& app, ProfileArguments& arguments) {
  declare_sources(app, arguments);
  app.add_option(
         "--supported-clocks", arguments.clocks,
         "Clocks that the GPU supports, in MHz: a list such as 1410,1395, or a range with its step such as 1410-855/15")
      ->type_name("LIST");
  add_choice(
      app, "--clocks", kClockChoices, [&arguments](std::size_t place) { arguments.predict = place == 1; },
      "all: rows for the recorded clocks (default); few: also predicted rows for the other supported clocks");
  app.add_option(
         "--gpu-file", arguments.gpu_file,
         "Predict the supported clocks that were not recorded, from one recorded clock or more, with this power "
         "of a measured GPU (lowgear sample curve)")
      ->type_name("FILE");
  app.add_option("--job", arguments.job,
                 "With --gpu-file: the recorded job, as lowgear estimate reads it, whose kernels say how much of each "
                 "op's time follows the clock")
      ->type_name("FILE");
  add_whole_number(app, "--skip-iterations", {0, kMaxSkippedIterations}, into(arguments.profiling.skipped_iterations),
                   "Number of first iterations of each recording to leave out (default 2)");
  add_quantity(
      app, "--blocking-power", Unit::watt, {0, profile::kMaxBlockingPowerW}, into(arguments.profiling.blocking_w),
      "Power that one GPU draws while it waits, in W, if it was measured separately; compose: leaves out slower "
      "options that cost more than waiting");
  add_whole_number(app, "--max-options", {2, static_cast<int>(profile::kMaxSettings)}, into(arguments.max_options),
                   "compose: most options of a stage, instruction and clock (default 64)");
  add_clock(app, "--own-clock", into(arguments.profiling.own_clock_mhz),
            "Clock in MHz of units that ran without a requested clock, as in recordings without a plan "
            "(default: such units are left out)");
  app.add_flag("--accept-invalid", arguments.accepts_invalid,
               "Also make a profile of recordings that the trainer has marked invalid, as times of simulated GPUs that "
               "the real computation exceeded; such a profile says nothing, and plans do not repeat the mark");
  app.add_option("--out", arguments.out, "File to write the stage profile to")->type_name("FILE");
  app.add_option("--errors-out", arguments.errors_out,
                 "File to write the origin and the errors of the profile's rows to (default: the profile's name with "
                 ".errors.csv)")
      ->type_name("FILE");
  app.add_option("--blocking-power-out", arguments.blocking_power_out,
                 "File to write the power of waiting GPUs to, by stage, in W")
      ->type_name("FILE");
  app.add_option(
         "--freqevents", arguments.freqevents,
         "Also write a log of clock changes of every rank into this folder: N.freqevents.csv with freq,start,end "
         "in MHz and ns, as Perseus' client does")
      ->type_name("DIR");
  app.add_option(
         "--html", arguments.html,
         "Also draw the energy of every stage over the clock (EnvPipe's valley curves), as an HTML page in this "
         "file")
      ->type_name("FILE");
  add_json_flag(app, arguments.json);
}

void check_profile_arguments(const CLI::App& app, const ProfileArguments& arguments) {
  refuse_options_of_other_actions(app, arguments.composes() ? kCompose : kRecordings, kOptionsOfSources);
  if (arguments.composes()) return;
  const int sources = (arguments.recordings.empty() ? 0 : 1) + (arguments.merak.empty() ? 0 : 1) +
                      (arguments.fill.empty() ? 0 : 1) + (arguments.choose ? 1 : 0);
  if (sources != 1) throw InputError("give one of: recordings, --merak, --fill or --choose");
  if (!arguments.choose && arguments.out.empty()) throw InputError("--out is missing: where to write the profile");
  const bool needs_clocks = arguments.choose || arguments.fills() || !arguments.merak.empty();
  if (needs_clocks && arguments.clocks.empty()) {
    throw InputError("--supported-clocks is missing: the GPU's clocks, as 1410,1395,... or 1410-855/15");
  }
  if (!arguments.gpu_file.empty() && arguments.choose) {
    throw InputError("--gpu-file predicts clocks from recordings, --merak or --fill; leave --choose out");
  }
  if (!arguments.job.empty() && arguments.gpu_file.empty()) {
    throw InputError("--job says how much of the time follows the clock where --gpu-file predicts clocks; name both");
  }
  if (!arguments.freqevents.empty() && arguments.recordings.empty()) {
    throw InputError("--freqevents is for recordings: give their folders");
  }
  std::vector<std::filesystem::path> written;
  for (const std::string& output : arguments.outputs()) {
    refuse_to_overwrite(output, arguments.inputs());
    const std::filesystem::path target = std::filesystem::weakly_canonical(output);
    if (std::ranges::find(written, target) != written.end()) {
      throw InputError(fmt::format("{} is named for two results: write each to a file of its own", quote(output)));
    }
    written.push_back(target);
  }
}

}  // namespace lowgear::cli
