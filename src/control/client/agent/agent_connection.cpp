#include "control/client/agent/agent_connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "base/ipc/descriptor_passing.h"
#include "base/ipc/unix_address.h"

namespace lowgear {
namespace {

[[noreturn]] void throw_system_error(std::string_view what) {
  throw Error(fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

void throw_if_ended(const Frame& frame) {
  if (frame.type == FrameType::ended) throw LeaseEnded(decode_ended(frame.payload).reason);
}

}  // namespace

MappedUnitRing::MappedUnitRing(const FileDescriptor& memory) {
  struct stat status {};
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  if (::fstat(memory.get(), &status) != 0 || status.st_size != static_cast<off_t>(sizeof(UnitRing)) ||
      (::fcntl(memory.get(), F_GET_SEALS) & kSeals) != kSeals) {
    throw Error("the agent shares no unit ring of this version; use a client and an agent of the same release");
  }
  void* mapped = ::mmap(nullptr, sizeof(UnitRing), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) throw_system_error("the agent's unit ring cannot be mapped");
  ring_ = static_cast<UnitRing*>(mapped);
  if (ring_->magic != kUnitRingMagic || ring_->version != kUnitRingVersion || ring_->capacity != kUnitRingCapacity) {
    ::munmap(mapped, sizeof(UnitRing));
    throw Error("the agent shares a unit ring of another version; use a client and an agent of the same release");
  }
}

MappedUnitRing::~MappedUnitRing() { ::munmap(ring_, sizeof(UnitRing)); }

AgentConnection::AgentConnection(const std::filesystem::path& socket, const HelloMessage& hello,
                                 std::chrono::milliseconds timeout) {
  const Deadline deadline = std::chrono::steady_clock::now() + timeout;
  connect(socket);
  send_all(encode(hello), deadline);
  const Frame frame = receive(deadline);
  if (frame.type == FrameType::refused) throw LeaseRefused(decode_refused(frame.payload).reason);
  if (frame.type != FrameType::lease || !received_) throw Error("the agent answers with something else than a lease");
  lease_ = decode_lease(frame.payload);
  ring_ = std::make_shared<MappedUnitRing>(received_);
  received_.reset();
}

void AgentConnection::connect(const std::filesystem::path& socket) {
  const UnixAddress address = UnixAddress::of_path(socket);
  socket_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) throw_system_error("no socket");
  if (::connect(socket_.get(), address.get(), address.size()) != 0) {
    throw Error(fmt::format("{}: {}", printable(socket.native()),
                            errno == EACCES ? "this user may not use the agent; its configuration names who may"
                                            : "no agent answers (" + std::generic_category().message(errno) + ")"));
  }
}

void AgentConnection::wait_for(short events, Deadline deadline) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) throw Error("the agent does not answer");
    pollfd entry{.fd = socket_.get(), .events = events, .revents = 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<long long>(left.count(), 60'000)));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw_system_error("poll");
  }
}

void AgentConnection::send_all(const std::vector<std::byte>& bytes, Deadline deadline) {
  std::span<const std::byte> rest(bytes);
  while (!rest.empty()) {
    const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      rest = rest.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      wait_for(POLLOUT, deadline);
    } else if (errno != EINTR) {
      throw_system_error("the agent is gone");
    }
  }
}

Frame AgentConnection::receive(Deadline deadline) {
  for (;;) {
    if (auto frame = reader_.next()) {
      throw_if_ended(*frame);
      return *std::move(frame);
    }
    wait_for(POLLIN, deadline);
    receive_some();
  }
}

void AgentConnection::receive_some() {
  std::array<std::byte, 4096> bytes{};
  const ssize_t received = receive_with_descriptor(socket_.get(), bytes, received_);
  if (received < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (received < 0) throw_system_error("the agent is gone");
  if (received == 0) throw Error("the agent has closed the connection");
  reader_.append(std::span(bytes).first(static_cast<std::size_t>(received)));
}

PlanAnswer AgentConnection::send_plan(const PlanMessage& plan, std::chrono::milliseconds timeout) {
  const Deadline deadline = std::chrono::steady_clock::now() + timeout;
  try {
    send_all(encode(plan), deadline);
  } catch (const Error&) {
    check();  // the agent may have said why it has closed the connection
    throw;
  }
  const Frame frame = receive(deadline);
  if (frame.type == FrameType::accepted) return AcceptedMessage{};
  if (frame.type == FrameType::refused) return decode_refused(frame.payload);
  if (frame.type == FrameType::too_late) return decode_too_late(frame.payload);
  throw Error("the agent answers a plan with something else");
}

void AgentConnection::check() {
  pollfd entry{.fd = socket_.get(), .events = POLLIN | POLLRDHUP, .revents = 0};
  for (;;) {
    // What has arrived counts also when the connection has closed since: it may say that the lease was ended.
    if (const std::optional<Frame> frame = reader_.next()) {
      throw_if_ended(*frame);
      throw Error("the agent sends what was not asked for");
    }
    if (::poll(&entry, 1, 0) <= 0) return;
    receive_some();
  }
}

void AgentConnection::release() noexcept {
  try {
    send_all(encode_empty(FrameType::release), std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
  } catch (const std::exception&) {
    // The agent is gone, or the closed socket will tell it.
  }
  socket_.reset();
}

}  // namespace lowgear
