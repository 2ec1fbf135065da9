#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/yaml.h"
#include "estimating/model/family.h"
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
  /// Elements of a list of whole numbers.
  [[nodiscard]] virtual std::vector<std::int64_t> integers(std::string_view key) const = 0;
  /// The members of an object within this one.
  [[nodiscard]] virtual std::unique_ptr<ConfigMembers> object(std::string_view key) const = 0;
  /// The value as it is written: a scalar, the element of a list of one, `[]`, `{}`, else `...`.
  [[nodiscard]] virtual std::string written(std::string_view key) const = 0;
  /// Throws at the member, which must exist.
  [[noreturn]] virtual void fail(std::string_view key, std::string_view what, std::string_view fix = {}) const = 0;
};

/// Throws InputError at a number that is not from `low` to `high`.
[[nodiscard]] double number_from(const ConfigMembers& members, std::string_view key, double low, double high);

/// Whether a value as it is written is one of `values`, which are separated by `|`; numbers are compared as such.
[[nodiscard]] bool is_one_of(std::string_view written, std::string_view values);

/// Notes about all members that an estimate ignores. `windowed` says whether the model has windowed layers.
[[nodiscard]] std::vector<std::string> estimate_notes(const ConfigMembers& members, const Family& family,
                                                      bool windowed);

/// Throws InputError at the first member that is refused.
void require_supported_members(const ConfigMembers& members, const Family& family);

/// Throws InputError at the first member with a value that the trainer does not compute, and at unknown members.
void require_trained_members(const ConfigMembers& members, const Family& family);

/// `rope_scaling`, or `rope_parameters` of transformers 5, of a model of `max_positions`. Throws InputError on unknown
/// kinds and members. `own` are members that the family has there besides.
[[nodiscard]] RopeScaling read_rope_scaling(const ConfigMembers& object, std::int64_t max_positions,
                                            const std::vector<std::string_view>& own);

/// Whether a document is a configuration of *Energy-Adaptive Distributed Training* (`training_config.yaml`): it has a
/// section `training`, `deepspeed` or `mps`, or Hugging Face's `model_name_or_path`, and no `model`.
[[nodiscard]] bool is_eadt_config(const YamlView& root);

}  // namespace lowgear::model
