#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/yaml.h"
#include "estimating/model/model_config.h"

namespace lowgear::model {

/// The members of a config.json, in any file format. All functions throw InputError that says where.
class ConfigMembers {
 public:
  virtual ~ConfigMembers() = default;
  [[nodiscard]] virtual std::vector<std::string> keys() const = 0;
  /// Whether the member exists and is not null.
  [[nodiscard]] virtual bool has(std::string_view key) const = 0;
  [[nodiscard]] virtual std::int64_t integer(std::string_view key) const = 0;
  [[nodiscard]] virtual double number(std::string_view key) const = 0;
  [[nodiscard]] virtual std::string text(std::string_view key) const = 0;
  [[nodiscard]] virtual bool boolean(std::string_view key) const = 0;
  /// Elements of a list of texts.
  [[nodiscard]] virtual std::vector<std::string> texts(std::string_view key) const = 0;
  /// The members of an object within this one.
  [[nodiscard]] virtual std::unique_ptr<ConfigMembers> object(std::string_view key) const = 0;
  /// The value as it is written: a scalar, the element of a list of one, `[]`, `{}`, else `...`.
  [[nodiscard]] virtual std::string written(std::string_view key) const = 0;
  /// Throws at the member, which must exist.
  [[noreturn]] virtual void fail(std::string_view key, std::string_view what, std::string_view fix = {}) const = 0;
};

/// A family of transformers, as `model_type` names it.
struct TransformerFamily {
  std::string_view model_type;
  unsigned bit = 0;               ///< in the sets of families of this table and the others
  std::string_view architecture;  ///< the class that is a language model
  bool trained = false;           ///< whether the trainer has its layers
};
[[nodiscard]] std::span<const TransformerFamily> transformer_families();

/// What an estimate does with a member.
enum class MemberVerdict : unsigned char {
  modelled,            ///< is part of the description; an error if it contradicts others
  without_effect,      ///< ignores it: it does not change what training costs
  refused,             ///< refuses any other value than a harmless one
  noted,               ///< ignores any other value than a harmless one, and notes that
  noted_with_windows,  ///< the same, in a model with windowed layers; ignores it without a note in others
};

/// A member of the configurations of some families.
struct ConfigMember {
  std::string_view name;
  unsigned families = 0;
  MemberVerdict verdict = MemberVerdict::modelled;
  std::string_view harmless = {};  ///< of `refused` and `noted`: values as they are written, separated by `|`
  std::string_view what = {};      ///< of `refused`: what is wrong; of `noted`: what is estimated instead
  std::string_view missing = {};   ///< of `noted`: the value that a missing member stands for, if not a harmless one
};

/// Every member of the configuration classes of Hugging Face transformers for the families above, except those that
/// change_nothing.
[[nodiscard]] std::span<const ConfigMember> config_members();

/// The member in the configurations of a family, or null.
[[nodiscard]] const ConfigMember* find_member(const TransformerFamily& family, std::string_view name);

/// Whether a member changes nothing that training computes, whatever its value, in all families: who made the file,
/// special tokens, generation, initial weights, options that save memory.
[[nodiscard]] bool changes_nothing(std::string_view member);

/// Notes about all members that an estimate ignores. `windowed` says whether the model has windowed layers.
[[nodiscard]] std::vector<std::string> estimate_notes(const ConfigMembers& members, const TransformerFamily& family,
                                                      bool windowed);

/// Throws InputError at the first member that is refused.
void require_supported_members(const ConfigMembers& members, const TransformerFamily& family);

/// Throws InputError at the first member with a value that the trainer does not compute, such as another activation or
/// dropout above 0 (which includes GPT-2's default of 0.1 without the members `*_pdrop`), and at unknown members.
void require_trained_members(const ConfigMembers& members, const TransformerFamily& family);

/// Reads the members that only the trainer needs: rotary frequencies and epsilon of norms. Throws InputError where
/// require_trained_members does, and on RoPE types other than default, linear and llama3, sliding windows, families
/// that are not trained.
void read_trained_members(const ConfigMembers& members, const TransformerFamily& family, ModelConfig& config);

/// Whether a document is a configuration of *Energy-Adaptive Distributed Training* (`training_config.yaml`): it has a
/// section `training`, `deepspeed` or `mps`, or Hugging Face's `model_name_or_path`, and no `model`.
[[nodiscard]] bool is_eadt_config(const YamlView& root);

}  // namespace lowgear::model
