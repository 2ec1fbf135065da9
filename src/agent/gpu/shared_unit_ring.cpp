#include "agent/gpu/shared_unit_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <string>
#include <system_error>

#include "base/core/error.h"

namespace lowgear::agent {
namespace {

[[noreturn]] void throw_ring_error(const char* call) {
  throw Error(std::string("no memory can be shared with the client: ") + call + ": " +
              std::generic_category().message(errno));
}

}  // namespace

SharedUnitRing::SharedUnitRing() : descriptor_(::memfd_create("lowgear-unit-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (!descriptor_) throw_ring_error("memfd_create");
  if (::ftruncate(descriptor_.get(), sizeof(ipc::UnitRing)) != 0) throw_ring_error("ftruncate");
  void* memory = ::mmap(nullptr, sizeof(ipc::UnitRing), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.get(), 0);
  if (memory == MAP_FAILED) throw_ring_error("mmap");
  ring_ = new (memory) ipc::UnitRing;  // NOLINT(cppcoreguidelines-owning-memory): the mapping's
  if (::fcntl(descriptor_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    ::munmap(memory, sizeof(ipc::UnitRing));
    throw_ring_error("sealing");
  }
}

SharedUnitRing::~SharedUnitRing() { ::munmap(ring_, sizeof(ipc::UnitRing)); }

}  // namespace lowgear::agent
