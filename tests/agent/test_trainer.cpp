#include "agent/test_trainer.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <random>
#include <thread>

#include "base/core/error.h"
#include "base/core/monotonic_clock.h"
#include "base/ipc/unix_socket.h"
#include "planning/plan/plan_json.h"

namespace lowgear::agent {
namespace {

constexpr int kAnswerLimitMs = 10'000;

std::uint64_t event_time_ns() { return static_cast<std::uint64_t>(monotonic_ns()); }

void throw_if_refused(const ipc::Frame& frame) {
  if (frame.type == ipc::FrameType::refused) throw Error(ipc::decode_refused(frame.payload).reason);
}

}  // namespace

TestTrainer::TestTrainer(const std::filesystem::path& socket)
    : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const ipc::UnixAddress address = ipc::UnixAddress::of_path(socket);
  if (::connect(socket_.get(), address.get(), address.size()) != 0) {
    throw Error(socket.string() + ": no process listens there");
  }
}

TestTrainer::~TestTrainer() {
  if (ring_ != nullptr) ::munmap(ring_, sizeof(ipc::UnitRing));
}

void TestTrainer::send(const std::vector<std::byte>& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t now = ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) throw Error("the agent has closed the connection");
    sent += static_cast<std::size_t>(now);
  }
}

std::optional<ipc::Frame> TestTrainer::receive() {
  while (true) {
    if (std::optional<ipc::Frame> frame = reader_.next()) return frame;
    pollfd readable{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, kAnswerLimitMs) != 1) throw Error("the agent does not answer");
    std::array<std::byte, 4096> buffer{};
    const ssize_t bytes = ipc::receive_with_descriptor(socket_.get(), buffer, received_);
    if (bytes <= 0) return std::nullopt;
    reader_.append(std::span(buffer).first(static_cast<std::size_t>(bytes)));
  }
}

ipc::LeaseMessage TestTrainer::take_lease(const std::string& gpu, std::uint32_t rank) {
  send(encode(ipc::HelloMessage{.gpu = gpu, .rank = rank, .job = "test"}));
  const std::optional<ipc::Frame> answer = receive();
  if (!answer) throw Error("the agent has closed the connection");
  throw_if_refused(*answer);
  map_ring();
  return ipc::decode_lease(answer->payload);
}

void TestTrainer::map_ring() {
  void* memory = ::mmap(nullptr, sizeof(ipc::UnitRing), PROT_READ | PROT_WRITE, MAP_SHARED, received_.get(), 0);
  if (memory == MAP_FAILED) throw Error("no ring came with the lease");
  ring_ = static_cast<ipc::UnitRing*>(memory);
}

void TestTrainer::hand_over(const ipc::PlanMessage& plan) {
  send(encode(plan));
  const std::optional<ipc::Frame> answer = receive();
  if (!answer) throw Error("the agent has closed the connection");
  throw_if_refused(*answer);
}

void TestTrainer::release() { send(encode_empty(ipc::FrameType::release)); }

void TestTrainer::begin_unit(OpKind kind, std::uint32_t microbatch, std::uint16_t stage) {
  write_unit(*ring_, {.time_ns = event_time_ns(),
                      .type = ipc::UnitEventType::unit_begin,
                      .kind = static_cast<std::uint8_t>(kind),
                      .stage = stage,
                      .microbatch = microbatch});
}

void TestTrainer::begin_iteration(std::uint32_t iteration) {
  write_unit(*ring_,
             {.time_ns = event_time_ns(), .type = ipc::UnitEventType::iteration_begin, .microbatch = iteration});
}

ipc::PlanMessage plan_message(std::string plan_json) {
  ipc::PlanMessage message;
  message.plan_json = std::move(plan_json);
  return message;
}

std::string two_clock_plan(int microbatches, int forward_mhz, int backward_mhz) {
  plan::Plan plan;
  plan.policy = "test";
  plan.schedule = "gpipe";
  plan.microbatches = microbatches;
  plan.switches = 2;
  plan.ranks.resize(1);
  for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
    for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
      plan.ranks[0].push_back({.kind = kind,
                               .microbatch = microbatch,
                               .clock_mhz = kind == OpKind::forward ? forward_mhz : backward_mhz,
                               .start_s = plan.time_s,
                               .duration_s = 0.01});
      plan.time_s += 0.01;
    }
  }
  plan.deadline_s = plan.time_s;
  return write_plan(plan);
}

void train_until_killed(const std::filesystem::path& socket, const std::string& gpu, std::uint32_t rank,
                        std::uint64_t seed) {
  constexpr int kMicrobatches = 4;
  constexpr unsigned kLifeLimitS = 60;
  ::alarm(kLifeLimitS);
  std::mt19937_64 random(seed);
  const auto work = [&random] {
    std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution<int>(200, 4'000)(random)));
  };
  while (true) {
    try {
      TestTrainer trainer(socket);
      trainer.take_lease(gpu, rank);
      trainer.hand_over(plan_message(two_clock_plan(kMicrobatches, 1305, 1605)));
      for (std::uint32_t iteration = 0; random() % 64 != 0; ++iteration) {
        trainer.begin_iteration(iteration);
        for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
          for (std::uint32_t microbatch = 0; microbatch < kMicrobatches; ++microbatch) {
            trainer.begin_unit(kind, microbatch);
            work();
          }
        }
      }
    } catch (const Error&) {
      work();  // the agent is being restarted, or still restores what the last trainer left
    }
  }
}

}  // namespace lowgear::agent
