#include "base/core/files/file_kind.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/core/error.h"

namespace lowgear {

namespace {

using std::string_view_literals::operator""sv;

struct Magic {
  std::string_view bytes;
  std::string_view kind;
  std::size_t offset = 0;
};
constexpr auto kMagics = std::to_array<Magic>({
    {"\x1f\x8b\x08"sv, "a gzip archive"},
    {"PK\x03\x04"sv, "a zip archive (as spreadsheets, .npz and PyTorch's files are)"},
    {"PK\x05\x06"sv, "a zip archive (as spreadsheets, .npz and PyTorch's files are)"},
    {"\xfd"
     "7zXZ\0"sv,
     "an xz archive"},
    {"\x28\xb5\x2f\xfd"sv, "a zstd archive"},
    {"\x04\x22\x4d\x18"sv, "an LZ4 archive"},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive"},
    {"1AY&SY"sv, "a bzip2 archive", 4},
    {"ustar"sv, "a tar archive", 257},
    {"\x93NUMPY"sv, "a NumPy array"},
    {"\x89PNG\r\n\x1a\n"sv, "a PNG image"},
    {"\xff\xd8\xff\xe0"sv, "a JPEG image"},
    {"%PDF-"sv, "a PDF document"},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, "an old document of Microsoft Office"},
    {"PAR1"sv, "a Parquet table"},
    {"ARROW1\0\0"sv, "an Arrow table"},
    {"ORC\x0a"sv, "an ORC table"},
    {"Obj\x01"sv, "an Avro table"},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    {"CDF\x01"sv, "a NetCDF file"},
    {"GGUF"sv, "a GGUF model"},
    {"lmgg"sv, "a GGML model"},
    {"fmgg"sv, "a GGML model"},
    {"tjgg"sv, "a GGML model"},
    {"24ka"sv, "a model of llama2.c"},
    {"OggS\0"sv, "an Ogg recording"},
    {"fLaC\0"sv, "a FLAC recording"},
    {"GIF87a"sv, "a GIF image"},
    {"GIF89a"sv, "a GIF image"},
    {"II*\0"sv, "a TIFF image"},
    {"Rar!\x1a\x07"sv, "a RAR archive"},
    {"MMIDIDX\0\0"sv, "an index of Megatron (.idx)"},
    {"TNTIDX\0\0"sv, "an index of fairseq (.idx)"},
    {"SQLite format 3\0"sv, "an SQLite database"},
    {"\x7f"
     "ELF"sv,
     "a program or library"},
    {"\xff\xfe\0\0"sv, "text in UTF-32"},
    {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv, "a pickle of PyTorch"},
});

bool is_at(std::string_view content, std::size_t offset, std::string_view magic) {
  return content.size() >= offset + magic.size() && content.substr(offset, magic.size()) == magic;
}

/// Of protocols 4 and 5, whose first frame has less than 2^40 bytes; and of 2 and 3, from what opens an object to the
/// full stop that ends it.
bool is_pickle(std::string_view content) {
  if (is_at(content, 0, "\x80\x04\x95"sv) || is_at(content, 0, "\x80\x05\x95"sv)) return is_at(content, 8, "\0\0\0"sv);
  constexpr std::string_view kOpening = "c]}(";
  return (is_at(content, 0, "\x80\x02"sv) || is_at(content, 0, "\x80\x03"sv)) && content.size() > 3 &&
         kOpening.find(content[2]) != std::string_view::npos && content.ends_with('.');
}

/// RIFF's four letters may begin a text; those of its content follow its length.
bool is_riff(std::string_view content) {
  return is_at(content, 0, "RIFF"sv) &&
         (is_at(content, 8, "WAVE"sv) || is_at(content, 8, "AVI "sv) || is_at(content, 8, "WEBP"sv));
}

/// What streams of Arrow begin with, as the data sets of Hugging Face do: no length, that of the schema, and where its
/// table is.
bool is_arrow_stream(std::string_view content) {
  return is_at(content, 0, "\xff\xff\xff\xff"sv) && is_at(content, 6, "\0\0\x10\0\0\0"sv);
}

/// The length of a header, and its JSON.
bool is_safetensors(std::string_view content) {
  std::uint64_t header_bytes = 0;
  if (content.size() < sizeof header_bytes + 2) return false;
  std::memcpy(&header_bytes, content.data(), sizeof header_bytes);
  return header_bytes >= 2 && header_bytes <= content.size() - sizeof header_bytes &&
         (is_at(content, sizeof header_bytes, R"({")"sv) || is_at(content, sizeof header_bytes, "{}"sv));
}

}  // namespace

std::string_view known_file_kind(std::string_view content) {
  const auto* const found = std::ranges::find_if(
      kMagics, [content](const Magic& magic) { return is_at(content, magic.offset, magic.bytes); });
  if (found != kMagics.end()) return found->kind;
  if (is_pickle(content)) return "a pickle of Python";
  if (is_riff(content)) return "a RIFF file (WAV, AVI or WebP)";
  if (is_arrow_stream(content)) return "an Arrow table";
  return is_safetensors(content) ? kSafetensorsKind : "";
}

void refuse_git_lfs_pointer(const std::filesystem::path& path, std::string_view content) {
  constexpr std::size_t kPointerBytes = 1024;  // the specification: fewer
  if (content.size() >= kPointerBytes || !content.starts_with("version https://git-lfs.github.com/spec/")) return;
  throw_input_error({path.string(), 0, 0}, "a Git LFS pointer, not the file itself",
                    "run `git lfs pull` in its folder");
}

}  // namespace lowgear
