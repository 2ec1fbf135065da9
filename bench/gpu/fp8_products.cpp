// fp8_products cpu|cuda TOKENS,INPUTS,OUTPUTS...: the trainer's casts and products in fp8 on random matrices of these
// sizes. Fails if a cast is not, bit for bit, what the definition of the formats says, if a product differs from that
// of the same numbers in fp32 by more than its own rounding, or from that of the matrices before the casts by more than
// three roundings explain. Prints rates.

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "training/trainer/engine/backend.h"
#include "training/trainer/fp8/matrix.h"
#include "training/trainer/model/kernels.h"

namespace {

using namespace lowgear;  // NOLINT(google-build-using-namespace)
using trainer::fp8::Accumulation;
using trainer::fp8::Cast;
using trainer::fp8::Format;
using trainer::fp8::Matrix;
using trainer::fp8::Orientations;

struct Sizes {
  long tokens = 0;
  long inputs = 0;
  long outputs = 0;
};

Sizes parse_sizes(const char* word) {
  Sizes sizes;
  if (std::sscanf(word, "%ld,%ld,%ld", &sizes.tokens, &sizes.inputs, &sizes.outputs) == 3) return sizes;
  throw InputError(fmt::format("{}: not TOKENS,INPUTS,OUTPUTS", word));
}

/// Largest difference, divided by the root of the mean square of what is expected.
double difference(const at::Tensor& result, const at::Tensor& expected) {
  const at::Tensor wide = expected.to(at::kDouble);
  return ((result.to(at::kDouble) - wide).abs().max() / wide.square().mean().sqrt()).item<double>();
}

/// Root of the mean square of the difference, divided by that of what is expected.
double mean_difference(const at::Tensor& result, const at::Tensor& expected) {
  const at::Tensor wide = expected.to(at::kDouble);
  return ((result.to(at::kDouble) - wide).square().mean() / wide.square().mean()).sqrt().item<double>();
}

at::Tensor decoded(const Matrix& matrix) {
  const at::Tensor bits = matrix.bits.cpu();
  at::Tensor table = at::empty({256}, at::kFloat);
  for (int i = 0; i < 256; ++i) table[i] = trainer::fp8::decode(static_cast<std::uint8_t>(i), matrix.format);
  const at::Tensor values = table.index_select(0, bits.flatten().to(at::kInt)).view(bits.sizes());
  return values.to(matrix.bits.device()).mul_(matrix.factor);
}

void require(bool holds, const std::string& what) {
  if (!holds) throw Error(what);
}

/// Against the pure definition, element by element.
void check_cast(const at::Tensor& matrix, Format format) {
  const Cast cast = trainer::fp8::cast(matrix, format, Orientations::both);
  require(at::equal(cast.transposed.bits, cast.as_is.bits.t().contiguous()), "the transposed cast is another matrix");
  const at::Tensor values = matrix.to(at::kFloat);
  const float scale = trainer::fp8::largest(format) / values.abs().max().item<float>();
  const at::Tensor scaled = (values * scale).cpu().contiguous();
  const at::Tensor bits = cast.as_is.bits.cpu();
  const auto* from = scaled.data_ptr<float>();
  const auto* to = bits.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < scaled.numel(); ++i) {
    const std::uint8_t expected = trainer::fp8::encode(from[i], format);
    require(to[i] == expected, fmt::format("{} became {:#x} instead of {:#x}", from[i], to[i], expected));
  }
  require(difference(cast.as_is.factor.cpu(), at::full({1}, 1 / scale)) < 1e-6, "the factor is wrong");
}

void check_product(const at::Tensor& a, Format format_a, const at::Tensor& b, std::string_view name) {
  const Cast cast_a = trainer::fp8::cast(a, format_a, Orientations::as_is);
  const Cast cast_b = trainer::fp8::cast(b, Format::e4m3, Orientations::as_is);
  const at::Tensor same_numbers = at::mm(decoded(cast_a.as_is), decoded(cast_b.as_is).t());
  const at::Tensor wide = at::mm(a.to(at::kFloat), b.to(at::kFloat).t());
  const at::Tensor fast = trainer::fp8::product(cast_a.as_is, cast_b.as_is, at::kBFloat16, Accumulation::fast);
  const at::Tensor exact = trainer::fp8::product(cast_a.as_is, cast_b.as_is, at::kBFloat16, Accumulation::fp32);
  const at::Tensor sum = same_numbers.clone();
  trainer::fp8::add_product(sum, cast_a.as_is, cast_b.as_is);
  const double of_fast = difference(fast, same_numbers);
  const double of_exact = difference(exact, same_numbers);
  const double of_sum = difference(sum - same_numbers, same_numbers);
  const double of_all = mean_difference(exact, wide);
  fmt::print(
      "{}: against the same numbers in fp32: fast {:.2e}, fp32 {:.2e}, added to fp32 {:.2e}; against fp32 before "
      "the casts {:.2e} (mean)\n",
      name, of_fast, of_exact, of_sum, of_all);
  // bf16 rounds by up to 2^-9 of an element, of which the largest is some six times the root of the mean square; tensor
  // cores add with fewer bits than fp32 has.
  require(of_exact < 0.03 && of_sum < 0.03 && of_fast < 0.1, "the product is wrong");
  require(of_all < (format_a == Format::e4m3 ? 0.05 : 0.08), "the product is too far from that before the casts");
}

double seconds(at::Device device, const std::function<void()>& work) {
  for (int i = 0; i < 3; ++i) work();
  trainer::synchronize(device);
  const int rounds = device.is_cuda() ? 50 : 1;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) work();
  trainer::synchronize(device);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / rounds;
}

void rates(const Sizes& sizes, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& gradient) {
  const at::Device device = x.device();
  const double flops =
      2.0 * static_cast<double>(sizes.tokens) * static_cast<double>(sizes.inputs) * static_cast<double>(sizes.outputs);
  const Cast of_x = trainer::fp8::cast(x, Format::e4m3, Orientations::both);
  const Cast of_weight = trainer::fp8::cast(weight, Format::e4m3, Orientations::both);
  const Cast of_gradient = trainer::fp8::cast(gradient, Format::e5m2, Orientations::both);
  const at::Tensor sum = at::zeros(weight.sizes(), weight.options().dtype(at::kFloat));
  const auto rate = [&](std::string_view name, const std::function<void()>& work) {
    const double time_s = seconds(device, work);
    fmt::print("  {:38} {:8.1f} us  {:7.0f} TFLOP/s\n", name, 1e6 * time_s, flops / time_s / 1e12);
  };
  rate("bf16 output", [&] { (void)at::linear(x, weight); });
  rate("fp8 output, fast",
       [&] { (void)trainer::fp8::product(of_x.as_is, of_weight.as_is, at::kBFloat16, Accumulation::fast); });
  rate("bf16 gradient of the input", [&] { (void)at::matmul(gradient, weight); });
  for (const auto accumulation : {Accumulation::fast, Accumulation::fp32}) {
    rate(accumulation == Accumulation::fast ? "fp8 gradient of the input, fast" : "fp8 gradient of the input, fp32",
         [&] { (void)trainer::fp8::product(of_gradient.as_is, of_weight.transposed, at::kBFloat16, accumulation); });
  }
  rate("bf16 gradient of the weight", [&] { trainer::kernels::add_weight_gradient(sum, gradient, x); });
  rate("fp8 gradient of the weight, fp32",
       [&] { trainer::fp8::add_product(sum, of_gradient.transposed, of_x.transposed); });
  for (const auto& [name, matrix] :
       {std::pair("cast of the input, both", x), std::pair("cast of the output's gradient, both", gradient)}) {
    const double time_s =
        seconds(device, [&, m = matrix] { (void)trainer::fp8::cast(m, Format::e4m3, Orientations::both); });
    fmt::print("  {:38} {:8.1f} us  {:7.2f} TB/s of 6 bytes an element\n", name, 1e6 * time_s,
               6.0 * static_cast<double>(matrix.numel()) / time_s / 1e12);
  }
}

void try_sizes(const Sizes& sizes, at::Device device) {
  const auto options = at::TensorOptions().device(device).dtype(at::kBFloat16);
  const at::Tensor x = at::randn({sizes.tokens, sizes.inputs}, options);
  const at::Tensor weight = at::randn({sizes.outputs, sizes.inputs}, options).mul_(0.02);
  const at::Tensor gradient = at::randn({sizes.tokens, sizes.outputs}, options).mul_(1e-6);
  fmt::print("{} tokens, {} inputs, {} outputs\n", sizes.tokens, sizes.inputs, sizes.outputs);
  check_cast(x, Format::e4m3);
  check_cast(gradient, Format::e5m2);
  check_product(x, Format::e4m3, weight, "  output");
  check_product(gradient, Format::e5m2, weight.t().contiguous(), "  gradient of the input");
  check_product(gradient.t().contiguous(), Format::e5m2, x.t().contiguous(), "  gradient of the weight");
  rates(sizes, x, weight, gradient);
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) {
    fmt::print(stderr, "usage: fp8_products cpu|cuda TOKENS,INPUTS,OUTPUTS...\n");
    return 2;
  }
  try {
    const at::Device device = std::string_view(words[1]) == "cuda" ? at::kCUDA : at::kCPU;
    const torch::autograd::AutoGradMode no_gradient(false);
    // Sizes that fill no tile, too.
    std::vector<Sizes> sizes{{208, 144, 80}};
    for (int i = 2; i < count; ++i) sizes.push_back(parse_sizes(words[i]));
    for (const Sizes& each : sizes) try_sizes(each, device);
    fmt::print("all products are as they should be\n");
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
