/// Reads any bytes as a tokenizer.json; with one that is accepted, texts must come back the same. The vocabulary of 256
/// bytes that every one has to have would drown mutations, so that `@bytes@` stands for it.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "training/tokenizer/bpe_model.h"
#include "training/tokenizer/bpe_tokenizer.h"

namespace {

/// `"Ā": 0, "ā": 1, ...`
std::string byte_vocabulary() {
  std::string members;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string token = lowgear::tokenizer::alphabet_from_bytes(std::string(1, static_cast<char>(byte)));
    if (byte > 0) members += ", ";
    members += lowgear::Json(token).dump() + ": " + std::to_string(byte);
  }
  return members;
}

std::string with_byte_vocabulary(std::string_view text) {
  static const std::string members = byte_vocabulary();
  constexpr std::string_view kPlace = "@bytes@";
  std::string result(text);
  const std::size_t place = result.find(kPlace);
  if (place != std::string::npos) result.replace(place, kPlace.size(), members);
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    const lowgear::tokenizer::BpeTokenizer tokenizer(with_byte_vocabulary(input), "tokenizer.json");
    // The input itself holds its tokens, and bytes that are no UTF-8.
    for (const std::string_view text : {input, std::string_view("abc  abc\n\xff \xc3\xa9")}) {
      const std::vector<std::int64_t> tokens = tokenizer.encode(text);
      for (const std::int64_t token : tokens) {
        if (token < 0 || token >= tokenizer.vocabulary_size()) std::abort();
      }
      if (tokenizer.decode(tokens) != text) std::abort();
    }
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
