#include "agent/gpu/shared_unit_ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lowgear::agent {
namespace {

TEST(SharedUnitRing, IsTheSameMemoryForBothSides) {
  SharedUnitRing shared;
  void* memory = ::mmap(nullptr, sizeof(ipc::UnitRing), PROT_READ | PROT_WRITE, MAP_SHARED, shared.descriptor(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* client = static_cast<ipc::UnitRing*>(memory);
  EXPECT_EQ(client->magic, ipc::kUnitRingMagic);
  EXPECT_EQ(client->capacity, ipc::kUnitRingCapacity);
  client->written.store(7);
  EXPECT_EQ(shared.ring().written.load(), 7U);
  ::munmap(memory, sizeof(ipc::UnitRing));
}

TEST(SharedUnitRing, CanBeNeitherCutOffNorGrown) {
  const SharedUnitRing shared;
  EXPECT_NE(::ftruncate(shared.descriptor(), 1), 0);
  EXPECT_NE(::ftruncate(shared.descriptor(), 1 << 20), 0);
  struct stat found {};
  ASSERT_EQ(::fstat(shared.descriptor(), &found), 0);
  EXPECT_EQ(found.st_size, static_cast<off_t>(sizeof(ipc::UnitRing)));
}

TEST(SharedUnitRing, TakesNoFurtherSeals) {
  // A client that could forbid writing would end the agent's writes with a signal.
  const SharedUnitRing shared;
  EXPECT_NE(::fcntl(shared.descriptor(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

}  // namespace
}  // namespace lowgear::agent
