#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "estimating/model/model_config.h"

namespace lowgear::trainer {

/// A small model of a family, with every part that the family has, and dropout.
struct FamilyModel {
  std::string name;
  std::string config;  ///< config.json

  [[nodiscard]] model::ModelConfig read() const;
  friend void PrintTo(const FamilyModel& model, std::ostream* out) { *out << model.name; }
};

/// Of four layers; heads, widths and the vocabulary of 64 tokens can be halved. Windows are of five tokens.
[[nodiscard]] const std::vector<FamilyModel>& family_models();

}  // namespace lowgear::trainer
