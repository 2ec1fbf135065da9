#include <unistd.h>

#include <memory>
#include <vector>

#include "cli/diagnosis.h"
#include "cli/machine_facts.h"
#include "cli/options.h"
#include "cli/verbs.h"

namespace lowgear {

VerbAction declare_doctor(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  add_json_flag(app, *json);
  return [json](Console& console) {
    const MachineFacts facts = collect_machine_facts();
    const std::vector<Finding> findings = diagnose(facts);
    if (*json) {
      console.print_json(diagnosis_json(facts, findings));
    } else {
      console.print(diagnosis_text(findings, colours_allowed(STDOUT_FILENO) ? Colours::on : Colours::off));
    }
    return can_measure(findings) ? ExitCode::ok : ExitCode::failed;
  };
}

}  // namespace lowgear
