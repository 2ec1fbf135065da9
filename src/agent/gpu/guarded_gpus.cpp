#include "agent/gpu/guarded_gpus.h"

#include <fmt/format.h>

namespace lowgear::agent {

std::size_t GuardedGpus::index_of(std::string_view uuid_or_pci_address) const {
  std::string known;
  for (std::size_t index = 0; index < identities_.size(); ++index) {
    const gpu::GpuIdentity& identity = identities_[index];
    if (is_called(identity, uuid_or_pci_address)) return index;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", identity.uuid, identity.pci_address);
  }
  throw InputError(fmt::format("there is no GPU {}; {}", quote(uuid_or_pci_address),
                               known.empty() ? "this machine has none" : "those of this machine are " + known));
}

}  // namespace lowgear::agent
