#include "agent/writing/unattended_gpus.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "agent/writing/configured_policy.h"
#include "agent/writing/restore.h"
#include "base/core/error.h"

namespace lowgear::agent {
namespace {

/// `gpu` as it is called where one reads it: `GPU 0000:17:00.0`.
std::string not_controlled(std::string_view gpu) {
  return fmt::format(
      "{} did not respond when the agent started, and is not controlled; restart the agent when it responds", gpu);
}

UnattendedGpu missing_gpu(std::string name, std::string problem) {
  return {.name = std::move(name), .configured = true, .left_changed = false, .problem = std::move(problem)};
}

/// The entry of a GPU that the journal names; a new one where the configuration does not name it.
UnattendedGpu& entry_of(const OriginalGpuState& state, std::vector<UnattendedGpu>& unattended) {
  gpu::GpuIdentity identity;
  identity.uuid = state.uuid;
  identity.pci_address = state.pci_address;
  for (UnattendedGpu& gpu : unattended) {
    if (!gpu.name.empty() && is_called(identity, gpu.name)) return gpu;
  }
  return unattended.emplace_back();
}

std::vector<UnattendedGpu> missing_gpus(const Config& config, const gpu::GpuSystem& system) {
  std::vector<UnattendedGpu> missing;
  for (const std::string& name : config.gpus) {
    const bool there =
        std::ranges::any_of(system.gpus(), [&](const auto& gpu) { return is_called(gpu->identity(), name); });
    const bool known = std::ranges::find(missing, name, &UnattendedGpu::name) != missing.end();
    if (!there && !known) missing.push_back(missing_gpu(name, not_controlled("GPU " + name)));
  }
  if (!config.all_gpus) return missing;
  for (const std::string& problem : system.problems()) {
    missing.push_back(missing_gpu("", fmt::format("{} ({})", not_controlled("a GPU"), problem)));
  }
  return missing;
}

}  // namespace

std::vector<UnattendedGpu> find_unattended_gpus(const Config& config, const gpu::GpuSystem& system,
                                                const Journal& journal) {
  std::vector<UnattendedGpu> unattended = missing_gpus(config, system);
  const std::vector<std::string> controlled = controlled_gpus(config, system);
  for (const OriginalGpuState& state : journal.changed()) {
    if (std::ranges::find(controlled, state.uuid) != controlled.end()) continue;
    UnattendedGpu& gpu = entry_of(state, unattended);
    gpu.name = state.uuid;
    gpu.left_changed = true;
    gpu.problem =
        fmt::format("GPU {}: was left changed, and could not be restored yet; the agent tries again", state.uuid);
  }
  return unattended;
}

/// All that the thread uses; shared with it, as it may stay within the driver for longer than its owner lives.
class UnattendedGpus::Loop {
 public:
  Loop(std::vector<UnattendedGpu> gpus, std::shared_ptr<Journal> journal, UnattendedGpusOptions options)
      : gpus_(std::move(gpus)), journal_(std::move(journal)), options_(std::move(options)) {}

  void run();
  void stop();
  void ask(std::function<void()> done);
  [[nodiscard]] std::vector<UnattendedGpu> list() const;

 private:
  void wait(std::unique_lock<std::mutex>& lock);
  void attempt();
  void restore(gpu::GpuControlSystem& system, const std::string& uuid);
  void restored(const std::string& uuid);
  void failed(const std::string& uuid, const std::string& problem);
  [[nodiscard]] std::vector<std::string> left_changed() const;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<UnattendedGpu> gpus_;            // under mutex_
  std::vector<std::function<void()>> askers_;  // under mutex_
  bool stopping_ = false;                      // under mutex_

  // The thread's own, and what may be called from any.
  std::shared_ptr<Journal> journal_;
  UnattendedGpusOptions options_;
};

void UnattendedGpus::Loop::run() {
  ::pthread_setname_np(::pthread_self(), "lowgear-left");
  std::unique_lock lock(mutex_);
  while (true) {
    wait(lock);
    if (stopping_) return;
    const std::vector<std::function<void()>> askers = std::exchange(askers_, {});
    lock.unlock();
    attempt();
    for (const std::function<void()>& done : askers) done();
    lock.lock();
  }
}

void UnattendedGpus::Loop::wait(std::unique_lock<std::mutex>& lock) {
  const auto called = [this] { return stopping_ || !askers_.empty(); };
  if (std::ranges::any_of(gpus_, &UnattendedGpu::left_changed)) {
    wake_.wait_for(lock, options_.retry_after, called);
  } else {
    wake_.wait(lock, called);
  }
}

void UnattendedGpus::Loop::stop() {
  const std::scoped_lock lock(mutex_);
  stopping_ = true;
  wake_.notify_all();
}

void UnattendedGpus::Loop::ask(std::function<void()> done) {
  const std::scoped_lock lock(mutex_);
  askers_.push_back(std::move(done));
  wake_.notify_all();
}

std::vector<UnattendedGpu> UnattendedGpus::Loop::list() const {
  const std::scoped_lock lock(mutex_);
  std::vector<UnattendedGpu> gpus = gpus_;
  if (journal_->damaged()) {
    UnattendedGpu& unknown = gpus.emplace_back();
    unknown.left_changed = true;
    unknown.problem =
        "the journal is damaged, and not every GPU that it may have named could be restored; repair the GPU or name "
        "only others in the configuration, and restart the agent, which tries again";
  }
  return gpus;
}

std::vector<std::string> UnattendedGpus::Loop::left_changed() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> uuids;
  for (const UnattendedGpu& gpu : gpus_) {
    if (gpu.left_changed) uuids.push_back(gpu.name);
  }
  return uuids;
}

void UnattendedGpus::Loop::attempt() {
  const std::vector<std::string> uuids = left_changed();
  if (uuids.empty()) return;
  try {
    const std::unique_ptr<gpu::GpuControlSystem> system = options_.open();
    for (const std::string& uuid : uuids) restore(*system, uuid);
  } catch (const Error& error) {
    for (const std::string& uuid : uuids) {
      failed(uuid, fmt::format("GPU {}: was left changed, and is not restored: {}", uuid, error.what()));
    }
  }
}

void UnattendedGpus::Loop::restore(gpu::GpuControlSystem& system, const std::string& uuid) {
  try {
    if (const std::optional<OriginalGpuState> original = journal_->changed(uuid)) {
      const std::string outcome = restore_recorded(*journal_, system, *original);
      if (options_.note) options_.note(outcome);
    }
    restored(uuid);
  } catch (const Error& error) {
    failed(uuid, error.what());
  }
}

void UnattendedGpus::Loop::restored(const std::string& uuid) {
  const std::scoped_lock lock(mutex_);
  const auto gpu = std::ranges::find(gpus_, uuid, &UnattendedGpu::name);
  if (gpu->configured) {
    gpu->left_changed = false;
    gpu->problem = not_controlled("GPU " + uuid);
  } else {
    gpus_.erase(gpu);
  }
}

void UnattendedGpus::Loop::failed(const std::string& uuid, const std::string& problem) {
  const std::scoped_lock lock(mutex_);
  const auto gpu = std::ranges::find(gpus_, uuid, &UnattendedGpu::name);
  gpu->problem = problem;
}

UnattendedGpus::UnattendedGpus(std::vector<UnattendedGpu> gpus, std::shared_ptr<Journal> journal,
                               UnattendedGpusOptions options)
    : loop_(std::make_shared<Loop>(std::move(gpus), std::move(journal), std::move(options))),
      thread_([loop = loop_] { loop->run(); }) {}

UnattendedGpus::~UnattendedGpus() { loop_->stop(); }

std::vector<UnattendedGpu> UnattendedGpus::list() const { return loop_->list(); }

std::future<void> UnattendedGpus::restore() {
  const auto tried = std::make_shared<std::promise<void>>();
  restore([tried] { tried->set_value(); });
  return tried->get_future();
}

void UnattendedGpus::restore(std::function<void()> done) { loop_->ask(std::move(done)); }

}  // namespace lowgear::agent
