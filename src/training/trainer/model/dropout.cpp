#include "training/trainer/model/dropout.h"

#include <cmath>

namespace lowgear::trainer {
namespace {

/// The finaliser of splitmix64 (Steele et al. 2014).
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

/// value ^= value >> bits, of 32 bits without a sign.
void fold(at::Tensor& value, int bits) {
  value.bitwise_xor_(value.__rshift__(bits).bitwise_and_((std::int64_t{1} << (32 - bits)) - 1));
}

void scramble(at::Tensor& value) {
  constexpr auto kFirst = static_cast<std::int32_t>(0x7FEB352DU);
  constexpr auto kSecond = static_cast<std::int32_t>(0x846CA68BU);
  fold(value, 16);
  value.mul_(kFirst);
  fold(value, 15);
  value.mul_(kSecond);
  fold(value, 16);
}

}  // namespace

std::uint64_t sample_key(std::uint64_t seed, std::int64_t sample) {
  return mixed(mixed(seed) ^ static_cast<std::uint64_t>(sample));
}

at::Tensor Dropout::operator()(const at::Tensor& input, double share, const Place& place) const {
  if (!drops(share)) return input;
  TORCH_INTERNAL_ASSERT(input.size(0) == static_cast<std::int64_t>(samples_.size()), "a key for each sample");
  at::Tensor keep;
  {
    const torch::autograd::AutoGradMode no_gradient(false);
    constexpr std::uint64_t kSites = 8;
    const auto site = static_cast<std::uint64_t>(place.layer + 1) * kSites + static_cast<std::uint64_t>(place.site);
    std::vector<std::int32_t> halves;
    for (const int shift : {0, 32}) {
      for (const std::uint64_t sample : samples_) {
        halves.push_back(static_cast<std::int32_t>(static_cast<std::uint32_t>(mixed(sample ^ mixed(site)) >> shift)));
      }
    }
    const at::Tensor keys = at::tensor(halves, at::kInt)
                                .view({2, static_cast<std::int64_t>(samples_.size()), 1})
                                .to(input.device(), at::kInt, /*non_blocking=*/true);
    const std::int64_t count = input.numel() / input.size(0);
    at::Tensor places =
        at::arange(place.first, place.first + count, at::TensorOptions().dtype(at::kLong).device(input.device()));
    if (place.parts > 1) {
      const std::int64_t width = input.size(-1);
      const at::Tensor rows = places.div(width, "floor");
      places = places + rows * (width * (place.parts - 1)) + width * place.part;
    }
    places = places.to(at::kInt);
    at::Tensor bits = places.unsqueeze(0).bitwise_xor(keys.select(0, 0));
    scramble(bits);
    bits.bitwise_xor_(keys.select(0, 1));
    scramble(bits);
    constexpr std::int64_t kBits = (std::int64_t{1} << 31) - 1;
    const auto least = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(kBits)));
    keep = bits.bitwise_and_(kBits).ge(least).view(input.sizes());
  }
  return input * keep.to(input.scalar_type()).mul_(1 / (1 - share));
}

}  // namespace lowgear::trainer
