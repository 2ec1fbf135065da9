#include "client/test_agent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <new>
#include <utility>

#include "base/core/error.h"
#include "base/ipc/unix_socket.h"

namespace lowgear::client {
namespace {

constexpr std::size_t kRememberedUnits = 100'000;

bool readable(int descriptor, int timeout_ms) {
  pollfd entry{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, timeout_ms) > 0;
}

void send_all(int connection, const std::vector<std::byte>& bytes) {
  if (::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) {
    throw Error("the client is gone");
  }
}

void accept_and_end(int connection, std::string reason) {
  std::vector<std::byte> bytes = encode_empty(ipc::FrameType::accepted);
  const std::vector<std::byte> ended = encode(ipc::EndedMessage{.reason = std::move(reason)});
  bytes.insert(bytes.end(), ended.begin(), ended.end());
  send_all(connection, bytes);
  ::shutdown(connection, SHUT_RDWR);
}

}  // namespace

struct TestAgent::Ring {
  Ring(bool seals, std::uint32_t version) : memory(::memfd_create("test-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    if (::ftruncate(memory.get(), sizeof(ipc::UnitRing)) != 0) throw Error("ftruncate");
    void* mapped = ::mmap(nullptr, sizeof(ipc::UnitRing), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    if (mapped == MAP_FAILED) throw Error("mmap");
    ring = new (mapped) ipc::UnitRing;
    ring->version = version;
    if (seals) ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    reader.emplace(*ring);
  }
  ~Ring() { ::munmap(ring, sizeof(ipc::UnitRing)); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  FileDescriptor memory;
  ipc::UnitRing* ring = nullptr;
  std::optional<ipc::UnitRingReader> reader;
};

TestAgent::TestAgent(std::string socket, TestAgentBehaviour behaviour)
    : path_(std::move(socket)),
      behaviour_(std::move(behaviour)),
      listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const ipc::UnixAddress address = ipc::UnixAddress::of_path(path_);
  ::unlink(path_.c_str());
  if (::bind(listener_.get(), address.get(), address.size()) != 0 || ::listen(listener_.get(), 8) != 0) {
    throw Error(path_ + ": cannot be listened to");
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
}

TestAgent::~TestAgent() {
  thread_.request_stop();
  thread_.join();
  ::unlink(path_.c_str());
}

std::vector<ipc::PlanMessage> TestAgent::plans() const {
  const std::lock_guard lock(mutex_);
  return plans_;
}
std::vector<ipc::HelloMessage> TestAgent::hellos() const {
  const std::lock_guard lock(mutex_);
  return hellos_;
}
std::vector<ipc::UnitEvent> TestAgent::units() const {
  const std::lock_guard lock(mutex_);
  return units_;
}
void TestAgent::set_requested_clock(std::uint32_t clock_mhz) {
  const std::lock_guard lock(mutex_);
  if (ring_) ring_->ring->requested_clock_mhz = clock_mhz;
}

void TestAgent::set_clocks_held(bool held) {
  const std::lock_guard lock(mutex_);
  ring_->ring->clocks_not_held = held ? 0 : 1;
}

void TestAgent::set_unplanned(std::uint64_t units, const ipc::UnitEvent& newest) {
  const std::lock_guard lock(mutex_);
  ring_->ring->unplanned_unit = pack_unit(newest);
  ring_->ring->unplanned_units = units;
}

void TestAgent::refuse_plans(std::optional<std::string> reason) {
  const std::lock_guard lock(mutex_);
  behaviour_.refuse_plan = std::move(reason);
}

std::optional<std::string> TestAgent::ending() const {
  const std::lock_guard lock(mutex_);
  return ending_;
}

void TestAgent::end_lease(std::string reason) {
  std::unique_lock lock(mutex_);
  ending_ = std::move(reason);
  ended_.wait(lock, [this] { return !ending_; });
}

void TestAgent::serve(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (!readable(listener_.get(), 5)) continue;
    FileDescriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    try {
      talk(connection.get(), stop);
    } catch (const Error&) {
      // The client has gone: the next may come.
    }
    connection.reset();
    const std::lock_guard lock(mutex_);
    ending_.reset();
    ended_.notify_all();
  }
}

void TestAgent::talk(int connection, const std::stop_token& stop) {
  ipc::FrameReader reader;
  std::array<std::byte, 65536> bytes{};
  while (!stop.stop_requested()) {
    read_units();
    if (const auto reason = ending()) return send_all(connection, encode(ipc::EndedMessage{.reason = *reason}));
    if (!readable(connection, 1)) continue;
    const ssize_t size = ::recv(connection, bytes.data(), bytes.size(), 0);
    if (size <= 0) break;
    reader.append(std::span(bytes).first(static_cast<std::size_t>(size)));
    while (const auto frame = reader.next()) answer(connection, *frame);
  }
  read_units();
}

void TestAgent::answer(int connection, const ipc::Frame& frame) {
  if (!behaviour_.answers) return;
  if (behaviour_.talks_nonsense) return send_all(connection, std::vector<std::byte>(64, std::byte{0x41}));
  switch (frame.type) {
    case ipc::FrameType::hello:
      return give_lease(connection, ipc::decode_hello(frame.payload));
    case ipc::FrameType::plan: {
      const ipc::PlanMessage plan = ipc::decode_plan(frame.payload);
      std::optional<std::string> refusal;
      {
        const std::lock_guard lock(mutex_);
        plans_.push_back(plan);
        if (plan.plan_json == behaviour_.refuse_only.value_or(plan.plan_json)) refusal = behaviour_.refuse_plan;
      }
      if (behaviour_.end_with_plan) return accept_and_end(connection, *behaviour_.end_with_plan);
      if (behaviour_.plans_are_too_late && plan.from_iteration)
        return send_all(connection, encode(ipc::TooLateMessage{}));
      return send_all(connection,
                      refusal ? encode(ipc::RefusedMessage{*refusal}) : encode_empty(ipc::FrameType::accepted));
    }
    case ipc::FrameType::release:
      ++released_;
      return;
    default:
      return;
  }
}

void TestAgent::give_lease(int connection, const ipc::HelloMessage& hello) {
  {
    const std::lock_guard lock(mutex_);
    hellos_.push_back(hello);
  }
  if (behaviour_.refuse) {
    return send_all(connection, encode(ipc::RefusedMessage{*behaviour_.refuse, behaviour_.refusal_lasts}));
  }
  auto ring = std::make_shared<Ring>(behaviour_.seals, behaviour_.ring_version);
  ipc::LeaseMessage lease;
  lease.lease_id = 7;
  lease.gpu_uuid = hello.gpu;
  lease.max_clock_mhz = 1980;
  lease.simulated = true;
  lease.dry_run = behaviour_.dry_run;
  {
    const std::lock_guard lock(mutex_);
    ring_ = ring;  // before the client knows of it
  }
  if (ipc::send_with_descriptor(connection, encode(lease), ring->memory.get()) < 0) throw Error("the client is gone");
}

void TestAgent::read_units() {
  const std::lock_guard lock(mutex_);
  if (!ring_) return;
  std::array<ipc::UnitEvent, ipc::kUnitRingCapacity> buffer;
  const auto batch = ring_->reader->read(buffer);
  events_ += batch.events;
  for (std::size_t i = 0; i < batch.events && units_.size() < kRememberedUnits; ++i) units_.push_back(buffer[i]);
}

}  // namespace lowgear::client
