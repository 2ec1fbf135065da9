#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/core/error.h"
#include "base/core/formats/csv.h"

namespace lowgear::steps {

inline constexpr int kMaxReplicas = 65'536;
inline constexpr int kMaxPlaces = 65'536;  ///< stages, layers, and microbatches of a replica
inline constexpr double kMaxTokens = 1e12;

/// A whole number of 0 to `most`; throws InputError otherwise.
[[nodiscard]] inline int whole_at(const CsvTable& table, std::size_t row, std::size_t column, int most) {
  const long long value = table.integer(row, column);
  if (value < 0 || value > most) {
    throw_input_error(table.where(row, column), fmt::format("{} is not in 0 to {}", value, most));
  }
  return static_cast<int>(value);
}

/// Calls `visit` with each word of a cell whose words have one blank between them; two blanks make an empty word.
template <typename Visit>
void for_each_word(std::string_view cell, Visit visit) {
  while (!cell.empty()) {
    const std::string_view word = cell.substr(0, cell.find(' '));
    visit(word);
    cell.remove_prefix(std::min(word.size() + 1, cell.size()));
  }
}

/// Throws InputError for more units than a file may state.
inline void refuse_many(const std::string& source, std::size_t units) {
  constexpr std::size_t kMaxUnits = std::size_t{1} << 24;
  if (units <= kMaxUnits) return;
  throw_input_error({source, 0, 0}, fmt::format("its steps have {} units, and {} is the most", units, kMaxUnits),
                    "give fewer steps");
}

}  // namespace lowgear::steps
