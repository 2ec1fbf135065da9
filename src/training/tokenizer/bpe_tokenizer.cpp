#include "training/tokenizer/bpe_tokenizer.h"

#include <fmt/format.h>

#include <utility>

#include "base/core/error.h"

namespace lowgear::tokenizer {
namespace {

constexpr std::size_t kBlockTokens = std::size_t{1} << 16;
/// Words whose tokens an encoding remembers, and how long they may be: most of a text is few words.
constexpr std::size_t kMaxRememberedWords = std::size_t{1} << 16;
constexpr std::size_t kMaxRememberedBytes = 64;
/// Bytes of a word that a message shows.
constexpr std::size_t kShownBytes = 24;

/// The words that are tokens.
std::unordered_map<std::string_view, std::int32_t> whole_words(const std::vector<std::string>& tokens,
                                                               const std::vector<std::int32_t>& words) {
  std::unordered_map<std::string_view, std::int32_t> ids;
  ids.reserve(words.size());
  for (const std::int32_t id : words) ids.emplace(tokens[static_cast<std::size_t>(id)], id);
  return ids;
}

}  // namespace

BpeTokenizer::BpeTokenizer(std::string_view json, const std::string& source)
    : BpeTokenizer(read_tokenizer_json(json, source)) {}

BpeTokenizer::BpeTokenizer(BpeTokenizerParts parts)
    : tokens_(std::move(parts.tokens)),
      added_first_(std::move(parts.added_first)),
      added_then_(std::move(parts.added_then)),
      splitter_(parts.pattern),
      model_(parts.byte_tokens, parts.merges) {
  if (parts.ignore_merges) whole_words_ = whole_words(tokens_, parts.words);
}

/// The work on one text.
class BpeTokenizer::Encoding {
 public:
  Encoding(const BpeTokenizer& tokenizer, const BlockSink& sink) : tokenizer_(tokenizer), sink_(sink) {}

  void add_text(std::string_view text) {
    split_at(tokenizer_.added_first_, text, [this](std::string_view rest) {
      split_at(tokenizer_.added_then_, rest, [this](std::string_view plain) {
        tokenizer_.splitter_.split(plain, [this](std::string_view word) { add_word(word); });
      });
    });
    if (bytes_ > 0) flush();
  }

 private:
  /// Hands what stands between added tokens to `between`.
  template <typename Between>
  void split_at(const AddedTokens& added, std::string_view text, Between between) {
    while (const auto match = added.find(text)) {
      between(text.substr(0, match->begin));
      const std::size_t size = match->token->content.size();
      tokens_.push_back(match->token->id);
      finish(size);
      text.remove_prefix(match->begin + size);
    }
    between(text);
  }

  void add_word(std::string_view word) {
    if (word.size() > kMaxWordBytes) {
      throw InputError(fmt::format("a word of {} bytes, {}: more than {}; is this text?", word.size(),
                                   quote(word.substr(0, kShownBytes)), kMaxWordBytes));
    }
    const auto known = remembered_.find(word);
    if (known != remembered_.end()) {
      tokens_.insert(tokens_.end(), known->second.begin(), known->second.end());
    } else {
      add_new_word(word);
    }
    finish(word.size());
  }

  void add_new_word(std::string_view word) {
    const std::size_t before = tokens_.size();
    const auto whole = tokenizer_.whole_words_.find(word);
    if (whole != tokenizer_.whole_words_.end()) {
      tokens_.push_back(whole->second);
    } else {
      tokenizer_.model_.encode(word, tokens_);
    }
    if (word.size() <= kMaxRememberedBytes && remembered_.size() < kMaxRememberedWords) {
      const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(before);
      remembered_.emplace(word, std::vector<std::int64_t>(first, tokens_.end()));
    }
  }

  /// The tokens of further bytes are there.
  void finish(std::size_t bytes) {
    bytes_ += bytes;
    if (tokens_.size() >= kBlockTokens) flush();
  }

  void flush() {
    sink_(tokens_, bytes_);
    tokens_.clear();
    bytes_ = 0;
  }

  const BpeTokenizer& tokenizer_;
  const BlockSink& sink_;
  std::unordered_map<std::string_view, std::vector<std::int64_t>> remembered_;  ///< views into the text
  std::vector<std::int64_t> tokens_;
  std::size_t bytes_ = 0;
};

void BpeTokenizer::encode(std::string_view text, const BlockSink& sink) const { Encoding(*this, sink).add_text(text); }

std::string BpeTokenizer::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  for (const std::int64_t token : tokens) {
    if (token < 0 || token >= vocabulary_size() || tokens_[static_cast<std::size_t>(token)].empty()) {
      throw InputError(fmt::format("{} is not a token of this vocabulary of {}", token, vocabulary_size()));
    }
    text += tokens_[static_cast<std::size_t>(token)];
  }
  return text;
}

}  // namespace lowgear::tokenizer
