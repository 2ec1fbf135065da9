#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/files/file.h"
#include "training/tensorfile/safetensors.h"

namespace lowgear::tensorfile {

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

  /// Appends data of the tensor `name`, which is the one begun or, when that is complete, the next one; as many pieces
  /// as you like. Throws Error on another tensor's name or more data than its shape takes, and when writing fails (a
  /// full disk).
  void write(std::string_view name, std::span<const std::byte> data);

  /// Flushes to the disk and puts the file in its place. Throws Error when data is missing or writing fails.
  void commit();

 private:
  void begin_next();

  std::string path_;
  std::vector<TensorSpec> tensors_;
  std::size_t current_ = 0;        ///< index of the tensor that takes data
  std::size_t missing_bytes_ = 0;  ///< of it
  StagedFile file_;
};

/// Writes tensors that are in memory, wider types first and otherwise in their order. Errors as SafetensorsWriter, and
/// Error when a tensor's data is not as long as its shape takes.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const TensorMetadata& metadata = {});

}  // namespace lowgear::tensorfile
