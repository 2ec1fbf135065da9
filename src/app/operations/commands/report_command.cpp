#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/arguments/estimate_input.h"
#include "app/cli/arguments/options.h"
#include "app/cli/plan/plan_folder.h"
#include "app/operations/commands/arm_input.h"
#include "app/operations/commands/run_checks.h"
#include "app/operations/commands/usage_account.h"
#include "app/operations/commands/verbs.h"
#include "app/operations/text/arm_text.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/folder_manifest.h"
#include "base/core/files/memory_files.h"
#include "client/server/server_addresses.h"
#include "report/report/html_report.h"
#include "report/report/run_report.h"

namespace lowgear::operations {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::vector<std::string> arms;  ///< NAME=RUN,RUN
  std::string baseline;
  std::optional<double> loss;
  std::optional<double> loss_margin_pct;
  cli::PriceArguments prices;
  std::optional<double> tokens_per_iteration;
  bool paired = false;
  std::string month;
  std::string usage_file;
  ServerAccess server;
  std::string html;
  bool json = false;
};

constexpr cli::NumberRange<double> kLossRange{0, 1e3};
constexpr cli::NumberRange<double> kMarginRange{0, 100};
constexpr cli::NumberRange<double> kTokensRange{1, 1e15};
constexpr std::size_t kMaxUsageBytes = std::size_t{1} << 30U;

api::RunContents verified_contents(const std::filesystem::path& folder) {
  api::RunContents contents;
  if (cli::is_joint_folder(folder)) {
    const planner::JointFolder files = cli::read_joint_folder(folder);
    contents = api::read_joint_contents(files);
    contents.verified = verify(files);
  } else {
    const planner::PlanFolder files = cli::read_plan_folder(folder);
    contents = cli::read_run_contents(files, folder);
    contents.verified = verify(files);
  }
  return contents;
}

/// The page of a folder that `lowgear plan` has written.
cli::ExitCode report_plan(const std::filesystem::path& folder, bool json, cli::Console& console) {
  const api::RunContents contents = verified_contents(folder);
  const std::filesystem::path path = folder / cli::output_file::kReport;
  write_listed_file(folder, std::string(cli::output_file::kReport),
                    report::render_html_report(report::build_report(contents)));
  if (json) {
    console.print_json({{"report", path.string()}, {"verified", contents.verified->ok()}});
  } else {
    console.print(path.string() + '\n');
  }
  if (contents.verified->ok()) return cli::ExitCode::ok;
  console.error(contents.verified->failures.front());
  return cli::ExitCode::failed;
}

template <typename Value>
void replace_if(std::optional<Value>& value, const std::optional<Value>& given) {
  if (given) value = given;
}

/// Settings of the experiment, overridden by those of the command line.
experiment::ComparisonOptions options_of(const ReportArguments& arguments, experiment::ComparisonOptions options) {
  if (!arguments.baseline.empty()) options.baseline = arguments.baseline;
  replace_if(options.loss, arguments.loss);
  replace_if(options.loss_margin_pct, arguments.loss_margin_pct);
  replace_if(options.price_per_kwh, arguments.prices.usd_per_kwh);
  replace_if(options.co2_g_per_kwh, arguments.prices.co2_g_per_kwh);
  if (arguments.paired) options.pairing = experiment::Pairing::by_order;
  return options;
}

cli::ExitCode report_runs(const ReportArguments& arguments, const std::string& command, cli::Console& console) {
  if (!arguments.html.empty()) check_writable(arguments.html);
  ArmInput input = load_arms(arguments.runs, arguments.arms, arguments.tokens_per_iteration);
  const experiment::ComparisonOptions options = options_of(arguments, input.options);
  const experiment::ArmComparison comparison = compare_arms(std::move(input.arms), options);
  for (const std::string& warning : comparison.warnings) console.warn(warning);
  if (!arguments.html.empty()) {
    cli::write_named_file(arguments.html, render_html_page(arms_page(comparison, command)), console);
  }
  if (arguments.json) {
    console.print_json(arms_json(comparison));
  } else {
    console.print(arms_text(comparison));
  }
  return cli::ExitCode::ok;
}

std::vector<usage::UsageRow> usage_of(const ReportArguments& arguments, const usage::Month& month,
                                      cli::Console& console) {
  if (arguments.usage_file.empty() == arguments.server.address.empty()) {
    throw InputError("--month: name a server with --server, or a file that it has exported with --usage");
  }
  if (!arguments.server.address.empty()) {
    warn_of_token(arguments.server.token_file, console);
    return ask_usage({.address = client::absolute_server_addresses(arguments.server.address),
                      .token_file = arguments.server.token_file},
                     month);
  }
  return usage::read_usage(read_file(arguments.usage_file, kMaxUsageBytes), arguments.usage_file);
}

/// What jobs of a server have used in a month.
cli::ExitCode report_month(const ReportArguments& arguments, const std::string& command, cli::Console& console) {
  if (!arguments.runs.empty() || !arguments.arms.empty()) {
    throw InputError("--month reports on the jobs of a server: it goes with no runs");
  }
  if (!arguments.html.empty()) check_writable(arguments.html);
  const usage::Month month = usage::parse_month(arguments.month);
  const PricedAccount priced{
      .account = account_of(usage_of(arguments, month, console), month),
      .factors = {.usd_per_kwh = arguments.prices.usd_per_kwh, .co2_g_per_kwh = arguments.prices.co2_g_per_kwh}};
  if (!arguments.html.empty()) {
    cli::write_named_file(arguments.html, render_html_page(account_page(priced, command)), console);
  }
  if (arguments.json) {
    console.print_json(account_json(priced));
  } else {
    console.print(account_text(priced));
  }
  return cli::ExitCode::ok;
}

cli::ExitCode run_report(const ReportArguments& arguments, const std::string& command, cli::Console& console) {
  if (!arguments.month.empty()) return report_month(arguments, command, console);
  if (!arguments.server.address.empty() || !arguments.usage_file.empty()) {
    throw InputError("--server and --usage go with --month");
  }
  if (arguments.runs.empty() && arguments.arms.empty()) {
    throw InputError("there is nothing to report; name runs, or a folder that lowgear plan has written");
  }
  const bool one_path = arguments.runs.size() == 1 && arguments.arms.empty();
  const std::filesystem::path first = one_path ? arguments.runs.front() : "";
  if (one_path && kind_of_run(first) == RunPath::none && file_exists(first / cli::output_file::kRun)) {
    return report_plan(first, arguments.json, console);
  }
  return report_runs(arguments, command, console);
}

}  // namespace

cli::VerbAction declare_report(CLI::App& app) {
  auto arguments = std::make_shared<ReportArguments>();
  app.add_option("runs", arguments->runs,
                 "Runs to compare: metrics files of lowgear train, folders with metrics.jsonl, recordings, or the "
                 "folder of an experiment that trained. Or one folder that lowgear plan has written, whose report.html "
                 "is written again")
      ->type_name("RUN");
  app.add_option("--arm", arguments->arms, "Runs with the same settings, and a name for them; may be repeated")
      ->type_name("NAME=RUN,RUN");
  app.add_option("--baseline", arguments->baseline, "Arm that the others are compared with (default: the first)")
      ->type_name("NAME");
  app.add_flag("--paired", arguments->paired,
               "Compare the first run of an arm with the first of the baseline, and so on: they share seed and "
               "conditions. Runs of an experiment are always paired");
  cli::add_number(app, "--loss", kLossRange, cli::into(arguments->loss),
                  "Also compare energy and time to this loss, in nats")
      ->type_name("LOSS");
  cli::add_quantity(app, "--loss-margin", Unit::percent, kMarginRange, cli::into(arguments->loss_margin_pct),
                    "Loss that is accepted above the baseline's, in per cent; to be fixed before the runs");
  cli::add_energy_price_options(app, arguments->prices);
  cli::add_number(app, "--tokens-per-iteration", kTokensRange, cli::into(arguments->tokens_per_iteration),
                  "Tokens of an iteration of all replicas, for recordings, which do not state them")
      ->type_name("N");
  app.add_option("--month", arguments->month,
                 "Report instead what the jobs of a server used in this month (UTC), by user and job, and what they "
                 "saved against measured baselines")
      ->type_name("YYYY-MM");
  app.add_option("--server", arguments->server.address, "For --month: http://HOST:PORT or unix:PATH of the server")
      ->type_name("ADDRESS");
  app.add_option("--token-file", arguments->server.token_file,
                 "File with a token of that server (default: LOWGEAR_SERVER_TOKEN_FILE)")
      ->type_name("FILE");
  app.add_option("--usage", arguments->usage_file, "For --month: usage.csv of a server, instead of the server")
      ->type_name("FILE");
  app.add_option("--html", arguments->html, "Also write the comparison, or the month, as a page to this file")
      ->type_name("FILE");
  cli::add_json_flag(app, arguments->json);
  return [arguments, &app](cli::Console& console) { return run_report(*arguments, cli::command_line(app), console); };
}

}  // namespace lowgear::operations
