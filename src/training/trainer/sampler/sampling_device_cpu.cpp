#include <torch/csrc/api/include/torch/version.h>

#include <algorithm>

#include "base/core/error.h"
#include "base/core/monotonic_clock.h"
#include "training/trainer/sampler/sampling_device.h"

// Of a build with a libtorch that has no CUDA.

namespace lowgear::trainer {
namespace {

class Cpu final : public SamplingDevice {
 public:
  [[nodiscard]] std::string name() const override { return "CPU"; }

  [[nodiscard]] std::vector<double> time_s(const TimedWork& work, int repeats) override {
    std::vector<double> times;
    for (int i = 0; i < repeats; ++i) {
      work.before_each();
      const double begin_s = monotonic_s();
      work.run();
      times.push_back(monotonic_s() - begin_s);
      if (i == 0 && work.meanwhile) work.meanwhile();
    }
    return times;
  }

  void flush_cache() override { std::ranges::fill(cache_, ++written_); }
  void synchronize() override {}

 private:
  static constexpr std::size_t kCacheBytes = std::size_t{64} << 20;
  std::vector<char> cache_ = std::vector<char>(kCacheBytes);
  char written_ = 0;
};

}  // namespace

std::unique_ptr<SamplingDevice> open_sampling_device(bool gpu, int /*local_rank*/) {
  if (gpu) {
    throw InputError(
        "--device: cuda needs a build with a libtorch that has CUDA (docs/estimating.md); give --device cpu to sample "
        "this machine's CPU");
  }
  return std::make_unique<Cpu>();
}

std::string torch_version() { return TORCH_VERSION; }

}  // namespace lowgear::trainer
