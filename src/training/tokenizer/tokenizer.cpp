#include "training/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "training/tokenizer/bpe_tokenizer.h"
#include "training/tokenizer/sentencepiece_tokenizer.h"

namespace lowgear::tokenizer {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 16;
/// The largest tokenizers in use are below 64 MiB.
constexpr std::size_t kMaxTokenizerBytes = std::size_t{1} << 28;

}  // namespace

std::vector<std::int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> tokens;
  encode(text, [&tokens](std::span<const std::int64_t> block, std::size_t) {
    tokens.insert(tokens.end(), block.begin(), block.end());
  });
  return tokens;
}

void ByteTokenizer::encode(std::string_view text, const BlockSink& sink) const {
  std::vector<std::int64_t> tokens;
  while (!text.empty()) {
    const std::string_view block = text.substr(0, kBlockBytes);
    tokens.assign(block.size(), 0);
    std::ranges::transform(block, tokens.begin(), [](char byte) { return static_cast<unsigned char>(byte); });
    sink(tokens, block.size());
    text.remove_prefix(block.size());
  }
}

std::string ByteTokenizer::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (const std::int64_t token : tokens) {
    if (token < 0 || token > 255) throw InputError(fmt::format("token {} is not a byte; give 0 to 255", token));
    text.push_back(static_cast<char>(token));
  }
  return text;
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  const std::string content = read_file(name, kMaxTokenizerBytes);
  if (name.ends_with(".json")) return std::make_unique<BpeTokenizer>(content, name);
  return std::make_unique<SentencePieceTokenizer>(content, name);
}

}  // namespace lowgear::tokenizer
