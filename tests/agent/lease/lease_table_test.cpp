#include "agent/lease/lease_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::agent {
namespace {

class GpuAssignmentsTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "assignments.json";
};

TEST_F(GpuAssignmentsTest, AreOfOneJobUntilItGivesThemBack) {
  GpuAssignments assignments;
  EXPECT_EQ(assignments.find("GPU-1"), nullptr);
  assignments.set("GPU-1", {.uid = 2001, .job = "12"});
  EXPECT_EQ(*assignments.find("GPU-1"), (GpuAssignment{.uid = 2001, .job = "12"}));
  assignments.set("GPU-1", {.uid = 2002, .job = "13"});
  EXPECT_FALSE(assignments.remove("GPU-1", "12")) << "it is the next job's by now";
  EXPECT_FALSE(assignments.remove("GPU-2", "13"));
  EXPECT_TRUE(assignments.remove("GPU-1", "13"));
  EXPECT_EQ(assignments.find("GPU-1"), nullptr);
}

TEST_F(GpuAssignmentsTest, OutliveTheAgentAndNotTheMachine) {
  GpuAssignments(file_, "boot").set("GPU-1", {.uid = 2001, .job = "a \"b\""});
  EXPECT_EQ(*GpuAssignments(file_, "boot").find("GPU-1"), (GpuAssignment{.uid = 2001, .job = "a \"b\""}));
  const GpuAssignment named{.uid = 2001, .job = "12", .sluid = "s5K1KKYAYG5D00"};
  GpuAssignments(file_, "boot").set("GPU-2", named);
  EXPECT_EQ(*GpuAssignments(file_, "boot").find("GPU-2"), named);
  const GpuAssignments next(file_, "next boot");
  EXPECT_EQ(next.find("GPU-1"), nullptr);
  EXPECT_EQ(next.damage(), "");
}

TEST_F(GpuAssignmentsTest, AreNoneWhereTheFileIsDamagedAndSaySo) {
  for (const char* text : {"", "{", "[]", R"({"format": "x", "boot": "boot", "gpus": []})",
                           R"({"format": "lowgear.gpu-assignments/1", "boot": "boot"})",
                           R"({"format": "lowgear.gpu-assignments/1", "boot": "boot", "gpus": [{"uuid": "G"}]})",
                           R"({"format": "lowgear.gpu-assignments/1", "boot": "boot",
                               "gpus": [{"uuid": "G", "uid": -1, "job": "1"}]})"}) {
    write_file_atomically(file_, text);
    GpuAssignments assignments(file_, "boot");
    EXPECT_THAT(assignments.damage(), testing::HasSubstr("assignments.json")) << text;
    EXPECT_EQ(assignments.find("G"), nullptr);
    EXPECT_NO_THROW(assignments.set("G", {.uid = 1, .job = "2"}));
    EXPECT_EQ(GpuAssignments(file_, "boot").damage(), "");
  }
}

TEST_F(GpuAssignmentsTest, StayAsTheyAreWhereTheyCannotBeWritten) {
  GpuAssignments assignments(folder_ / "no folder" / "assignments.json", "boot");
  EXPECT_THROW(assignments.set("GPU-1", {.uid = 2001, .job = "12"}), Error);
  EXPECT_EQ(assignments.find("GPU-1"), nullptr);
}

}  // namespace
}  // namespace lowgear::agent
