#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::estimator {

/// The members of a config.json, whatever they are written in. All throw InputError that says where.
class ConfigMembers {
 public:
  virtual ~ConfigMembers() = default;
  [[nodiscard]] virtual std::vector<std::string> keys() const = 0;
  /// Whether the member is there, and not as null.
  [[nodiscard]] virtual bool has(std::string_view key) const = 0;
  [[nodiscard]] virtual std::int64_t integer(std::string_view key) const = 0;
  [[nodiscard]] virtual std::string text(std::string_view key) const = 0;
  [[nodiscard]] virtual bool boolean(std::string_view key) const = 0;
  /// Elements of a list of texts.
  [[nodiscard]] virtual std::vector<std::string> texts(std::string_view key) const = 0;
  /// The value as it is written: a scalar, the element of a list of one, `[]`, `{}`, else `...`.
  [[nodiscard]] virtual std::string written(std::string_view key) const = 0;
  /// `key` must be there.
  [[noreturn]] virtual void fail(std::string_view key, std::string_view what, std::string_view fix = {}) const = 0;
};

/// A family of transformers, as `model_type` names it, and the class that is a language model.
struct TransformerFamily {
  std::string_view model_type;
  unsigned bit = 0;  ///< of ConfigMember::families
  std::string_view architecture;
};
[[nodiscard]] std::span<const TransformerFamily> transformer_families();

/// What becomes of a member in an estimate.
enum class MemberVerdict : unsigned char {
  modelled,            ///< it is part of the shape, or refused where it contradicts others
  without_effect,      ///< it does not change what training costs
  refused,             ///< another value than a harmless one is an error
  noted,               ///< another value than a harmless one is not modelled, and said so
  noted_with_windows,  ///< the same, of a model with layers that are windowed; without effect on others
};

/// A member of the configurations of some families.
struct ConfigMember {
  std::string_view name;
  unsigned families = 0;  ///< bits of those that have it
  MemberVerdict verdict = MemberVerdict::modelled;
  std::string_view harmless = {};  ///< of `refused` and `noted`: values as they are written, separated by `|`
  std::string_view what = {};      ///< of `refused`: what is wrong; of `noted`: what is estimated instead
  std::string_view missing = {};   ///< of `noted`: the value that a missing member stands for, if not a harmless one
};

/// Every member of the configuration classes of Hugging Face transformers for the families above, but for those that
/// change nothing in any of them (model/config_members.h), and what the estimate takes from the job instead.
[[nodiscard]] std::span<const ConfigMember> config_members();

/// The member in the configurations of a family, or null.
[[nodiscard]] const ConfigMember* find_member(const TransformerFamily& family, std::string_view name);

/// Goes through all members that are there: refuses what is refused, and returns what is noted or not known, in words.
/// `windowed` says whether layers of the model are.
[[nodiscard]] std::vector<std::string> check_members(const ConfigMembers& members, const TransformerFamily& family,
                                                     bool windowed);

}  // namespace lowgear::estimator
