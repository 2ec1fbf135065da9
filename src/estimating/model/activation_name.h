#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "estimating/model/model_config.h"

namespace lowgear::model {

/// A name of an activation in the library transformers; of several, the first is written.
struct ActivationName {
  std::string_view name;
  Activation activation;
};

inline constexpr auto kActivationNames = std::to_array<ActivationName>({{"silu", Activation::silu},
                                                                        {"swish", Activation::silu},
                                                                        {"gelu", Activation::gelu},
                                                                        {"gelu_python", Activation::gelu},
                                                                        {"gelu_new", Activation::gelu_tanh},
                                                                        {"gelu_fast", Activation::gelu_tanh},
                                                                        {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                                        {"quick_gelu", Activation::quick_gelu},
                                                                        {"relu", Activation::relu}});

[[nodiscard]] constexpr std::optional<Activation> activation_named(std::string_view name) {
  for (const ActivationName& known : kActivationNames) {
    if (known.name == name) return known.activation;
  }
  return std::nullopt;
}

[[nodiscard]] constexpr std::string_view name_of(Activation activation) {
  for (const ActivationName& known : kActivationNames) {
    if (known.activation == activation) return known.name;
  }
  return {};
}

}  // namespace lowgear::model
