/// Reads any bytes as a safetensors file. The tensors of what is accepted fill its data without gap or overlap.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/core/error.h"
#include "checks.h"
#include "training/tensorfile/safetensors.h"

namespace {

/// The tensors lie one after the other from some byte on to the end, each as long as its shape takes.
void check(const lowgear::tensorfile::SafetensorsContent& content, std::span<const std::byte> bytes) {
  const std::byte* end = nullptr;
  for (const lowgear::tensorfile::TensorView& tensor : content.tensors) {
    require(tensor.data.data() >= bytes.data());
    require(tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size());
    require(end == nullptr || tensor.data.data() == end);
    require(lowgear::tensorfile::tensor_bytes(tensor.type, tensor.shape) == tensor.data.size());
    end = tensor.data.data() + tensor.data.size();
  }
  require(end == nullptr || end == bytes.data() + bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  try {
    check(lowgear::tensorfile::parse_safetensors(bytes, "model.safetensors"), bytes);
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
