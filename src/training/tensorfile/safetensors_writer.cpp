#include "training/tensorfile/safetensors_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"

namespace lowgear::tensorfile {
namespace {

/// The data begins at a multiple of this, as in the reference implementation.
constexpr std::size_t kAlignmentBytes = 8;

std::string_view chars_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[noreturn]] void fail(const std::string& path, std::string_view tensor, std::string_view what) {
  throw Error(fmt::format("{}: tensor {}: {}", printable(path), quote(tensor), what));
}

std::size_t bytes_of(const std::string& path, const TensorSpec& tensor) {
  const std::optional<std::size_t> bytes = tensor_bytes(tensor.type, tensor.shape);
  if (!bytes) fail(path, tensor.name, fmt::format("no tensor has the shape [{}]", fmt::join(tensor.shape, ", ")));
  return *bytes;
}

Json metadata_json(const TensorMetadata& metadata) {
  Json json = Json::object();
  for (const auto& [key, value] : metadata) json[key] = value;
  return json;
}

std::string text_of(const std::string& path, const Json& header) {
  try {
    return header.dump();
  } catch (const Json::exception&) {
    throw Error(fmt::format("{}: the name of a tensor or a text of the metadata is not UTF-8", printable(path)));
  }
}

/// Length and header, padded with blanks.
std::string header_of(const std::string& path, std::span<const TensorSpec> tensors, const TensorMetadata& metadata) {
  Json header = Json::object();
  // Not by operator[], which would look through all members for each.
  auto& members = header.get_ref<Json::object_t&>();
  if (!metadata.empty()) members.emplace_back("__metadata__", metadata_json(metadata));
  std::unordered_set<std::string_view> names = {"__metadata__"};
  std::size_t end = 0;
  for (const TensorSpec& tensor : tensors) {
    if (!names.insert(tensor.name).second) fail(path, tensor.name, "the name is taken");
    const std::size_t begin = end;
    if (__builtin_add_overflow(begin, bytes_of(path, tensor), &end)) fail(path, tensor.name, "the file is too large");
    members.emplace_back(
        tensor.name,
        Json{{"dtype", std::string(name(tensor.type))}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}});
  }
  std::string text = text_of(path, header);
  text.append((kAlignmentBytes - text.size() % kAlignmentBytes) % kAlignmentBytes, ' ');
  if (text.size() > kMaxSafetensorsHeaderBytes) {
    throw Error(
        fmt::format("{}: a header of {} bytes, above {}", printable(path), text.size(), kMaxSafetensorsHeaderBytes));
  }
  const std::uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorSpec> tensors,
                                     const TensorMetadata& metadata)
    : path_(path.string()), tensors_(std::move(tensors)), file_(path) {
  file_.write(header_of(path_, tensors_, metadata));
  if (!tensors_.empty()) missing_bytes_ = bytes_of(path_, tensors_.front());
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> data) {
  while (current_ < tensors_.size() && missing_bytes_ == 0 && tensors_[current_].name != name) begin_next();
  if (current_ == tensors_.size()) fail(path_, name, "all tensors have been written");
  const std::string& expected = tensors_[current_].name;
  if (expected != name) fail(path_, name, fmt::format("{} bytes of {} come first", missing_bytes_, quote(expected)));
  if (data.size() > missing_bytes_) {
    fail(path_, name, fmt::format("{} bytes where {} are missing", data.size(), missing_bytes_));
  }
  file_.write(chars_of(data));
  missing_bytes_ -= data.size();
}

void SafetensorsWriter::begin_next() {
  ++current_;
  missing_bytes_ = current_ < tensors_.size() ? bytes_of(path_, tensors_[current_]) : 0;
}

void SafetensorsWriter::commit() {
  while (current_ < tensors_.size() && missing_bytes_ == 0) begin_next();
  if (current_ < tensors_.size()) {
    fail(path_, tensors_[current_].name, fmt::format("{} bytes are missing", missing_bytes_));
  }
  file_.commit();
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const TensorMetadata& metadata) {
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) order.push_back(&tensor);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [](const TensorView* tensor) { return element_bytes(tensor->type); });
  std::vector<TensorSpec> specs;
  specs.reserve(order.size());
  for (const TensorView* tensor : order) specs.push_back({tensor->name, tensor->type, tensor->shape});
  SafetensorsWriter writer(path, std::move(specs), metadata);
  for (const TensorView* tensor : order) writer.write(tensor->name, tensor->data);
  writer.commit();
}

}  // namespace lowgear::tensorfile
