#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/journal/file_locks.h"
#include "base/core/error.h"
#include "hardware/gpu/gpu_setting.h"

namespace lowgear::agent {

/// Power smoothing as far as the agent sets it.
struct OriginalPowerSmoothing {
  bool enabled = false;
  std::optional<int> preset;  ///< empty where the GPU does not report it

  bool operator==(const OriginalPowerSmoothing&) const = default;
};

/// State of a GPU before the agent first wrote to it. NVML cannot read locked clocks, so they are restored to the
/// driver's default.
struct OriginalGpuState {
  std::string uuid;
  std::string pci_address;
  std::optional<double> power_limit_w;  ///< empty where the GPU does not report it
  std::optional<bool> persistence_mode;
  std::optional<gpu::WorkloadPowerProfileSet> workload_power_profiles =
      {};                                                      ///< requested; empty where the GPU has none
  std::optional<OriginalPowerSmoothing> power_smoothing = {};  ///< empty where the GPU has none

  bool operator==(const OriginalGpuState&) const = default;
};

/// By UUID.
using ChangedGpus = std::map<std::string, OriginalGpuState, std::less<>>;

/// The contents of a journal.
struct JournalContent {
  ChangedGpus changed;  ///< GPUs that may not be as they were
  /// No whole copy is left, or two that differ: a GPU that is not listed may be changed, too.
  bool damaged = false;
  /// The journal is damaged, but a whole copy is left, which says everything.
  bool healed = false;
};

/// Reads a journal. If any single bit of one is flipped, or less than half of it is lost, it is `healed` and lists the
/// same GPUs. One without a single byte is damaged: a journal that names no GPU says so.
[[nodiscard]] JournalContent parse_journal(std::string_view bytes);

/// The file of a journal. Every call may throw Error, and then leaves the same file as a crash at that moment.
class JournalStorage {
 public:
  virtual ~JournalStorage() = default;

  /// Empty where there was no journal before; of one that was lost, no bytes.
  [[nodiscard]] virtual std::optional<std::string> read() = 0;
  /// Puts new content in the place of the old one, whole or not at all, and on the disk.
  virtual void replace(std::string_view bytes) = 0;
  /// Why nothing can be written at all, and what to do, in one line; empty when something can.
  [[nodiscard]] virtual std::string unwritable() const { return {}; }
};

/// Another agent uses the journal.
class JournalHeld : public InputError {
 public:
  JournalHeld(const std::string& message, LockHolder holder) : InputError(message), holder_(std::move(holder)) {}
  [[nodiscard]] const LockHolder& holder() const { return holder_; }

 private:
  LockHolder holder_;
};

/// A journal in a folder of its own, which is made if need be and held as long as this lives, by a process that answers
/// at `control_socket` (empty: nowhere). On a file system for reading only it can be read, and is `unwritable`. Throws
/// JournalHeld, and InputError when another user could have changed it (base/core/files/user_database.h).
[[nodiscard]] std::unique_ptr<JournalStorage> open_journal_folder(const std::filesystem::path& folder,
                                                                  const std::filesystem::path& control_socket = {});
/// Reads the journal in a folder, whoever holds it, and writes nothing. Throws InputError when there was none, and
/// as `open_journal_folder`.
[[nodiscard]] JournalContent read_journal_folder(const std::filesystem::path& folder);
/// A journal that forgets, for a dry run, which changes nothing.
[[nodiscard]] std::unique_ptr<JournalStorage> discarding_journal();

/// Records, across crashes of agent and machine, which GPUs have to be restored and to which state. A GPU is recorded
/// on disk before it is first written to, and removed after it has been restored. Thread-safe.
class Journal {
 public:
  /// Reads the journal, and writes it where there is none or it was healed. Throws Error when it cannot be read; one
  /// that cannot be written is read, and refuses changes.
  explicit Journal(std::unique_ptr<JournalStorage> storage);

  /// GPUs that may not be as they were.
  [[nodiscard]] std::vector<OriginalGpuState> changed() const;
  [[nodiscard]] std::optional<OriginalGpuState> changed(std::string_view uuid) const;
  /// It was damaged when it was opened: every GPU that may be controlled has to be restored.
  [[nodiscard]] bool damaged() const { return damaged_; }
  /// Damage that was found at opening, even without a loss, and what to do, in one line; empty
  /// when nothing was.
  [[nodiscard]] const std::string& damage() const { return damage_; }
  /// As that of its storage: it can only be read.
  [[nodiscard]] std::string unwritable() const { return storage_->unwritable(); }

  /// On return this is on the disk, and the GPU may be written to. Does nothing when the GPU is recorded already.
  /// Throws Error when it cannot be written (a full disk): the GPU must then not be written to.
  void record_change(const OriginalGpuState& original);
  /// The GPU is as it was. After damage, and where nothing can be written, that is kept in memory alone. Throws Error;
  /// it will then be restored once more at the next start, which does no harm.
  void record_restored(std::string_view uuid);
  /// Everything has been restored after damage: starts over.
  void clear();

 private:
  /// Throws Error; the journal is then unchanged.
  void write(ChangedGpus changed);

  mutable std::mutex mutex_;
  std::unique_ptr<JournalStorage> storage_;
  ChangedGpus changed_;
  bool damaged_ = false;
  std::string damage_;
};

}  // namespace lowgear::agent
