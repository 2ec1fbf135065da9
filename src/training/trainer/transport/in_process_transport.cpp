#include "training/trainer/transport/in_process_transport.h"

#include <cmath>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/core/error.h"

namespace lowgear::trainer {
namespace {

/// A message from one rank to another, until both sides have met.
struct Message {
  at::Tensor sent;
  at::Tensor received;
  bool done = false;
};

/// One call of a collective, until every rank has taken its result.
struct Meeting {
  std::vector<at::Tensor> given;
  at::Tensor result;
  int arrived = 0;
};

using Link = std::tuple<std::string, int, int>;  ///< pipeline, from, to

struct LinkState {
  std::deque<std::shared_ptr<Message>> unsent;      ///< receives that wait for their send
  std::deque<std::shared_ptr<Message>> unreceived;  ///< sends that wait for their receive
};

}  // namespace

class InProcessHub::State {
 public:
  std::shared_ptr<Message> send(const Link& link, const at::Tensor& tensor) {
    const std::scoped_lock lock(mutex_);
    LinkState& state = links_[link];
    auto message = meet(state.unsent, state.unreceived);
    message->sent = tensor;
    deliver(*message);
    return message;
  }

  std::shared_ptr<Message> receive(const Link& link, const at::Tensor& tensor) {
    const std::scoped_lock lock(mutex_);
    LinkState& state = links_[link];
    auto message = meet(state.unreceived, state.unsent);
    message->received = tensor;
    deliver(*message);
    return message;
  }

  void wait(const Message& message) {
    wait_until([&] { return message.done; });
  }

  /// The meeting of the group's `number`-th call.
  std::shared_ptr<Meeting> arrive(const std::string& group, std::uint64_t number, int rank, int size,
                                  const at::Tensor& tensor) {
    const std::scoped_lock lock(mutex_);
    auto& meeting = meetings_[{group, number}];
    if (!meeting) {
      meeting = std::make_shared<Meeting>();
      meeting->given.resize(static_cast<std::size_t>(size));
    }
    std::shared_ptr<Meeting> joined = meeting;
    joined->given[static_cast<std::size_t>(rank)] = tensor.detach().clone();
    if (++joined->arrived == size) {
      meetings_.erase({group, number});
      changed_.notify_all();
    }
    return joined;
  }

  void wait(const Meeting& meeting) {
    wait_until([&] { return meeting.arrived == static_cast<int>(meeting.given.size()); });
  }

  void abort() {
    const std::scoped_lock lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }

 private:
  static std::shared_ptr<Message> meet(std::deque<std::shared_ptr<Message>>& waiting,
                                       std::deque<std::shared_ptr<Message>>& others) {
    if (waiting.empty()) return others.emplace_back(std::make_shared<Message>());
    auto message = waiting.front();
    waiting.pop_front();
    return message;
  }

  void deliver(Message& message) {
    if (!message.sent.defined() || !message.received.defined()) return;
    const torch::autograd::AutoGradMode no_gradient(false);
    message.received.copy_(message.sent);
    message.done = true;
    changed_.notify_all();
  }

  void wait_until(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return aborted_ || condition(); });
    if (!condition()) throw Error("another rank has failed");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Link, LinkState> links_;
  std::map<std::pair<std::string, std::uint64_t>, std::shared_ptr<Meeting>> meetings_;
  bool aborted_ = false;
};

namespace {

class Waiting final : public PendingTransfer {
 public:
  explicit Waiting(std::function<void()> wait) : wait_(std::move(wait)) {}
  void wait() override { wait_(); }

 private:
  std::function<void()> wait_;
};

class InProcessPipeline final : public PointToPoint {
 public:
  InProcessPipeline(std::shared_ptr<InProcessHub::State> hub, std::string name, int position)
      : hub_(std::move(hub)), name_(std::move(name)), position_(position) {}

  std::unique_ptr<PendingTransfer> send(const at::Tensor& tensor, int peer) override {
    return pending(hub_->send({name_, position_, peer}, tensor));
  }
  std::unique_ptr<PendingTransfer> receive(const at::Tensor& tensor, int peer) override {
    return pending(hub_->receive({name_, peer, position_}, tensor));
  }

 private:
  std::unique_ptr<PendingTransfer> pending(std::shared_ptr<Message> message) {
    return std::make_unique<Waiting>([hub = hub_, message = std::move(message)] { hub->wait(*message); });
  }

  std::shared_ptr<InProcessHub::State> hub_;
  std::string name_;
  int position_;
};

class InProcessGroup final : public Collective {
 public:
  InProcessGroup(std::shared_ptr<InProcessHub::State> hub, std::string name, int rank, int size)
      : hub_(std::move(hub)), name_(std::move(name)), rank_(rank), size_(size) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  std::unique_ptr<PendingTransfer> start_all_reduce(const at::Tensor& tensor, Reduction reduction) override {
    return std::make_unique<Waiting>([this, meeting = arrive(tensor), tensor, reduction] {
      hub_->wait(*meeting);
      copy(tensor, reduced(*meeting, reduction));
    });
  }
  std::unique_ptr<PendingTransfer> start_reduce(const at::Tensor& tensor, int root) override {
    return std::make_unique<Waiting>([this, meeting = arrive(tensor), tensor, root] {
      hub_->wait(*meeting);
      // No rank may rely on what the others are left with.
      if (rank_ == root)
        copy(tensor, reduced(*meeting, Reduction::sum));
      else
        copy(tensor, at::full_like(tensor, NAN));
    });
  }
  void all_gather(const at::Tensor& all, const at::Tensor& part) override {
    const auto meeting = arrive(part);
    hub_->wait(*meeting);
    copy(all, at::cat(meeting->given));
  }
  void reduce_scatter(const at::Tensor& part, const at::Tensor& all) override {
    const auto meeting = arrive(all);
    hub_->wait(*meeting);
    copy(part, reduced(*meeting, Reduction::sum).chunk(size_)[static_cast<std::size_t>(rank_)]);
  }
  void broadcast(const at::Tensor& tensor, int root) override {
    const auto meeting = arrive(tensor);
    hub_->wait(*meeting);
    copy(tensor, meeting->given[static_cast<std::size_t>(root)]);
  }

 private:
  std::shared_ptr<Meeting> arrive(const at::Tensor& tensor) {
    return hub_->arrive(name_, calls_++, rank_, size_, tensor);
  }
  /// In the order of the ranks, so that all see the same sum.
  static at::Tensor reduced(const Meeting& meeting, Reduction reduction) {
    at::Tensor result = meeting.given.front().clone();
    for (std::size_t i = 1; i < meeting.given.size(); ++i) {
      if (reduction == Reduction::sum)
        result.add_(meeting.given[i]);
      else
        result = at::maximum(result, meeting.given[i]);
    }
    return result;
  }
  static void copy(const at::Tensor& target, const at::Tensor& source) {
    const torch::autograd::AutoGradMode no_gradient(false);
    target.copy_(source);
  }

  std::shared_ptr<InProcessHub::State> hub_;
  std::string name_;
  int rank_;
  int size_;
  std::uint64_t calls_ = 0;
};

}  // namespace

InProcessHub::InProcessHub() : state_(std::make_shared<State>()) {}
InProcessHub::~InProcessHub() = default;

std::unique_ptr<PointToPoint> InProcessHub::pipeline(const std::string& name, int position) {
  return std::make_unique<InProcessPipeline>(state_, name, position);
}

std::unique_ptr<Collective> InProcessHub::group(const std::string& name, int rank, int size) {
  return std::make_unique<InProcessGroup>(state_, name, rank, size);
}

void InProcessHub::abort() { state_->abort(); }

}  // namespace lowgear::trainer
