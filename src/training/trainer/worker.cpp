#include "training/trainer/worker.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/core/error.h"
#include "base/http/client/client.h"
#include "base/http/tls/tls_credentials.h"
#include "client/client.h"
#include "client/rank/rank_environment.h"
#include "training/launcher/checkpoint_manifest.h"
#include "training/launcher/server/server_job.h"
#include "training/launcher/training_check.h"
#include "training/launcher/training_schedule.h"
#include "training/trainer/engine/backend.h"
#include "training/trainer/run/progress_report.h"
#include "training/trainer/run/rank_program.h"
#include "training/trainer/run/training_run.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {
namespace {

/// A rank that nothing is heard of for so long is taken for dead.
constexpr std::chrono::seconds kTimeout{300};

/// How long training waits at its start for the server's first answer, and for that of one that it must have.
constexpr std::chrono::seconds kServer{3};
constexpr std::chrono::seconds kRequiredServer{10};

struct Arguments {
  std::string config;
  std::vector<std::string> settings;
  ProgressReport::Output output = ProgressReport::Output::lines;
  bool only_checks_device = false;
  bool requires_server = false;
};

constexpr std::string_view kUsage =
    "usage: lowgear-trainer [--json] [--check-device] [--require-server] [--set PATH=VALUE]... CONFIG.yaml";

Arguments parse_arguments(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--set" && i + 1 < count)
      arguments.settings.emplace_back(words[++i]);
    else if (word == "--json")
      arguments.output = ProgressReport::Output::summary_json;
    else if (word == "--check-device")
      arguments.only_checks_device = true;
    else if (word == "--require-server")
      arguments.requires_server = true;
    else if (arguments.config.empty() && !word.starts_with("-"))
      arguments.config = word;
    else
      throw InputError(fmt::format("{} is not understood; {}", quote(word), kUsage));
  }
  if (arguments.config.empty()) throw InputError(std::string(kUsage));
  return arguments;
}

client::ServerOptions server_options(const launcher::TrainConfig& config, const Environment& environment) {
  client::ServerOptions options;
  options.address = config.server->address;
  options.tls = http::tls_files_from_environment(environment, config.server->ca_file.value_or(""));
  options.token_file = http::token_file_from_environment(environment, config.server->token_file.value_or(""));
  options.job_json = server_job_json(config);
  return options;
}

client::Options client_options(const launcher::TrainConfig& config, const client::RankInfo& rank,
                               const Environment& environment) {
  client::Options options;
  options.agent_socket = environment("LOWGEAR_AGENT_SOCKET").value_or("/run/lowgear/lease.sock");
  options.job = environment("LOWGEAR_JOB").value_or(rank.job);
  options.rank = rank;
  const launcher::RankPlace place = launcher::RankLayout(config.parallel).place_of(rank.rank);
  options.place = {.pp_rank = place.pp, .dp_rank = place.dp, .tp_rank = place.tp};
  options.measures_iterations = true;
  if (config.server) options.server = server_options(config, environment);
  if (!config.recording) return options;
  options.recording.folder = *config.recording;
  const bool resumes = config.checkpoint && !launcher::complete_checkpoints(*config.checkpoint).empty();
  options.recording.existing = resumes ? client::RecordingFolder::next_part : client::RecordingFolder::must_be_new;
  if (config.recorded_steps) {
    options.recording.iterations.first = static_cast<std::uint64_t>(config.recorded_steps->first);
    options.recording.iterations.count = static_cast<std::uint64_t>(config.recorded_steps->count);
  }
  return options;
}

std::unique_ptr<SimulatedDevice> simulated_gpu_for(const launcher::TrainConfig& config, client::Client& client,
                                                   const Environment& environment) {
  if (!config.simulated_gpu) return nullptr;
  const client::Status status = client.status();
  if (status.gpu_uuid.empty()) throw InputError("simulated_gpu: " + status.problem);
  return std::make_unique<SimulatedDevice>(environment("LOWGEAR_NVML").value_or("libnvidia-ml.so.1"), status.gpu_uuid);
}

/// Waits until the server has taken this rank, or it is known that it does not: at most until `patience` is over.
/// Without `required` the first trouble is enough to know.
client::Status await_server(client::Client& client, std::chrono::milliseconds patience, bool required) {
  const auto until = std::chrono::steady_clock::now() + patience;
  client::Status status = client.status();
  const auto known = [&] { return status.server_connected || (!required && !status.server_problem.empty()); };
  while (!known() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    status = client.status();
  }
  if (!status.server_connected && status.server_problem.empty()) status.server_problem = "it has not responded yet";
  return status;
}

/// The server as it stands before the first step. Throws Error where it is required and does not take this rank.
client::Status find_server(const launcher::TrainConfig& config, const Arguments& arguments, client::Client& client) {
  if (!config.server) {
    if (arguments.requires_server) throw InputError("--require-server: no server is named; add --server ADDRESS");
    return {};
  }
  client::Status status =
      await_server(client, arguments.requires_server ? kRequiredServer : kServer, arguments.requires_server);
  if (arguments.requires_server && !status.server_connected) {
    throw Error(fmt::format("no server takes this job: {}; mend that, or train without --require-server",
                            status.server_problem));
  }
  return status;
}

/// By one rank for all of them, however they were started.
void warn_of(const launcher::TrainConfig& config) {
  for (const std::string& doubt : profile_doubts_of(config)) fmt::print(stderr, "{}\n", doubt);
  if (!config.export_folder || config.checkpoint) return;
  fmt::print(
      stderr,
      "the export is written when all steps are done; if the training ends before, nothing is saved, as there is "
      "no checkpoint.folder\n");
}

/// What is known before the training begins.
struct Job {
  const launcher::TrainConfig& config;
  const launcher::RankLayout& layout;
  const client::RankInfo& rank;
  const Environment& environment;
};

/// Trains. Returns the exit status.
int train(const Arguments& arguments, const Job& job, client::Client& client) {
  const launcher::TrainConfig& config = job.config;
  const client::RankInfo& rank = job.rank;
  if (config.server && config.adapt.freezing) {
    client.refuse(
        "the technique freezing changes the work and measures what that saves, which plans would change, too");
  }
  if (config.profile) client.name_plans("the clocks of energy.profile");
  auto simulated_gpu = simulated_gpu_for(config, client, job.environment);
  const client::Status server = find_server(config, arguments, client);
  Backend backend =
      connect_backend(config.cuda, job.layout, rank.rank, rank.local_rank, rendezvous_from(job.environment), kTimeout);
  TrainingRun run(config, std::move(backend), client, std::move(simulated_gpu));
  std::optional<ProgressReport> report;
  if (rank.rank == 0) {
    warn_of(config);
    report.emplace(config, arguments.output, run.first_step());
    report->observe_server(server.server_connected, server.server_problem);
  }
  end_in_order_when_told();
  DecisionReports decisions(config, client);
  run.run(asked_to_end, [&](const IterationResult& result) {
    report->add(result);
    decisions.add(result);
  });
  if (report) {
    report->finish();
    if (const std::string followed = client.followed(); !followed.empty()) fmt::print(stderr, "note: {}\n", followed);
    if (const std::string unsent = unsent_decisions(client.status()); !unsent.empty()) {
      fmt::print(stderr, "{}\n", unsent);
    }
  }
  if (report && !run.all_steps_done() && !config.checkpoint) {
    fmt::print(stderr, "nothing was saved: there is no checkpoint.folder\n");
  }
  run.finish();
  return run.all_steps_done() ? EXIT_SUCCESS : ended_early_exit_code();
}

/// The same, with a client that learns why it ends.
int train(const Arguments& arguments) {
  const Environment environment = process_environment();
  const launcher::TrainConfig config = launcher::read_train_config(arguments.config, arguments.settings);
  if (arguments.only_checks_device) {
    require_device(config.cuda);
    return EXIT_SUCCESS;
  }
  const client::RankInfo rank = client::job_rank_from_environment(environment);
  const launcher::RankLayout layout = launcher::training_layout(config.parallel, training_schedule(config));
  if (rank.world_size != layout.world_size()) {
    throw InputError(fmt::format("{}: parallel: pp x dp x tp is {}, and the job has {} ranks", arguments.config,
                                 layout.world_size(), rank.world_size));
  }
  client::Client client(client_options(config, rank, environment), environment);
  try {
    return train(arguments, {config, layout, rank, environment}, client);
  } catch (const std::exception& error) {
    client.set_failure_text(printable(first_line(error), 1000));
    throw;
  }
}

}  // namespace

int run_worker(int count, char** words) {
  return run_rank([&] { return train(parse_arguments(count, words)); });
}

}  // namespace lowgear::trainer
