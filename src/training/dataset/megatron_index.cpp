#include "training/dataset/megatron_index.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <system_error>

#include "base/core/error.h"
#include "base/core/files/mapped_file.h"

namespace lowgear::dataset {
namespace {

using std::string_view_literals::operator""sv;

// Magic, version (uint64), type (uint8), numbers of sequences and of documents (uint64); then the lengths of the
// sequences (int32), where they begin (int64), and the documents (int64).
constexpr std::string_view kMagic = "MMIDIDX\0\0"sv;
constexpr std::size_t kVersionAt = 9;
constexpr std::size_t kTypeAt = 17;
constexpr std::size_t kSequencesAt = 18;
constexpr std::size_t kHeaderBytes = 34;
/// By their number in the index.
constexpr auto kTypeNames = std::to_array<std::string_view>(
    {"none", "uint8", "int8", "int16", "int32", "int64", "float64", "float32", "uint16"});
constexpr std::size_t kInt32 = 4;
constexpr std::size_t kUint16 = 8;

template <typename Word>
Word number_at(std::string_view bytes, std::size_t place) {
  Word word;
  std::memcpy(&word, bytes.data() + place, sizeof(Word));
  return word;
}

[[noreturn]] void fail_index(const std::string& file, std::string_view what, std::string_view fix) {
  throw_input_error({file, 0, 0}, what, fix);
}

TokenType read_type(std::string_view bytes, const std::string& file) {
  const auto code = number_at<unsigned char>(bytes, kTypeAt);
  if (code == kInt32) return TokenType::uint32;
  if (code == kUint16) return TokenType::uint16;
  const std::string_view known = code < kTypeNames.size() ? kTypeNames.at(code) : "unknown"sv;
  fail_index(file, fmt::format("it says that the tokens are of type {} ({})", code, known),
             "make the token file again with int32 or uint16");
}

/// Of all sequences, of which the last one ends the file.
std::uint64_t read_bytes(std::string_view bytes, std::size_t width, const std::string& file) {
  constexpr std::size_t kEntryBytes = sizeof(std::int32_t) + sizeof(std::int64_t);
  const auto sequences = number_at<std::uint64_t>(bytes, kSequencesAt);
  if (sequences > (bytes.size() - kHeaderBytes) / kEntryBytes) {
    fail_index(file, fmt::format("{} sequences in {} bytes", sequences, bytes.size()),
               "the index is truncated: copy or make it again");
  }
  if (sequences == 0) return 0;
  const auto last = static_cast<std::size_t>(sequences - 1);
  const auto length = number_at<std::int32_t>(bytes, kHeaderBytes + last * sizeof(std::int32_t));
  const std::size_t begins = kHeaderBytes + static_cast<std::size_t>(sequences) * sizeof(std::int32_t);
  const auto begin = number_at<std::int64_t>(bytes, begins + last * sizeof(std::int64_t));
  if (length < 0 || begin < 0)
    fail_index(file, "a negative length of a sequence", "the index is damaged: make it again");
  return static_cast<std::uint64_t>(begin) + static_cast<std::uint64_t>(length) * width;
}

}  // namespace

std::optional<MegatronIndex> megatron_index_of(const std::filesystem::path& tokens) {
  std::filesystem::path path = tokens;
  path.replace_extension(".idx");
  std::error_code error;
  if (path == tokens || !std::filesystem::is_regular_file(path, error)) return std::nullopt;
  const MappedFile mapped(path);
  const std::string_view bytes = mapped.text();
  if (!bytes.starts_with(kMagic)) return std::nullopt;
  const std::string file = path.string();
  if (bytes.size() < kHeaderBytes) {
    fail_index(file, fmt::format("{} bytes, fewer than the header of an index", bytes.size()),
               "the index is truncated: copy or make it again");
  }
  if (const auto version = number_at<std::uint64_t>(bytes, kVersionAt); version != 1) {
    fail_index(file, fmt::format("version {} of Megatron's index, of which only 1 is known", version),
               "make the token file again with `lowgear data tokenize`");
  }
  const TokenType type = read_type(bytes, file);
  return MegatronIndex{.file = file, .type = type, .bytes = read_bytes(bytes, token_bytes(type), file)};
}

}  // namespace lowgear::dataset
