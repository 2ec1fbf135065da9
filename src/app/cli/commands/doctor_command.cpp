#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/text/diagnosis_text.h"
#include "app/doctor/diagnosis.h"
#include "app/doctor/machine_facts.h"
#include "app/doctor/switch_latency_probe.h"

namespace lowgear::cli {
namespace {

struct DoctorArguments {
  bool measure_switch_latency = false;
  bool json = false;
};

ExitCode run_doctor(const DoctorArguments& arguments, Console& console) {
  doctor::MachineFacts facts = doctor::collect_machine_facts();
  if (arguments.measure_switch_latency) {
    facts.switch_latencies.emplace();
    if (facts.nvml && facts.agent == doctor::AgentReach::answers) {
      facts.switch_latencies = doctor::measure_switch_latencies(*facts.nvml, facts.agent_socket);
    }
  }
  const std::vector<doctor::Finding> findings = diagnose(facts);
  if (arguments.json) {
    console.print_json(diagnosis_json(facts, findings));
  } else {
    const Colours colours = colours_allowed(STDOUT_FILENO) ? Colours::on : Colours::off;
    console.print(diagnosis_text(findings, colours) + next_step(facts, findings));
  }
  return can_measure(findings) ? ExitCode::ok : ExitCode::failed;
}

}  // namespace

VerbAction declare_doctor(CLI::App& app) {
  auto arguments = std::make_shared<DoctorArguments>();
  app.add_flag("--measure-switch-latency", arguments->measure_switch_latency,
               "Also measure the switch latency, in ms: run a small load on every idle GPU for about 6 s while the "
               "agent changes its clocks, and restore them afterwards. Without this option doctor "
               "changes no clock");
  add_json_flag(app, arguments->json);
  return [arguments](Console& console) { return run_doctor(*arguments, console); };
}

}  // namespace lowgear::cli
