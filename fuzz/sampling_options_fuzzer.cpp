/// Options of the sampler, one a line: what is accepted is within its bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "estimating/sampling/sampling_options.h"

namespace {

using namespace lowgear;

void check(const std::vector<std::string>& words) {
  const sampling::SamplingOptions options = sampling::parse_sampling_options(words);
  require_valid(options.grid);
  const bool in_part = options.part.index >= 1 && options.part.index <= options.part.count;
  const bool in_order = options.sizes.smallest >= 1 && options.sizes.smallest <= options.sizes.largest;
  if (!in_part || !in_order || options.folder.empty() || options.operators.empty()) std::abort();
  for (const sampling::SampledCollective collective : options.collectives) {
    constexpr int kRanks = 3;
    for (const sampling::PlannedMessage& message :
         plan_messages(collective, options.type, kRanks, options.sizes, options.energy_points)) {
      if (message.elements < 1) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream text(std::string(reinterpret_cast<const char*>(data), size));
  std::vector<std::string> words;
  for (std::string word; std::getline(text, word);) words.push_back(word);
  try {
    check(words);
  } catch (const InputError&) {
  }
  return 0;
}
