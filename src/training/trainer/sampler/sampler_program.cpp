
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "base/core/monotonic_clock.h"
#include "client/rank/rank_environment.h"
#include "estimating/sampling/sampling_options.h"
#include "training/trainer/run/rank_program.h"
#include "training/trainer/sampler/sampling_run.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {
namespace {

/// Lines on standard error, which `lowgear sample` draws as a bar: `progress 12 345 linear1`.
class ProgressLines {
 public:
  void update(std::string_view what, std::size_t done, std::size_t planned) {
    const double now_s = monotonic_s();
    if (now_s < next_s_ && done < planned) return;
    constexpr double kBetweenS = 0.5;
    next_s_ = now_s + kBetweenS;
    fmt::print(stderr, "progress {} {} {}\n", done, planned, what);
  }

 private:
  double next_s_ = 0;
};

/// Nothing where the GPU does not show itself: times alone are worth having.
std::unique_ptr<GpuObserver> observe_gpu(const sampling::SamplingOptions& options, const client::RankInfo& rank,
                                         const Environment& environment) {
  if (!options.gpu) return nullptr;
  try {
    return std::make_unique<GpuObserver>(rank.local_rank, environment);
  } catch (const Error& error) {
    fmt::print(stderr, "no energies and clocks: {}\n", error.what());
    return nullptr;
  }
}

void run_sampler(const sampling::SamplingOptions& options) {
  if (options.subject == sampling::SamplingSubject::curve) {
    throw InputError("a curve is sampled by `lowgear sample curve`, which needs no libtorch");
  }
  const Environment environment = process_environment();
  const client::RankInfo rank = client::job_rank_from_environment(environment);
  if (options.subject == sampling::SamplingSubject::operators && rank.world_size > 1) {
    throw InputError(
        "operators are sampled by one process, not by ranks: start it by itself, on each machine its --part");
  }
  const double begin_s = monotonic_s();
  const std::unique_ptr<SamplingDevice> device = open_sampling_device(options.gpu, rank.local_rank);
  const std::unique_ptr<GpuObserver> gpu = observe_gpu(options, rank, environment);
  const SamplingRun run = {.options = options, .rank = rank, .device = *device, .gpu = gpu.get(), .asked_to_end = [&] {
                             const bool late =
                                 options.time_limit_s > 0 && monotonic_s() - begin_s > options.time_limit_s;
                             return asked_to_end() || late;
                           }};
  const SamplingRecord record = {.device = device->name(),
                                 .driver = gpu ? gpu->driver_version() : "",
                                 .torch = torch_version(),
                                 .type = std::string(name(options.type)),
                                 .simulated = gpu && gpu->simulated()};
  if (rank.rank == 0) write_record(options.folder, record);
  ProgressLines progress;
  const SamplingEvents events = {.on_row = [&](std::string_view what, std::size_t done,
                                               std::size_t planned) { progress.update(what, done, planned); },
                                 .on_warning = [](const std::string& warning) { fmt::print(stderr, "{}\n", warning); }};
  end_in_order_when_told();
  const std::vector<SampledFile> files = options.subject == sampling::SamplingSubject::operators
                                             ? sample_operators(run, events)
                                             : sample_collectives(run, rendezvous_from(environment), events);
  if (rank.rank != 0) return;
  fmt::print("{}", options.json ? summary_json(record, files).dump() + "\n" : summary_text(files));
}

}  // namespace

int run_sampler_program(int count, char** words) {
  return run_rank([&] {
    run_sampler(sampling::parse_sampling_options(std::vector<std::string>(words + 1, words + count)));
    return EXIT_SUCCESS;
  });
}

}  // namespace lowgear::trainer
