#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "training/dataset/token_file.h"

namespace lowgear::dataset {

/// What Megatron's index (`FILE.idx`, by `MMapIndexedDatasetBuilder`) says of the tokens in the `FILE.bin` next to it.
struct MegatronIndex {
  std::string file;
  TokenType type;           ///< its int32 is uint32 here: no id is negative
  std::uint64_t bytes = 0;  ///< of all sequences
};

/// That next to `tokens`: the file of the same name that ends with `.idx`; empty when there is none or it is no index
/// of Megatron. Throws InputError when it is damaged, or the tokens are of a type that is not read.
[[nodiscard]] std::optional<MegatronIndex> megatron_index_of(const std::filesystem::path& tokens);

}  // namespace lowgear::dataset
