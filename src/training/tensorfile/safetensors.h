#pragma once

/// The safetensors format (https://github.com/huggingface/safetensors, README): 8 bytes little-endian length of the
/// header, a JSON header of names, types, shapes and places, then the tensors' bytes, little-endian and row-major,
/// without gaps.

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

#include "base/core/files/file.h"

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

/// Free text in a file (`__metadata__`). transformers requires `format` to be `pt`.
using TensorMetadata = std::map<std::string, std::string>;

/// The header of a file, with the tensors in the order of their data.
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

/// A tensor that is to be written.
struct TensorSpec {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<std::int64_t> shape;
};

/// Writes a safetensors file of any size piece by piece, whole or not at all (StagedFile): the header first, then the
/// tensors' data as it comes.
class SafetensorsWriter {
 public:
  /// The data will lie in the order of `tensors`: give wider types first, so that every tensor is aligned to its
  /// elements. Throws InputError when the file cannot be written, and Error when two tensors have one name, a name is
  /// not UTF-8, a dimension is negative, or a size overflows.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorSpec> tensors,
                    const TensorMetadata& metadata = {});

  /// Appends data of the tensor `name`, which is the current one or, when that is complete, the next one; in any
  /// number of pieces. Throws Error on another tensor's name or more data than its shape has, and when writing fails (a
  /// full disk).
  void write(std::string_view name, std::span<const std::byte> data);

  /// Flushes to the disk and puts the file in its place. Throws Error when data is missing or writing fails.
  void commit();

 private:
  void begin_next();

  std::string path_;
  std::vector<TensorSpec> tensors_;
  std::size_t current_ = 0;        ///< index of the tensor whose data is written
  std::size_t missing_bytes_ = 0;  ///< of that tensor
  StagedFile file_;
};

/// Writes tensors that are in memory, wider types first and otherwise in their order. Errors as SafetensorsWriter, and
/// Error when the length of a tensor's data does not fit its shape.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const TensorMetadata& metadata = {});

}  // namespace lowgear::tensorfile
