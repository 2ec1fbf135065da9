#include "training/tokenizer/sentencepiece_tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include "base/core/error.h"

namespace lowgear::tokenizer {

SentencePieceTokenizer::SentencePieceTokenizer(std::string_view model, const std::string& source)
    : source_(source), processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  const auto status = processor_->LoadFromSerializedProto(model);
  if (!status.ok()) {
    throw_input_error({source, 0, 0}, fmt::format("no model of SentencePiece: {}", printable(status.ToString())),
                      "give a tokenizer.model, or a tokenizer.json under its name");
  }
}

SentencePieceTokenizer::~SentencePieceTokenizer() = default;

std::int64_t SentencePieceTokenizer::vocabulary_size() const { return processor_->GetPieceSize(); }

void SentencePieceTokenizer::encode(std::string_view text, const BlockSink& sink) const {
  if (text.size() > kMaxSentencePieceBytes) {
    throw InputError(fmt::format("SentencePiece takes texts of up to {} bytes, not {}; split the text",
                                 kMaxSentencePieceBytes, text.size()));
  }
  std::vector<int> ids;
  const auto status = processor_->Encode(text, &ids);
  if (!status.ok()) throw Error(fmt::format("{}: {}", printable(source_), printable(status.ToString())));
  sink(std::vector<std::int64_t>(ids.begin(), ids.end()), text.size());
}

std::string SentencePieceTokenizer::decode(std::span<const std::int64_t> tokens) const {
  std::vector<int> ids;
  ids.reserve(tokens.size());
  for (const std::int64_t token : tokens) {
    if (token < 0 || token >= vocabulary_size()) {
      throw InputError(fmt::format("token {} is not in the vocabulary of {} of {}", token, vocabulary_size(), source_));
    }
    ids.push_back(static_cast<int>(token));
  }
  std::string text;
  const auto status = processor_->Decode(ids, &text);
  if (!status.ok()) throw Error(fmt::format("{}: {}", printable(source_), printable(status.ToString())));
  return text;
}

}  // namespace lowgear::tokenizer
