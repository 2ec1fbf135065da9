// In the place of sentencepiece_tokenizer.cpp, for a program that brings its libraries along: Debian has no static
// SentencePiece, and its shared one needs a newer C library than such a program.
#include "base/core/error.h"
#include "training/tokenizer/sentencepiece_tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor {};
}  // namespace sentencepiece

namespace lowgear {

SentencePieceTokenizer::SentencePieceTokenizer(std::string_view, const std::string& source) {
  throw_input_error({source, 0, 0}, "this lowgear is built without SentencePiece",
                    "give the tokenizer.json of the same model, or use lowgear of the Debian package");
}

SentencePieceTokenizer::~SentencePieceTokenizer() = default;
std::int64_t SentencePieceTokenizer::vocabulary_size() const { return 0; }
void SentencePieceTokenizer::encode(std::string_view, const BlockSink&) const {}
std::string SentencePieceTokenizer::decode(std::span<const std::int64_t>) const { return {}; }

}  // namespace lowgear
