#include "base/core/formats/gpu_uuid.h"

#include <gtest/gtest.h>

namespace lowgear {
namespace {

TEST(GpuUuid, IsOneTextWhateverItsCase) {
  EXPECT_EQ(normal_gpu_uuid("GPU-0A1B2C3D-4E5F"), "GPU-0a1b2c3d-4e5f");
  EXPECT_EQ(normal_gpu_uuid("gpu-0a1b2c3d-4e5f"), "GPU-0a1b2c3d-4e5f");
  EXPECT_EQ(normal_gpu_uuid("mig-0A1B"), "MIG-0a1b");
}

TEST(GpuUuid, IsOneTextWithoutItsPrefixOrWithBlanksAroundIt) {
  const std::string whole = "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
  EXPECT_EQ(normal_gpu_uuid("0A1B2C3D-4e5f-6071-8293-a4b5c6d7e8f9"), whole);
  EXPECT_EQ(normal_gpu_uuid(" " + whole + "\n"), whole);
}

TEST(GpuUuid, LeavesOtherTextsAlone) {
  for (const char* const text : {"", " ", "GPU", "Number 3", "MIG-GPU-0A1B/1/0", "GPU-Xyz"}) {
    EXPECT_EQ(normal_gpu_uuid(text), text);
  }
}

}  // namespace
}  // namespace lowgear
