#include "training/launcher/training_text.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/core/error.h"
#include "training/dataset/synthetic_corpus.h"

namespace lowgear::launcher {
namespace {

/// Synthetic text in the form of a token file without a header.
std::string synthetic_token_bytes(std::int64_t tokens, std::uint64_t seed) {
  dataset::SyntheticCorpus corpus(seed);
  const auto size = static_cast<std::size_t>(2 * tokens);
  std::string bytes;
  while (bytes.size() < size) {
    for (const char c : corpus.next_sentence()) {
      bytes += c;
      bytes += '\0';
    }
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace

TrainingText::TrainingText(const TrainConfig& config) {
  const dataset::BatchSamplerOptions options{
      .sequence_length = config.sequence_length * (has_encoder_and_decoder(config.model) ? 2 : 1),
      .global_batch = config.microbatches * config.microbatch_size * config.parallel.dp,
      .seed = config.seed};
  if (!config.tokens.empty()) {
    files_ = dataset::TokenFiles::open(config.tokens, config.model.vocabulary, config.token_type);
    sampler_.emplace(files_->text(), options);
    return;
  }
  if (config.model.vocabulary < dataset::kByteVocabulary) {
    throw InputError("model.vocabulary: synthetic text has 256 tokens, one for every byte; set it to 256 or more");
  }
  made_up_ = synthetic_token_bytes(config.synthetic_tokens, config.seed);
  sampler_.emplace(dataset::TokenView(made_up_, "synthetic text", config.model.vocabulary, dataset::TokenType::uint16),
                   options);
}

TrainConfig held_out_config(const TrainConfig& config, std::vector<std::filesystem::path> files) {
  TrainConfig held_out = config;
  held_out.tokens = std::move(files);
  held_out.synthetic_tokens = 0;
  return held_out;
}

TrainConfig held_out_quarter_config(const TrainConfig& config, std::vector<std::filesystem::path> files) {
  TrainConfig held_out = held_out_config(config, std::move(files));
  const auto quotient = [](std::int64_t count, std::int64_t divisor) { return (count + divisor - 1) / divisor; };
  held_out.microbatches = static_cast<int>(quotient(config.microbatches, 4));
  held_out.microbatch_size =
      quotient(config.microbatches * config.microbatch_size, std::int64_t{4} * held_out.microbatches);
  return held_out;
}

}  // namespace lowgear::launcher
