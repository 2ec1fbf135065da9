/// The jobs that `lowgear pack` packs: a table or a measurement that is accepted can be packed, or is refused in words.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "checks.h"
#include "planning/sharing/packing.h"

namespace {

using namespace lowgear::sharing;

constexpr GpuFacts kGpu{.memory_gib = 80, .idle_w = 70, .awake_w = 115, .limit_w = 700};
constexpr std::size_t kMostJobs = 8;  // packing takes 2^jobs steps

void check(const Packing& packing, const std::vector<JobLoad>& jobs) {
  std::size_t members = 0;
  for (const Group& group : packing.groups) members += group.jobs.size();
  if (members != jobs.size() || packing.gpus_packed > packing.gpus_apart) std::abort();
  if (!(packing.saved_w.low <= packing.saved_w.predicted && packing.saved_w.predicted <= packing.saved_w.high)) {
    std::abort();
  }
}

void pack(std::string_view csv) {
  const auto measurement = [](const std::string& file) { return read_monitored_load(file, "cell"); };
  const JobTable table = read_job_table(csv, "fuzz.csv", measurement);
  if (table.jobs.size() > kMostJobs) return;
  check(pack_jobs(table.jobs, kGpu, {.max_slowdown = 1}), table.jobs);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  ignore_input_error([&] { pack(text); });
  ignore_input_error([&] { (void)read_monitored_load(text, "fuzz.json"); });
  return 0;
}
