#include "training/trainer/fp8/matrix.h"

// An emulation: the same numbers with the same rounding; products of them are added in fp32.

namespace lowgear::trainer::fp8 {
namespace {

/// Below it matrices count as zero: the largest number divided by it is finite.
constexpr double kLeastMagnitude = 1e-30;

at::Tensor encoded(const at::Tensor& values, Format format) {
  const at::Tensor input = values.contiguous();
  at::Tensor bits = at::empty(input.sizes(), input.options().dtype(at::kByte));
  const auto* from = input.data_ptr<float>();
  auto* to = bits.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < input.numel(); ++i) to[i] = encode(from[i], format);
  return bits;
}

at::Tensor values_of(const Matrix& matrix) {
  at::Tensor values = at::empty(matrix.bits.sizes(), matrix.bits.options().dtype(at::kFloat));
  const auto* from = matrix.bits.data_ptr<std::uint8_t>();
  auto* to = values.data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) to[i] = decode(from[i], matrix.format);
  return values;
}

at::Tensor wide_product(const Matrix& a, const Matrix& b) {
  return at::mm(values_of(a), values_of(b).t()).mul_(a.factor * b.factor);
}

}  // namespace

std::string missing(at::Device /*device*/) { return {}; }

Cast cast(const at::Tensor& matrix, Format format, Orientations orientations) {
  const at::Tensor wide = matrix.to(at::kFloat);
  const at::Tensor scale = at::full({1}, largest(format)).div_(wide.abs().amax().clamp_min(kLeastMagnitude));
  Cast result;
  result.as_is = {encoded(wide * scale, format), scale.reciprocal(), format};
  if (orientations == Orientations::both) {
    result.transposed = {result.as_is.bits.t().contiguous(), result.as_is.factor, format};
  }
  return result;
}

at::Tensor product(const Matrix& a, const Matrix& b, at::ScalarType type, Accumulation /*accumulation*/) {
  return wide_product(a, b).to(type);
}

void add_product(const at::Tensor& sum, const Matrix& a, const Matrix& b) { sum.add_(wide_product(a, b)); }

}  // namespace lowgear::trainer::fp8
