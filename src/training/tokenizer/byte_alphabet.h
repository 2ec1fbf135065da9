#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lowgear::tokenizer {

/// The bytes that a token of a byte-level vocabulary spells. Such vocabularies (GPT-2 and all that followed) write
/// every byte as one printable character: itself where it is one of Latin-1, and U+0100, U+0101, ... for the others in
/// order. Empty when a character is not of this alphabet.
[[nodiscard]] std::optional<std::string> bytes_from_alphabet(std::string_view token);

/// The inverse.
[[nodiscard]] std::string alphabet_from_bytes(std::string_view bytes);

}  // namespace lowgear::tokenizer
