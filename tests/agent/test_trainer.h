#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/core/files/file_descriptor.h"
#include "base/core/op_kind.h"
#include "base/ipc/lease_messages.h"
#include "base/ipc/unit_ring.h"

namespace lowgear::agent {

/// The client's side of the lease socket, as bare as it gets, for tests that want to do things wrong.
class TestTrainer {
 public:
  /// Connects; throws Error when no process listens.
  explicit TestTrainer(const std::filesystem::path& socket);
  ~TestTrainer();
  TestTrainer(const TestTrainer&) = delete;
  TestTrainer& operator=(const TestTrainer&) = delete;

  void send(const std::vector<std::byte>& bytes);
  /// The next frame of the agent, and its descriptor if it carries one. Empty when the agent has closed the connection.
  /// Throws Error when nothing comes for ten seconds.
  [[nodiscard]] std::optional<ipc::Frame> receive();

  /// Says hello. Throws Error with the agent's reason when it refuses.
  ipc::LeaseMessage take_lease(const std::string& gpu, std::uint32_t rank = 0);
  /// Hands over a plan. Throws Error with the agent's reason when it refuses.
  void hand_over(const ipc::PlanMessage& plan);
  void release();
  [[nodiscard]] ipc::UnitRing& ring() { return *ring_; }
  void begin_unit(OpKind kind, std::uint32_t microbatch, std::uint16_t stage = 0);
  void begin_iteration(std::uint32_t iteration);
  [[nodiscard]] int socket() const { return socket_.get(); }

 private:
  void map_ring();

  FileDescriptor socket_;
  FileDescriptor received_;  ///< descriptor that came with the last bytes
  ipc::FrameReader reader_;
  ipc::UnitRing* ring_ = nullptr;
};

/// The plan of rank 0 for any GPU, with clocks as they are.
[[nodiscard]] ipc::PlanMessage plan_message(std::string plan_json);

/// A plan of one rank (stage 0) and some microbatches: forwards at one clock, then backwards at the other.
[[nodiscard]] std::string two_clock_plan(int microbatches, int forward_mhz, int backward_mhz);

/// A training process for as long as it lives: takes the lease, hands over a plan and runs units of some milliseconds.
[[noreturn]] void train_until_killed(const std::filesystem::path& socket, const std::string& gpu, std::uint32_t rank,
                                     std::uint64_t seed);

}  // namespace lowgear::agent
