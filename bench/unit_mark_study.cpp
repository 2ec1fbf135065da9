/// What marking a unit costs the training thread: lowgear_unit_begin and lowgear_unit_end through the C interface, with
/// a lease (a reader polls the ring), a recording, and a simulated GPU that is sampled concurrently.
#include <fmt/format.h>
#include <stdlib.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/core/error.h"
#include "base/core/monotonic_clock.h"
#include "client/lowgear.h"
#include "client/test_agent.h"
#include "measurement.h"

namespace lowgear::bench {
namespace {

constexpr int kPairs = 1'000'000;
constexpr double kReachMedianNs = 150;
constexpr double kReachP99Ns = 1000;

/// Time of every pair of calls, with the time of the clock itself taken off.
std::vector<double> pair_times_ns(lowgear_client* client) {
  std::vector<double> clock_ns;
  for (int i = 0; i < 10'000; ++i) {
    const std::int64_t begin_ns = monotonic_ns();
    clock_ns.push_back(static_cast<double>(monotonic_ns() - begin_ns));
  }
  const double clock_cost_ns = quantile(clock_ns, 0.5);
  std::vector<double> times_ns(kPairs);
  for (int i = 0; i < kPairs; ++i) {
    const std::int64_t begin_ns = monotonic_ns();
    lowgear_unit_begin(client, LOWGEAR_FORWARD, 0, static_cast<std::uint32_t>(i));
    lowgear_unit_end(client, LOWGEAR_FORWARD, 0, static_cast<std::uint32_t>(i));
    times_ns[static_cast<std::size_t>(i)] = static_cast<double>(monotonic_ns() - begin_ns) - clock_cost_ns;
    // As often as a fast pipeline would at most; without a pause the recording could not keep up.
    if (i % 1000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return times_ns;
}

void run() {
  std::string folder = (std::filesystem::temp_directory_path() / "lg-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw Error("no folder for the study");
  setenv("LOWGEAR_SIMGPU", (folder + "/machine").c_str(), 1);
  setenv("LOWGEAR_NVML", LOWGEAR_NVML_LIBRARY, 1);
  client::TestAgent agent(folder + "/lease.sock");
  lowgear_options options = LOWGEAR_OPTIONS_INIT;
  const std::string socket = folder + "/lease.sock";
  const std::string recording = folder + "/recording";
  options.agent_socket = socket.c_str();
  options.recording = recording.c_str();
  lowgear_client* client = nullptr;
  if (lowgear_open(&options, &client) != LOWGEAR_OK) throw Error(lowgear_last_error());
  lowgear_status status{};
  status.struct_size = sizeof status;
  lowgear_get_status(client, &status);
  if (status.has_lease == 0) throw Error(status.problem);
  const std::vector<double> times_ns = pair_times_ns(client);
  lowgear_get_status(client, &status);
  lowgear_close(client);
  std::filesystem::remove_all(folder);
  const double median_ns = quantile(times_ns, 0.5);
  const double p99_ns = quantile(times_ns, 0.99);
  fmt::print(
      "| pairs | not recorded | events that the agent read | median | p99 | p99.99 |\n|---|---|---|---|---|---|\n");
  fmt::print("| {} | {} | {} | {:.1f} ns | {:.0f} ns | {:.0f} ns |\n", kPairs, status.lost, agent.events(), median_ns,
             p99_ns, quantile(times_ns, 0.9999));
  print_target("unit begin and end on the training thread, agent attached",
               fmt::format("median {:.0f} ns, p99 {:.0f} ns", median_ns, p99_ns),
               fmt::format("≤ {:.0f} ns, ≤ {:.0f} ns", kReachMedianNs, kReachP99Ns),
               median_ns <= kReachMedianNs && p99_ns <= kReachP99Ns);
}

}  // namespace
}  // namespace lowgear::bench

int main() { return lowgear::bench::run_study(lowgear::bench::run); }
