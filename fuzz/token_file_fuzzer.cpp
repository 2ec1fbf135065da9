/// Reads any bytes as a token file: the first two choose the vocabulary and whether a header is expected, the others
/// are the file. What is accepted is read whole, and sampled from.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "training/dataset/batch_sampler.h"
#include "training/dataset/token_file.h"

namespace {

std::optional<lowgear::dataset::TokenType> headerless(std::uint8_t choice) {
  switch (choice % 4) {
    case 0:
      return lowgear::dataset::TokenType::uint16;
    case 1:
      return lowgear::dataset::TokenType::uint32;
    default:
      return std::nullopt;
  }
}

void sample(const lowgear::dataset::TokenView& tokens, std::int64_t sequence_length) {
  const lowgear::dataset::BatchSampler batches(tokens,
                                               {.sequence_length = sequence_length, .global_batch = 3, .seed = 1});
  std::vector<std::int64_t> samples(static_cast<std::size_t>(3 * batches.sample_tokens()));
  batches.read(1, {.first = 0, .count = 3}, samples);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::int64_t vocabulary = std::int64_t{1} << (data[1] % 34);
  const std::string_view bytes(reinterpret_cast<const char*>(data + 2), size - 2);
  try {
    const lowgear::dataset::TokenView view(bytes, "tokens.bin", vocabulary, headerless(data[0]));
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(view.token_count()));
    view.read(0, tokens);
    for (const std::int64_t token : tokens) {
      if (token < 0 || token >= vocabulary) std::abort();
    }
    sample(view, 1 + data[1] % 7);
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
