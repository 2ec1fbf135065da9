#include "training/dataset/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/mapped_file.h"

namespace lowgear::dataset {

namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and copied as they are");

constexpr std::size_t kWriteBufferBytes = std::size_t{1} << 20;

/// What llm.c writes into the first two words of the header for a type of token.
struct HeaderFormat {
  TokenType type;
  std::int32_t magic;
  std::int32_t version;
};
constexpr auto kHeaderFormats = std::to_array<HeaderFormat>({
    {TokenType::uint16, 20240520, 1},
    {TokenType::uint32, 20240801, 7},
});
/// Lowgear's own, of uint32: other readers refuse it, as they would read marked tokens as other ones.
constexpr std::int32_t kMarkedVersion = 1007;
constexpr std::uint32_t kMark = 0x8000'0000;

template <typename Word>
Word word_at(std::string_view bytes, std::size_t index) {
  Word word;
  std::memcpy(&word, bytes.data() + index * sizeof(Word), sizeof(Word));
  return word;
}

template <typename Word>
void copy_tokens(std::string_view bytes, std::size_t first, std::span<std::int64_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = word_at<Word>(bytes, first + i);
}

const HeaderFormat* header_format(std::string_view bytes) {
  if (bytes.size() < sizeof(std::int32_t)) return nullptr;
  const auto* const found = std::ranges::find(kHeaderFormats, word_at<std::int32_t>(bytes, 0), &HeaderFormat::magic);
  return found == kHeaderFormats.end() ? nullptr : found;
}

/// The type that Megatron's index next to a file says, which the file and what is said of it must agree with.
TokenType type_by_index(const MegatronIndex& index, std::string_view bytes, const std::string& source,
                        std::optional<TokenType> given) {
  const SourceLocation where{source, 0, 0};
  if (given && *given != index.type) {
    throw_input_error(
        where,
        fmt::format("its index {} says that the tokens are {}, not {}", index.file, name(index.type), name(*given)),
        "leave the type of its tokens out");
  }
  if (bytes.size() != index.bytes) {
    throw_input_error(where, fmt::format("{} bytes, but its index {} counts {}", bytes.size(), index.file, index.bytes),
                      "one of the two files is truncated or of another text: copy or make both again");
  }
  return index.type;
}

}  // namespace

std::string_view name(TokenType type) { return type == TokenType::uint16 ? "uint16" : "uint32"; }

TokenView::TokenView(std::string_view bytes, std::string source, std::int64_t vocabulary_size,
                     std::optional<TokenType> headerless)
    : source_(std::move(source)), vocabulary_size_(vocabulary_size) {
  if (vocabulary_size < 1) fail(fmt::format("a vocabulary of {} tokens", vocabulary_size), "give at least 1");
  if (!headerless) {
    read_header(bytes);
    return;
  }
  check_no_header(bytes);
  type_ = *headerless;
  if (bytes.size() % token_bytes(type_) != 0) {
    fail(fmt::format("{} bytes are not a whole number of {} tokens", bytes.size(), name(type_)),
         "the file is truncated, or its tokens are of another type");
  }
  tokens_ = bytes;
  count_ = static_cast<std::int64_t>(bytes.size() / token_bytes(type_));
}

void TokenView::read_header(std::string_view bytes) {
  const HeaderFormat* const format = header_format(bytes);
  if (format == nullptr) {
    fail("no header of a token file",
         "make one with `lowgear data tokenize`, or name the type of a file without header (data.token_type of a "
         "training, --token-type of `lowgear data show`)");
  }
  if (bytes.size() < kTokenHeaderBytes) {
    fail(fmt::format("{} bytes, fewer than its header of {}", bytes.size(), kTokenHeaderBytes),
         "the file is truncated: create it again");
  }
  const auto version = word_at<std::int32_t>(bytes, 1);
  marks_ = format->type == TokenType::uint32 && version == kMarkedVersion ? Marks::some : Marks::none;
  if (version != format->version && marks_ == Marks::none) {
    fail(fmt::format("version {} of the token format {}, of which only {} is known", version, format->magic,
                     format->version),
         "make it again with `lowgear data tokenize`");
  }
  const auto count = word_at<std::int32_t>(bytes, 2);
  const std::size_t body_bytes = bytes.size() - kTokenHeaderBytes;
  // Divided rather than multiplied, so that no count can overflow.
  if (count < 0 || body_bytes % token_bytes(format->type) != 0 ||
      body_bytes / token_bytes(format->type) != static_cast<std::size_t>(count)) {
    fail(fmt::format("its header says {} {} tokens, but {} bytes follow it", count, name(format->type), body_bytes),
         "the file is truncated or damaged: make it again");
  }
  tokens_ = bytes.substr(kTokenHeaderBytes);
  count_ = count;
  type_ = format->type;
  has_header_ = true;
}

void TokenView::check_no_header(std::string_view bytes) const {
  if (bytes.size() < kTokenHeaderBytes) return;
  const HeaderFormat* const format = header_format(bytes);
  const auto version = word_at<std::int32_t>(bytes, 1);
  if (format != nullptr && (version == format->version || version == kMarkedVersion)) {
    fail("it has a header, but the configuration or an index next to it says that it has none",
         "leave the type of its tokens out");
  }
  // Models, tokenizers, states and evaluations of llm.c begin with a date and a version as its tokens do.
  constexpr std::int32_t kFirstDate = 20240101;
  constexpr std::int32_t kLastDate = 20261231;
  constexpr std::int32_t kHighestVersion = 64;
  const auto date = word_at<std::int32_t>(bytes, 0);
  if (date >= kFirstDate && date <= kLastDate && version >= 1 && version <= kHighestVersion) {
    fail(fmt::format("it is a file of llm.c of another kind ({}, version {}): a model, a tokenizer, or newer tokens",
                     date, version),
         "name a token file");
  }
}

void TokenView::fail(std::string_view what, std::string_view fix) const {
  throw_input_error({source_, 0, 0}, what, fix);
}

void TokenView::check_vocabulary(std::int64_t first, std::span<const std::int64_t> tokens) const {
  const auto bad =
      std::ranges::find_if(tokens, [this](std::int64_t token) { return token_id(token) >= vocabulary_size_; });
  if (bad == tokens.end()) return;
  fail(fmt::format("token {} is {}, beyond a vocabulary of {}", first + (bad - tokens.begin()), token_id(*bad),
                   vocabulary_size_),
       "use the tokenizer and the model that the file was made for");
}

void TokenView::read(std::int64_t first, std::span<std::int64_t> out) const {
  read_unchecked(first, out);
  check_vocabulary(first, out);
}

void TokenView::read_unchecked(std::int64_t first, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (first < 0 || count > count_ || first > count_ - count) {
    throw Error(
        fmt::format("{}: {} tokens from {} on were asked for; it has {}", printable(source_), count, first, count_));
  }
  const auto begin = static_cast<std::size_t>(first);
  if (type_ == TokenType::uint16) {
    copy_tokens<std::uint16_t>(tokens_, begin, out);
  } else {
    copy_tokens<std::uint32_t>(tokens_, begin, out);
  }
  if (marks_ == Marks::none) return;
  for (std::int64_t& token : out) {
    if (token >= kMark) token = ~(token - kMark);
  }
}

std::int64_t TokenView::operator[](std::int64_t index) const {
  std::int64_t token = 0;
  read(index, {&token, 1});
  return token;
}

TokenFile::TokenFile(std::shared_ptr<const MappedFile> file, TokenView tokens, std::string index)
    : file_(std::move(file)), tokens_(std::move(tokens)), index_(std::move(index)) {}

TokenFile TokenFile::open(const std::filesystem::path& path, std::int64_t vocabulary_size,
                          std::optional<TokenType> headerless) {
  auto file = std::make_shared<const MappedFile>(path);
  const std::optional<MegatronIndex> index = megatron_index_of(path);
  if (index) headerless = type_by_index(*index, file->text(), path.string(), headerless);
  // A header or an index states the type: what is unusual then is the text's own, as padding or a table of numbers.
  const bool is_stated = index || (!headerless && header_format(file->text()) != nullptr);
  if (!is_stated) refuse_other_content(file->text(), path.string());
  TokenView tokens(file->text(), path.string(), vocabulary_size, headerless);
  if (!index && !tokens.has_header()) refuse_doubtful_tokens(tokens);
  return {std::move(file), std::move(tokens), index ? index->file : ""};
}

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path, TokenType type, Marks marks)
    : path_(path.string()), file_(path), type_(type), marks_(marks), buffer_(kTokenHeaderBytes, '\0') {}

void TokenFileWriter::append(std::span<const std::int64_t> tokens) {
  const bool marked = marks_ == Marks::some;
  const std::int64_t highest = type_ == TokenType::uint16 ? std::numeric_limits<std::uint16_t>::max()
                               : marked                   ? std::int64_t{kMark} - 1
                                                          : std::int64_t{std::numeric_limits<std::uint32_t>::max()};
  const SourceLocation where{path_, 0, 0};
  if (static_cast<std::int64_t>(tokens.size()) > kMaxHeaderTokens - count_) {
    throw_input_error(
        where, fmt::format("more than {} tokens, the largest number that its header can state", kMaxHeaderTokens),
        "split the text over several files");
  }
  for (const std::int64_t token : tokens) {
    const std::int64_t id = marked ? token_id(token) : token;
    if (id < 0 || id > highest) {
      throw_input_error(where, fmt::format("token {} is {}, which does not fit into {}", count_, token, name(type_)),
                        "write another type of token");
    }
    const auto word = static_cast<std::uint32_t>(id) | (id == token ? 0 : kMark);
    std::array<char, sizeof word> bytes = {};
    std::memcpy(bytes.data(), &word, sizeof word);
    buffer_.append(bytes.data(), token_bytes(type_));  // little-endian: the low bytes come first
    ++count_;
    if (buffer_.size() >= kWriteBufferBytes) flush();
  }
}

void TokenFileWriter::flush() {
  file_.write(buffer_);
  buffer_.clear();
}

void TokenFileWriter::commit() {
  flush();
  const auto* const format = std::ranges::find(kHeaderFormats, type_, &HeaderFormat::type);
  const std::array<std::int32_t, 3> words = {format->magic, marks_ == Marks::some ? kMarkedVersion : format->version,
                                             static_cast<std::int32_t>(count_)};
  std::array<char, sizeof words> header = {};
  std::memcpy(header.data(), words.data(), sizeof words);
  file_.overwrite(0, {header.data(), header.size()});  // zeros follow, written first
  file_.commit();
}

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
