#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/terminal/process.h"
#include "app/operations/commands/rank_programs.h"
#include "app/operations/commands/verbs.h"
#include "app/operations/doctor/diagnosis.h"
#include "app/operations/doctor/machine_facts.h"
#include "app/operations/doctor/python_check.h"
#include "app/operations/doctor/sharing_check.h"
#include "app/operations/doctor/switch_latency_probe.h"
#include "app/operations/text/machine_text.h"

namespace lowgear::operations {
namespace {

struct DoctorArguments {
  bool measure_switch_latency = false;
  bool json = false;
  std::string python = "python3";
};

doctor::PythonFacts facts_of_python(const std::string& program) {
  return doctor::examine_python(
      {.program = program, .program_folder = program_folder(), .limits = {}, .between = cli::throw_if_interrupted});
}

cli::ExitCode run_doctor(const DoctorArguments& arguments, cli::Console& console) {
  doctor::MachineFacts facts = doctor::collect_machine_facts();
  if (arguments.measure_switch_latency) {
    facts.switch_latencies.emplace();
    if (facts.nvml && facts.agent == doctor::AgentReach::answers) {
      facts.switch_latencies = doctor::measure_switch_latencies(*facts.nvml, facts.agent_socket);
    }
  }
  const doctor::PythonFacts python = facts_of_python(arguments.python);
  const doctor::SharingFacts sharing = doctor::collect_sharing_facts();
  std::vector<doctor::Finding> findings = diagnose(facts);
  if (facts.nvml) {
    for (doctor::Finding& finding : diagnose_sharing(sharing, *facts.nvml)) findings.push_back(std::move(finding));
  }
  for (doctor::Finding& finding : doctor::diagnose_python(python)) findings.push_back(std::move(finding));
  if (arguments.json) {
    Json json = diagnosis_json(facts, python, findings);
    json["sharing"] = sharing_json(sharing);
    console.print_json(json);
  } else {
    const Colours colours = cli::colours_allowed(STDOUT_FILENO) ? Colours::on : Colours::off;
    console.print(diagnosis_text(findings, colours) + next_step(facts, findings) + doctor::next_step(python));
  }
  return can_measure(findings) ? cli::ExitCode::ok : cli::ExitCode::failed;
}

}  // namespace

cli::VerbAction declare_doctor(CLI::App& app) {
  auto arguments = std::make_shared<DoctorArguments>();
  app.add_flag("--measure-switch-latency", arguments->measure_switch_latency,
               "Also measure the switch latency, in ms: run a small load on every idle GPU for about 6 s while the "
               "agent changes its clocks, and restore them afterwards. Without this option doctor "
               "changes no clock");
  app.add_option("--python", arguments->python,
                 "Python that runs the training job, whose frameworks are checked (default python3). The check takes "
                 "at most 30 s and imports no framework")
      ->type_name("PATH");
  cli::add_json_flag(app, arguments->json);
  return [arguments](cli::Console& console) { return run_doctor(*arguments, console); };
}

}  // namespace lowgear::operations
