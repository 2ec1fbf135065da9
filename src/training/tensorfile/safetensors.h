#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The safetensors format (https://github.com/huggingface/safetensors, README): 8 bytes little-endian length of the
/// header, a JSON header of names, types, shapes and places, then the tensors' bytes, little-endian and row-major,
/// without gaps.
namespace lowgear::tensorfile {

enum class TensorType : unsigned char { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

/// Bytes of one element.
[[nodiscard]] std::size_t element_bytes(TensorType type);
/// As the format writes it: `F32`, `BF16`, `BOOL`.
[[nodiscard]] std::string_view name(TensorType type);

/// Bytes of a tensor; empty when they cannot be counted or a dimension is negative.
[[nodiscard]] std::optional<std::size_t> tensor_bytes(TensorType type, std::span<const std::int64_t> shape);

/// Longest header that is read, as in the reference implementation.
inline constexpr std::size_t kMaxSafetensorsHeaderBytes = 100'000'000;

/// A tensor in the bytes of a file, which it does not own. Its data may begin at any address: copy, do not cast.
struct TensorView {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

/// Free text that a file carries (`__metadata__`). transformers wants `format` to be `pt`.
using TensorMetadata = std::map<std::string, std::string>;

/// What a file's header says; the tensors in the order of their data.
struct SafetensorsContent {
  std::vector<TensorView> tensors;
  TensorMetadata metadata;
};

/// Reads a whole file from memory. Throws InputError naming `source`, and the tensor where there is one, when the
/// header is longer than the file or kMaxSafetensorsHeaderBytes, is no JSON object (see parse_json, which refuses
/// duplicate names and deep nesting), or has a type that it does not know, or when a tensor's size is not that of its
/// shape and type, tensors overlap, or bytes belong to no tensor.
[[nodiscard]] SafetensorsContent parse_safetensors(std::span<const std::byte> bytes, const std::string& source);

/// A safetensors file mapped into memory (see MappedFile): opening it reads nothing but the header.
class SafetensorsFile {
 public:
  /// Throws InputError when the file cannot be read or mapped, or as parse_safetensors.
  [[nodiscard]] static SafetensorsFile open(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  /// In the order of their data. Valid as long as this file, also when it is moved.
  [[nodiscard]] const std::vector<TensorView>& tensors() const;
  /// Null when the file has no such tensor.
  [[nodiscard]] const TensorView* find(std::string_view name) const;
  [[nodiscard]] const TensorMetadata& metadata() const;
  [[nodiscard]] const std::filesystem::path& path() const;

 private:
  struct State;
  explicit SafetensorsFile(std::unique_ptr<const State> state);

  std::unique_ptr<const State> state_;
};

}  // namespace lowgear::tensorfile
