#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "client/fake_cuda/loaded_fake_cuda.h"
#include "client/lowgear.h"
#include "client/test_agent.h"

// Takes the place of the C library's allocator in this program and all libraries that it loads, to count calls. The
// names after it are glibc's own.
namespace {
thread_local std::uint64_t thread_allocations = 0;
}
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): glibc's names
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(std::size_t bytes) noexcept {
  ++thread_allocations;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  ++thread_allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) noexcept {
  ++thread_allocations;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  ++thread_allocations;
  return __libc_memalign(alignment, bytes);
}
}

namespace lowgear::client {
namespace {

constexpr std::uint32_t kUnits = 10'000;

/// The shared library as a training process uses it, on a simulated GPU.
class AllocationTest : public testing::Test {
 protected:
  AllocationTest() {
    std::string name = (std::filesystem::temp_directory_path() / "lg-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    setenv("LOWGEAR_SIMGPU", (folder_ / "machine").c_str(), 1);
    setenv("LOWGEAR_NVML", LOWGEAR_NVML_LIBRARY, 1);
  }
  ~AllocationTest() override {
    lowgear_close(client_);
    std::filesystem::remove_all(folder_);
  }

  void open(const char* server = "") {
    const std::string socket = this->socket();
    const std::string recording = (folder_ / "recording").string();
    lowgear_options options = LOWGEAR_OPTIONS_INIT;
    options.agent_socket = socket.c_str();
    options.recording = recording.c_str();
    options.server = server;
    options.job_spec = R"({"run": "r"})";
    ASSERT_EQ(lowgear_open(&options, &client_), LOWGEAR_OK) << lowgear_last_error();
  }
  [[nodiscard]] std::string socket() const { return (folder_ / "lease.sock").string(); }
  [[nodiscard]] lowgear_status status() const {
    lowgear_status status{};
    status.struct_size = sizeof status;
    lowgear_get_status(client_, &status);
    return status;
  }
  /// Allocations of this thread while it marks an iteration of so many units.
  [[nodiscard]] std::uint64_t allocations_of_units() const {
    const std::uint64_t before = thread_allocations;
    lowgear_iteration_begin(client_);
    for (std::uint32_t i = 0; i < kUnits; ++i) {
      lowgear_unit_begin(client_, LOWGEAR_FORWARD, 0, i);
      lowgear_unit_end(client_, LOWGEAR_FORWARD, 0, i);
    }
    lowgear_iteration_end(client_);
    return thread_allocations - before;
  }
  /// Expects the first units of an iteration and others afterwards, so that both answers of a check are met.
  void expect_half() const {
    std::vector<lowgear_unit> units;
    for (std::uint32_t i = 0; i < kUnits; ++i) units.push_back({LOWGEAR_FORWARD, 0, i < kUnits / 2 ? i : 0});
    ASSERT_EQ(lowgear_expect(client_, units.data(), units.size(), 0), LOWGEAR_OK);
  }

  std::filesystem::path folder_;
  lowgear_client* client_ = nullptr;
};

TEST_F(AllocationTest, MarkingUnitsAllocatesNothingWithAnAgent) {
  TestAgent agent(socket());
  open();
  ASSERT_EQ(status().has_lease, 1) << status().problem;
  EXPECT_EQ(allocations_of_units(), 0);
  EXPECT_EQ(status().units, kUnits);
}

TEST_F(AllocationTest, MarkingUnitsAllocatesNothingWithAServer) {
  TestAgent agent(socket());
  open("unix:/no/such/server");
  EXPECT_EQ(allocations_of_units(), 0);
  EXPECT_EQ(status().units, kUnits);
}

TEST_F(AllocationTest, MarkingUnitsAllocatesNothingWithoutOne) {
  open();
  ASSERT_EQ(status().has_lease, 0);
  EXPECT_EQ(allocations_of_units(), 0);
  EXPECT_EQ(status().units, kUnits);
}

TEST_F(AllocationTest, CheckingMarksAllocatesNothing) {
  TestAgent agent(socket());
  open();
  expect_half();
  EXPECT_EQ(allocations_of_units(), 0);
  EXPECT_EQ(status().differing_iterations, 1);
  EXPECT_EQ(status().following, 0);
  EXPECT_EQ(allocations_of_units(), 0);
}

TEST_F(AllocationTest, MarkingOnAStreamAllocatesNothing) {
  const LoadedFakeCuda cuda(LOWGEAR_FAKE_CUDA);
  cuda.set("idle", 1);
  setenv("LOWGEAR_CUDA", cuda.path().c_str(), 1);
  TestAgent agent(socket());
  open();
  ASSERT_EQ(lowgear_use_stream(client_, this), LOWGEAR_OK);
  ASSERT_EQ(status().stream_marks, 1) << status().stream_problem;
  EXPECT_EQ(allocations_of_units(), 0);
  EXPECT_EQ(cuda.count("writes"), 2 + 2 * static_cast<int>(kUnits) - static_cast<int>(status().lost));
}

/// Or the others could not fail.
TEST_F(AllocationTest, SeesAllocationsOfTheProgramAndOfTheLibrary) {
  const std::uint64_t before = thread_allocations;
  const auto memory = std::make_unique<std::vector<int>>(std::size_t{100});
  EXPECT_GE(thread_allocations - before, 2) << memory->size();
  const std::uint64_t before_open = thread_allocations;
  open();
  EXPECT_GT(thread_allocations - before_open, 100);
}

}  // namespace
}  // namespace lowgear::client
