#include "training/dataset/synthetic_corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

#include "base/core/error.h"
#include "base/core/probability.h"
#include "training/dataset/token_file.h"

namespace lowgear::dataset {
namespace {

constexpr std::string_view kConsonants = "bdfgklmnprstvz";
constexpr std::string_view kVowels = "aeiou";
constexpr std::size_t kMaxSyllables = 3;
constexpr std::size_t kMinSentenceWords = 4;
constexpr std::size_t kMaxSentenceWords = 12;

/// Which successor each of 15 equally likely draws takes.
constexpr auto kSuccessorOfDraw = std::to_array<std::size_t>({0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3});

}  // namespace

SyntheticCorpus::SyntheticCorpus(std::uint64_t seed) : seed_(random_bits(seed)), successors_(kWords) {
  std::unordered_set<std::string> known;
  while (words_.size() < kWords) {
    std::string word = draw_word();
    if (known.insert(word).second) words_.push_back(std::move(word));
  }
  for (auto& followers : successors_) {
    for (std::size_t& follower : followers) follower = draw(kWords);
  }
}

std::size_t SyntheticCorpus::draw(std::size_t bound) { return random_bits(seed_ + drawn_++) % bound; }

std::string SyntheticCorpus::draw_word() {
  std::string word;
  const std::size_t syllables = 1 + draw(kMaxSyllables);
  for (std::size_t i = 0; i < syllables; ++i) {
    word += kConsonants[draw(kConsonants.size())];
    word += kVowels[draw(kVowels.size())];
  }
  return word;
}

std::string SyntheticCorpus::next_sentence() {
  std::string sentence;
  const std::size_t count = kMinSentenceWords + draw(kMaxSentenceWords - kMinSentenceWords + 1);
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) sentence += ' ';
    sentence += words_[word_];
    word_ = successors_[word_][kSuccessorOfDraw[draw(kSuccessorOfDraw.size())]];
  }
  sentence[0] = static_cast<char>(sentence[0] - 'a' + 'A');
  return sentence += ".\n";
}

std::vector<std::int64_t> byte_ids(std::string_view text) {
  std::vector<std::int64_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

void write_synthetic_corpus(const std::filesystem::path& path, std::int64_t tokens, std::uint64_t seed,
                            Progress* progress) {
  if (tokens < 1 || tokens > kMaxHeaderTokens) {
    throw InputError(fmt::format("cannot write {} tokens; give 1 to {}", tokens, kMaxHeaderTokens));
  }
  SyntheticCorpus corpus(seed);
  TokenFileWriter writer(path, token_type_for(kByteVocabulary));
  while (writer.token_count() < tokens) {
    const std::vector<std::int64_t> sentence = byte_ids(corpus.next_sentence());
    const auto left = static_cast<std::size_t>(tokens - writer.token_count());
    writer.append(std::span(sentence).first(std::min(left, sentence.size())));
    if (progress != nullptr) {
      progress->update("writing tokens", static_cast<double>(writer.token_count()) / static_cast<double>(tokens));
    }
  }
  writer.commit();
}

}  // namespace lowgear::dataset
