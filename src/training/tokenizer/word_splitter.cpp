#include "training/tokenizer/word_splitter.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/core/error.h"
#include "base/core/text.h"

namespace lowgear::tokenizer {
namespace {

constexpr std::array<SplitPattern, 2> kPatterns = {SplitPattern::gpt2, SplitPattern::llama3};

/// Bytes of the text that a message shows.
constexpr std::size_t kShownTextBytes = 24;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text = {};
  pcre2_get_error_message(code, text.data(), text.size());
  return {text.begin(), std::ranges::find(text, '\0')};
}

/// The text as PCRE2 takes it.
PCRE2_SPTR pcre2_text(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

/// PCRE2 takes U+180E for white space, as Unicode did before 6.3, and the libraries that these patterns come from do
/// not. The property is what they mean by \s.
std::string with_white_space_property(std::string_view regex) {
  std::string result;
  for (std::size_t i = 0; i < regex.size(); ++i) {
    const std::string_view escape = regex.substr(i, 2);
    if (escape == "\\s" || escape == "\\S") {
      result += escape == "\\s" ? "\\p{White_Space}" : "\\P{White_Space}";
      ++i;
    } else {
      result += regex[i];
    }
  }
  return result;
}

/// Bytes at the beginning that are UTF-8.
std::size_t valid_bytes(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size()) {
    const std::size_t character = utf8_character_size(text.substr(size));
    if (character == 0) break;
    size += character;
  }
  return size;
}

/// Bytes at the beginning that are no UTF-8.
std::size_t invalid_bytes(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size() && utf8_character_size(text.substr(size)) == 0) ++size;
  return size;
}

}  // namespace

std::string_view regex_of(SplitPattern pattern) {
  switch (pattern) {
    case SplitPattern::gpt2:
      return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
    case SplitPattern::llama3:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
             R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
  }
  return {};
}

const SplitPattern* find_split_pattern(std::string_view regex) {
  const auto* const found = std::ranges::find(kPatterns, regex, regex_of);
  return found == kPatterns.end() ? nullptr : found;
}

/// A compiled expression, which any number of threads may match with.
class WordSplitter::Regex {
 public:
  explicit Regex(const std::string& regex) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(pcre2_text(regex), regex.size(), PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
    if (code_ == nullptr) throw Error(fmt::format("PCRE2 does not take {}: {}", regex, pcre2_message(error)));
    // Faster where it is available; matching does without where not.
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);
  }
  ~Regex() { pcre2_code_free(code_); }
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  [[nodiscard]] const pcre2_code* code() const { return code_; }

 private:
  pcre2_code* code_ = nullptr;
};

namespace {

/// Cuts text that is UTF-8 throughout. `matches` is PCRE2's place for a result.
void split_valid(std::string_view text, const pcre2_code* code, pcre2_match_data* matches,
                 const std::function<void(std::string_view)>& word) {
  std::size_t done = 0;
  while (done < text.size()) {
    const int count = pcre2_match(code, pcre2_text(text), text.size(), done, PCRE2_NO_UTF_CHECK, matches, nullptr);
    if (count < 0) {
      // The limit on steps, which only runs of millions of characters of one kind get to.
      throw InputError(fmt::format("the text cannot be split into words from {} on: {}; is this text?",
                                   quote(text.substr(done, kShownTextBytes)), pcre2_message(count)));
    }
    // Every character is matched by one alternative of each pattern, so that a match begins where the last one ended.
    const std::size_t end = pcre2_get_ovector_pointer(matches)[1];
    word(text.substr(done, end - done));
    done = end;
  }
}

}  // namespace

WordSplitter::WordSplitter(SplitPattern pattern)
    : regex_(std::make_shared<const Regex>(with_white_space_property(regex_of(pattern)))) {}

void WordSplitter::split(std::string_view text, const std::function<void(std::string_view)>& word) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> matches(pcre2_match_data_create(1, nullptr),
                                                                                    &pcre2_match_data_free);
  if (!matches) throw std::bad_alloc();
  while (!text.empty()) {
    const std::size_t valid = valid_bytes(text);
    split_valid(text.substr(0, valid), regex_->code(), matches.get(), word);
    text.remove_prefix(valid);
    const std::size_t invalid = invalid_bytes(text);
    if (invalid > 0) word(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
}

}  // namespace lowgear::tokenizer
