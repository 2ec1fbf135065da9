#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/core/files/file_descriptor.h"
#include "base/ipc/lease_messages.h"
#include "base/ipc/unit_ring.h"

namespace lowgear::client {

/// How a test's agent treats clients.
struct TestAgentBehaviour {
  std::optional<std::string> refuse;         ///< refuses leases with this reason, for now
  std::optional<std::string> refuse_plan;    ///< refuses plans with this reason
  std::optional<std::string> refuse_only{};  ///< of these only the one that reads so
  bool plans_are_too_late = false;           ///< those that name an iteration
  bool answers = true;                       ///< false: never says anything
  bool seals = true;                         ///< false: shares memory that it could cut off
  std::uint32_t ring_version = ipc::kUnitRingVersion;
  bool talks_nonsense = false;  ///< answers with bytes that are no frame
  /// Takes a plan and in the same breath ends the lease, with this reason, and closes the connection.
  std::optional<std::string> end_with_plan{};
  bool refusal_lasts = false;  ///< of leases
  bool dry_run = false;        ///< gives leases and sets no clocks
};

/// An agent as small as it gets, on a socket, for the client's tests: gives leases, takes plans, reads units.
class TestAgent {
 public:
  explicit TestAgent(std::string socket, TestAgentBehaviour behaviour = {});
  /// Closes everything, as an agent that is killed.
  ~TestAgent();
  TestAgent(const TestAgent&) = delete;
  TestAgent& operator=(const TestAgent&) = delete;

  [[nodiscard]] std::vector<ipc::PlanMessage> plans() const;
  [[nodiscard]] std::vector<ipc::HelloMessage> hellos() const;
  /// Events that arrived, oldest first, as long as there are few.
  [[nodiscard]] std::vector<ipc::UnitEvent> units() const;
  [[nodiscard]] std::uint64_t events() const { return events_; }
  [[nodiscard]] int released() const { return released_; }
  /// What the agent has asked the driver for.
  void set_requested_clock(std::uint32_t clock_mhz);
  /// Whether the GPU runs at the plan's clocks.
  void set_clocks_held(bool held);
  /// Units that the plan does not name, the newest of them this one.
  void set_unplanned(std::uint64_t units, const ipc::UnitEvent& newest);
  /// Refuses plans from now on, for this reason, or takes them again.
  void refuse_plans(std::optional<std::string> reason);
  /// Ends the lease of the client that is connected, as a person does. Returns when the connection is closed.
  void end_lease(std::string reason);

 private:
  struct Ring;

  void serve(const std::stop_token& stop);
  void talk(int connection, const std::stop_token& stop);
  void answer(int connection, const ipc::Frame& frame);
  void give_lease(int connection, const ipc::HelloMessage& hello);
  void read_units();
  [[nodiscard]] std::optional<std::string> ending() const;

  std::string path_;
  TestAgentBehaviour behaviour_;
  FileDescriptor listener_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<ipc::PlanMessage> plans_;
  std::vector<ipc::HelloMessage> hellos_;
  std::vector<ipc::UnitEvent> units_;
  std::shared_ptr<Ring> ring_;
  std::optional<std::string> ending_;  ///< why the lease is to end
  std::atomic<std::uint64_t> events_{0};
  std::atomic<int> released_{0};
  std::jthread thread_;
};

}  // namespace lowgear::client
