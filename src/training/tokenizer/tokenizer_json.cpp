#include "training/tokenizer/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/probability.h"
#include "training/tokenizer/bpe_model.h"

namespace lowgear::tokenizer {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) {
  std::ranges::stable_sort(tokens, std::ranges::greater{},
                           [](const AddedToken& token) { return token.content.size(); });
  for (AddedToken& token : tokens) {
    by_first_byte_[static_cast<unsigned char>(token.content.front())].push_back(std::move(token));
  }
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text) const {
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    for (const AddedToken& token : by_first_byte_[static_cast<unsigned char>(text[begin])]) {
      if (text.substr(begin).starts_with(token.content)) return Match{begin, &token};
    }
  }
  return std::nullopt;
}

namespace {

/// Enough for a vocabulary of kMaxVocabularySize and a pair for each merge.
constexpr std::size_t kMaxValues = std::size_t{1} << 24;
constexpr std::string_view kByteLevelFix = "give the tokenizer.json of a byte-level BPE, as GPT-2 and Llama 3 have it";

void refuse_unknown_members(const JsonView& object, std::initializer_list<std::string_view> known) {
  if (!object.json().is_object()) object.fail("expected an object");
  for (const auto& member : object.json().items()) {
    if (std::ranges::find(known, member.key()) != known.end()) continue;
    object.at(member.key()).fail(fmt::format("{} is not known, and might change tokens", quote(member.key())));
  }
}

/// Whether a member stands there and says something.
bool given(const JsonView& object, std::string_view key) { return object.has(key) && !object.at(key).json().is_null(); }

bool flag(const JsonView& object, std::string_view key, bool otherwise) {
  return given(object, key) ? object.at(key).boolean() : otherwise;
}

void refuse_flag(const JsonView& object, std::string_view key) {
  if (flag(object, key, false)) object.at(key).fail("true is not supported");
}

void refuse_text(const JsonView& object, std::string_view key) {
  if (given(object, key) && !object.at(key).text().empty()) object.at(key).fail("is not supported");
}

void require_type(const JsonView& object, std::string_view expected) {
  const JsonView type = object.at("type");
  if (type.text() != expected) {
    type.fail(fmt::format("{} is not supported, only {}", quote(type.text()), expected), kByteLevelFix);
  }
}

/// The vocabulary as it is written, with the ids of its tokens.
using Vocabulary = std::unordered_map<std::string_view, std::int32_t>;

class Reader {
 public:
  Reader(const Json& document, const std::string& source) : root_(document, source) {}

  BpeTokenizerParts read() {
    refuse_unknown_members(root_, {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                                   "post_processor", "decoder", "model"});
    for (const std::string_view key : {"truncation", "padding", "normalizer"}) {
      if (given(root_, key)) root_.at(key).fail("is not supported", "set it to null");
    }
    const std::size_t added = given(root_, "added_tokens") ? root_.at("added_tokens").size() : 0;
    const std::size_t tokens = root_.at("model").at("vocab").json().size() + added;
    id_limit_ = std::min(kMaxVocabularySize, static_cast<std::int64_t>(tokens) + kMaxUnusedIds);
    read_model(root_.at("model"));
    read_pre_tokenizer(root_.at("pre_tokenizer"));
    if (given(root_, "post_processor")) check_post_processor(root_.at("post_processor"));
    if (given(root_, "decoder")) check_byte_level(root_.at("decoder"));
    if (added > 0) read_added_tokens(root_.at("added_tokens"));
    return std::move(parts_);
  }

 private:
  // Model.

  void read_model(const JsonView& model) {
    refuse_unknown_members(model, {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                                   "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
    if (model.has("type")) require_type(model, "BPE");
    if (given(model, "dropout") && model.at("dropout").number() != 0) model.at("dropout").fail("is not supported");
    // unk_token and fuse_unk are about characters without a token, of which a byte-level vocabulary has none.
    refuse_text(model, "continuing_subword_prefix");
    refuse_text(model, "end_of_word_suffix");
    refuse_flag(model, "byte_fallback");
    parts_.ignore_merges = flag(model, "ignore_merges", false);
    read_vocabulary(model.at("vocab"));
    read_merges(model.at("merges"));
  }

  void read_vocabulary(const JsonView& vocab) {
    const Json& json = vocab.json();
    if (!json.is_object()) vocab.fail("expected an object of tokens and their ids");
    vocabulary_.reserve(json.size());
    for (const auto& member : json.get_ref<const Json::object_t&>()) read_token(vocab, member.first, member.second);
    for (std::size_t byte = 0; byte < parts_.byte_tokens.size(); ++byte) {
      const std::string token = alphabet_from_bytes({std::string(1, static_cast<char>(byte))});
      const auto found = vocabulary_.find(token);
      if (found == vocabulary_.end()) {
        vocab.fail(fmt::format("no token {} for the byte {}", quote(token), byte), kByteLevelFix);
      }
      parts_.byte_tokens[byte] = found->second;
    }
  }

  void read_token(const JsonView& vocab, const std::string& token, const Json& value) {
    const auto where = [&] { return vocab.at(token); };
    if (token.empty()) where().fail("an empty token");
    if (!value.is_number_integer()) where().fail("expected the id of a token");
    const std::int32_t id = checked_id(value.get<std::int64_t>(), where);
    vocabulary_.emplace(token, id);
    std::optional<std::string> bytes = bytes_from_alphabet(token);
    if (bytes) parts_.words.push_back(id);
    // One that is not of the alphabet can only be an added token, which stands for its own text.
    put_token(id, std::move(bytes).value_or(token), where);
  }

  /// `where` leads to the place, for a message: looking it up takes time.
  template <typename Where>
  [[nodiscard]] std::int32_t checked_id(std::int64_t id, Where where) const {
    if (id < 0 || id >= id_limit_) where().fail(fmt::format("the id {} is not in 0 to {}", id, id_limit_ - 1));
    return static_cast<std::int32_t>(id);
  }

  template <typename Where>
  void put_token(std::int32_t id, std::string bytes, Where where) {
    const auto place = static_cast<std::size_t>(id);
    if (place >= parts_.tokens.size()) parts_.tokens.resize(place + 1);
    if (!parts_.tokens[place].empty()) where().fail(fmt::format("another token has the id {}", id));
    parts_.tokens[place] = std::move(bytes);
  }

  void read_merges(const JsonView& merges) {
    const std::size_t count = merges.size();
    std::unordered_set<std::uint64_t> known;
    known.reserve(count);
    parts_.merges.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const BpeMerge merge = read_merge(merges, i);
      const auto pair =
          std::uint64_t{static_cast<std::uint32_t>(merge.left)} << 32U | static_cast<std::uint32_t>(merge.right);
      if (!known.insert(random_bits(pair)).second) merges.at(i).fail("occurs twice in the list", "keep the first");
      parts_.merges.push_back(merge);
    }
  }

  BpeMerge read_merge(const JsonView& merges, std::size_t index) const {
    const Json& json = merges.json()[index];
    std::string_view left;
    std::string_view right;
    if (json.is_string()) {
      const std::string_view text = json.get_ref<const std::string&>();
      const std::size_t blank = text.find(' ');
      if (blank == std::string_view::npos || text.find(' ', blank + 1) != std::string_view::npos) {
        merges.at(index).fail("expected two tokens with one blank between them");
      }
      left = text.substr(0, blank);
      right = text.substr(blank + 1);
    } else if (json.is_array() && json.size() == 2 && json[0].is_string() && json[1].is_string()) {
      left = json[0].get_ref<const std::string&>();
      right = json[1].get_ref<const std::string&>();
    } else {
      merges.at(index).fail(R"(expected two tokens: "a b" or ["a", "b"])");
    }
    const auto id = [&](std::string_view token) {
      const auto found = vocabulary_.find(token);
      if (found == vocabulary_.end()) {
        merges.at(index).fail(fmt::format("the token {} is not in the vocabulary", quote(token)));
      }
      return found->second;
    };
    return {id(left), id(right), id(std::string(left).append(right))};
  }

  // Pre-tokenizer, post-processor, decoder.

  static void check_byte_level(const JsonView& step) {
    require_type(step, "ByteLevel");
    // trim_offsets is about places in the text, which are not kept.
    refuse_unknown_members(step, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  }

  void read_pre_tokenizer(const JsonView& step) {
    if (!step.json().is_object()) step.fail("a text that is not split is not supported", kByteLevelFix);
    if (step.at("type").text() != "Sequence") {
      check_byte_level(step);
      // Left out, these two are true (Hugging Face).
      if (flag(step, "add_prefix_space", true)) step.fail("add_prefix_space is not supported", "set it to false");
      if (!flag(step, "use_regex", true)) step.fail("a text that is not split is not supported", kByteLevelFix);
      return;
    }
    refuse_unknown_members(step, {"type", "pretokenizers"});
    const JsonView steps = step.at("pretokenizers");
    if (steps.size() != 2) steps.fail("expected two steps, Split and ByteLevel", kByteLevelFix);
    read_split(steps.at(0));
    const JsonView last = steps.at(1);
    check_byte_level(last);
    if (flag(last, "add_prefix_space", true)) last.fail("add_prefix_space is not supported", "set it to false");
    if (flag(last, "use_regex", true)) last.fail("use_regex after a Split is not supported", "set it to false");
  }

  void read_split(const JsonView& split) {
    require_type(split, "Split");
    refuse_unknown_members(split, {"type", "pattern", "behavior", "invert"});
    const JsonView behavior = split.at("behavior");
    if (behavior.text() != "Isolated") behavior.fail(fmt::format("{} is not supported", quote(behavior.text())));
    refuse_flag(split, "invert");
    const JsonView pattern = split.at("pattern");
    refuse_unknown_members(pattern, {"Regex"});
    const JsonView regex = pattern.at("Regex");
    const SplitPattern* const known = find_split_pattern(regex.text());
    if (known == nullptr) {
      regex.fail(fmt::format("the pattern {} is not supported", quote(regex.text())),
                 "those of GPT-2 and of Llama 3 are");
    }
    parts_.pattern = *known;
  }

  /// It puts special tokens around a text, which `encode` leaves out; others might change the text's own.
  static void check_post_processor(const JsonView& step) {
    const std::string type = step.at("type").text();
    if (type == "Sequence") {
      refuse_unknown_members(step, {"type", "processors"});
      const JsonView steps = step.at("processors");
      for (std::size_t i = 0; i < steps.size(); ++i) check_post_processor(steps.at(i));
    } else if (type == "ByteLevel") {
      check_byte_level(step);
    } else if (type != "TemplateProcessing") {
      step.at("type").fail(fmt::format("{} is not supported", quote(type)), kByteLevelFix);
    }
  }

  // Added tokens.

  void read_added_tokens(const JsonView& tokens) {
    std::unordered_set<std::string> known;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const JsonView token = tokens.at(i);
      refuse_unknown_members(token, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      for (const std::string_view key : {"single_word", "lstrip", "rstrip"}) refuse_flag(token, key);
      AddedToken added{token.at("content").text(),
                       checked_id(token.at("id").integer(), [&] { return token.at("id"); })};
      if (added.content.empty()) token.at("content").fail("an empty token");
      if (!known.insert(added.content).second) token.at("content").fail("occurs twice in the list", "keep the first");
      put_added_token(token, added);
      const bool special = flag(token, "special", false);
      (flag(token, "normalized", !special) ? parts_.added_then : parts_.added_first).push_back(std::move(added));
    }
  }

  /// Its id is that of the vocabulary when it stands there too.
  void put_added_token(const JsonView& token, const AddedToken& added) {
    const auto found = vocabulary_.find(added.content);
    if (found == vocabulary_.end()) {
      put_token(added.id, added.content, [&] { return token.at("id"); });
    } else if (found->second != added.id) {
      token.at("id").fail(fmt::format("the id {}, but the vocabulary gives {} the id {}", added.id,
                                      quote(added.content), found->second));
    } else if (parts_.tokens[static_cast<std::size_t>(added.id)] != added.content) {
      token.at("content").fail("the vocabulary has the same token for other bytes", "give one of the two another text");
    }
  }

  JsonView root_;
  std::int64_t id_limit_ = 0;
  Vocabulary vocabulary_;
  BpeTokenizerParts parts_;
};

}  // namespace

BpeTokenizerParts read_tokenizer_json(std::string_view text, const std::string& source) {
  const Json document = parse_json(text, source, kMaxValues);
  return Reader(document, source).read();
}

}  // namespace lowgear::tokenizer
