#include "base/core/op_kind.h"

#include <algorithm>
#include <cstddef>

namespace lowgear {
namespace {

struct KindNames {
  std::string_view name;
  char letter = 0;
};

/// By number.
constexpr std::array<KindNames, kOpKindCount> kKinds = {{{"forward", 'F'},
                                                         {"backward", 'B'},
                                                         {"input_gradient", 'I'},
                                                         {"weight_gradient", 'W'},
                                                         {"forward_backward", '?'},
                                                         {"recomputation", 'R'},
                                                         {"recomputing_backward", 'C'}}};

const KindNames& names_of(OpKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

}  // namespace

std::string_view name(OpKind kind) { return names_of(kind).name; }

std::optional<OpKind> op_kind_from_name(std::string_view text) {
  const auto found = std::ranges::find(kScheduledKinds, text, [](OpKind kind) { return name(kind); });
  return found == kScheduledKinds.end() ? std::nullopt : std::optional(*found);
}

std::string op_kind_names() {
  std::string names;
  for (const OpKind kind : kScheduledKinds) {
    if (!names.empty()) names += kind == kScheduledKinds.back() ? " and " : ", ";
    names += name(kind);
  }
  return names;
}

char letter(OpKind kind) { return names_of(kind).letter; }

}  // namespace lowgear
