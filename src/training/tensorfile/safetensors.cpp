#include "training/tensorfile/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file_kind.h"
#include "base/core/files/mapped_file.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"

namespace lowgear::tensorfile {

namespace {

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian and used as they are");

/// Some ten values for each tensor: more tensors than any model has, and a bound on what a header takes in memory.
constexpr std::size_t kMaxHeaderValues = std::size_t{1} << 22;
constexpr std::string_view kDamaged = "the file is damaged or truncated: copy or make it again";

struct TypeName {
  TensorType type;
  std::string_view name;
  std::size_t bytes;
};
constexpr auto kTypes = std::to_array<TypeName>({
    {TensorType::f64, "F64", 8},
    {TensorType::f32, "F32", 4},
    {TensorType::f16, "F16", 2},
    {TensorType::bf16, "BF16", 2},
    {TensorType::i64, "I64", 8},
    {TensorType::i32, "I32", 4},
    {TensorType::i16, "I16", 2},
    {TensorType::i8, "I8", 1},
    {TensorType::u8, "U8", 1},
    {TensorType::boolean, "BOOL", 1},
});

const TypeName& entry_of(TensorType type) { return *std::ranges::find(kTypes, type, &TypeName::type); }

TensorType read_type(const JsonView& value) {
  const std::string text = value.text();
  const auto* const found = std::ranges::find(kTypes, text, &TypeName::name);
  if (found == kTypes.end()) {
    value.fail(fmt::format("the type {} is not supported", quote(text)),
               "convert the tensor to F64, F32, F16, BF16, I64, I32, I16, I8, U8 or BOOL");
  }
  return found->type;
}

std::vector<std::int64_t> read_shape(const JsonView& value) {
  std::vector<std::int64_t> shape(value.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    shape[i] = value.at(i).integer();
    if (shape[i] < 0) value.at(i).fail(fmt::format("{} is not a dimension", shape[i]), kDamaged);
  }
  return shape;
}

/// Place of a tensor's data, counted from the end of the header.
struct Place {
  std::size_t begin = 0;
  std::size_t end = 0;
};

Place read_place(const JsonView& value, std::size_t data_bytes) {
  std::array<std::size_t, 2> offsets = {};
  if (value.size() != offsets.size()) value.fail("expected two offsets", kDamaged);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const long long offset = value.at(i).integer();
    if (offset < 0 || static_cast<unsigned long long>(offset) > data_bytes) {
      value.at(i).fail(fmt::format("{} is outside the {} bytes of data", offset, data_bytes), kDamaged);
    }
    offsets[i] = static_cast<std::size_t>(offset);
  }
  if (offsets[0] > offsets[1]) value.fail(fmt::format("{} comes after {}", offsets[0], offsets[1]), kDamaged);
  return {offsets[0], offsets[1]};
}

/// Reads the header of a file whose data is `data`.
class HeaderReader {
 public:
  HeaderReader(const std::string& source, std::span<const std::byte> data) : source_(source), data_(data) {}

  SafetensorsContent read(const Json& document) {
    if (!document.is_object()) JsonView(document, source_).fail("expected an object of tensors", kDamaged);
    for (const auto& [name, json] : document.get_ref<const Json::object_t&>()) {
      // Not looked up by its name, which would take time that grows with the square of their number.
      const JsonView value(json, source_, fmt::format("$[{}]", quote(name)));
      if (name == "__metadata__") {
        read_metadata(value);
      } else {
        read_tensor(name, value);
      }
    }
    require_no_gaps();
    return std::move(content_);
  }

 private:
  void read_metadata(const JsonView& value) {
    if (value.json().is_null()) return;  // absent to the reference reader, too
    if (!value.json().is_object()) value.fail("expected an object of texts");
    for (const auto& [key, json] : value.json().get_ref<const Json::object_t&>()) {
      content_.metadata.emplace(key, JsonView(json, source_, fmt::format("$.__metadata__[{}]", quote(key))).text());
    }
  }

  void read_tensor(const std::string& name, const JsonView& value) {
    TensorView tensor;
    tensor.name = name;
    tensor.type = read_type(value.at("dtype"));
    tensor.shape = read_shape(value.at("shape"));
    const Place place = read_place(value.at("data_offsets"), data_.size());
    if (value.json().size() != 3) value.fail("has more members than dtype, shape and data_offsets", kDamaged);
    tensor.data = data_.subspan(place.begin, place.end - place.begin);
    const std::optional<std::size_t> bytes = tensor_bytes(tensor.type, tensor.shape);
    if (!bytes) value.at("shape").fail("has more elements than can be counted", kDamaged);
    if (*bytes != tensor.data.size()) {
      value.fail(fmt::format("{} of shape [{}] takes {} bytes, but it has {}", tensorfile::name(tensor.type),
                             fmt::join(tensor.shape, ", "), *bytes, tensor.data.size()),
                 kDamaged);
    }
    content_.tensors.push_back(std::move(tensor));
  }

  /// Sorts the tensors by their data, each of which must begin where the one before it ends.
  void require_no_gaps() {
    // Empty ones come before what begins at the same place.
    std::ranges::stable_sort(content_.tensors, {}, [](const TensorView& tensor) {
      return std::pair(tensor.data.data(), tensor.data.size());
    });
    std::size_t covered = 0;  // bytes from the start
    const TensorView* before = nullptr;
    for (const TensorView& tensor : content_.tensors) {
      const auto begin = static_cast<std::size_t>(tensor.data.data() - data_.data());
      if (begin < covered) fail(fmt::format("the tensors {} and {} overlap", quote(before->name), quote(tensor.name)));
      if (begin > covered) fail_gap(covered, begin);
      covered = begin + tensor.data.size();
      before = &tensor;
    }
    if (covered != data_.size()) fail_gap(covered, data_.size());
  }

  [[noreturn]] void fail_gap(std::size_t covered, std::size_t next) const {
    fail(fmt::format("the bytes {} to {} of its data belong to no tensor", covered, next));
  }
  [[noreturn]] void fail(std::string_view what) const { throw_input_error({source_, 0, 0}, what, kDamaged); }

  const std::string& source_;
  std::span<const std::byte> data_;
  SafetensorsContent content_;
};

}  // namespace

std::size_t element_bytes(TensorType type) { return entry_of(type).bytes; }

std::string_view name(TensorType type) { return entry_of(type).name; }

std::optional<std::size_t> tensor_bytes(TensorType type, std::span<const std::int64_t> shape) {
  if (std::ranges::any_of(shape, [](std::int64_t dimension) { return dimension < 0; })) return std::nullopt;
  // Before the others are multiplied, which may overflow.
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  std::size_t bytes = element_bytes(type);
  for (const std::int64_t dimension : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(dimension), &bytes)) return std::nullopt;
  }
  return bytes;
}

SafetensorsContent parse_safetensors(std::span<const std::byte> bytes, const std::string& source) {
  const SourceLocation where{source, 0, 0};
  const std::string_view content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  refuse_web_page(content, source);
  const std::string_view kind = known_file_kind(content);
  if (!kind.empty() && kind != kSafetensorsKind) {
    throw_input_error(where, fmt::format("it is {}, and no safetensors file", kind), "convert it to safetensors");
  }
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof header_bytes) {
    throw_input_error(where, fmt::format("{} bytes, too few for a safetensors file", bytes.size()), kDamaged);
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  const std::span<const std::byte> rest = bytes.subspan(sizeof header_bytes);
  if (header_bytes > kMaxSafetensorsHeaderBytes) {
    throw_input_error(where, fmt::format("a header of {} bytes, above {}", header_bytes, kMaxSafetensorsHeaderBytes),
                      "name a safetensors file");
  }
  if (header_bytes > rest.size()) {
    throw_input_error(where, fmt::format("a header of {} bytes in a file of {}", header_bytes, bytes.size()), kDamaged);
  }
  const std::string_view header(reinterpret_cast<const char*>(rest.data()), header_bytes);
  // A byte order mark or blanks, which JSON readers skip, are not of the format.
  if (!header.starts_with('{')) throw_input_error(where, "its header does not begin with {", "name a safetensors file");
  const Json document = parse_json(header, source, kMaxHeaderValues);
  return HeaderReader(source, rest.subspan(header_bytes)).read(document);
}

struct SafetensorsFile::State {
  explicit State(const std::filesystem::path& name)
      : path(name), file(name), content(parse_safetensors(file.bytes(), name.string())) {
    by_name.reserve(content.tensors.size());
    for (const TensorView& tensor : content.tensors) by_name.emplace(tensor.name, &tensor);
  }

  std::filesystem::path path;
  MappedFile file;
  SafetensorsContent content;
  std::unordered_map<std::string_view, const TensorView*> by_name;
};

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  return SafetensorsFile(std::make_unique<const State>(path));
}

SafetensorsFile::SafetensorsFile(std::unique_ptr<const State> state) : state_(std::move(state)) {}
SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;

const std::vector<TensorView>& SafetensorsFile::tensors() const { return state_->content.tensors; }

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found = state_->by_name.find(name);
  return found == state_->by_name.end() ? nullptr : found->second;
}

const TensorMetadata& SafetensorsFile::metadata() const { return state_->content.metadata; }

const std::filesystem::path& SafetensorsFile::path() const { return state_->path; }

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
