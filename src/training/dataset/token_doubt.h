#pragma once

#include <string>
#include <string_view>

#include "training/dataset/token_file.h"

/// Files whose bytes can be read as tokens, but are something else: numbers fit any type.
namespace lowgear::dataset {

/// Throws InputError when the content of a file is of a known kind (file_kind.h) or a text.
void refuse_other_content(std::string_view bytes, const std::string& source);

/// For files whose type is the user's word alone, without a header or an index. Throws InputError when no tokenizer
/// wrote these tokens: halves or pairs of numbers of another width, numbers of another byte order, floating-point
/// numbers, text in UTF-16, one token that makes up half of all, and a token beyond the vocabulary. Looks at 65,536
/// tokens in 16 places; fewer than 32 tokens tell nothing.
void refuse_doubtful_tokens(const TokenView& view);

}  // namespace lowgear::dataset
