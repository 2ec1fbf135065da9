#include "training/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

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

}  // namespace lowgear::tokenizer
