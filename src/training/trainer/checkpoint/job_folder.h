#pragma once

#include <filesystem>
#include <functional>

#include "base/core/files/file_descriptor.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Runs `action` on every rank of `world`. When it throws on any, all ranks throw what the first such rank did, with
/// its number: InputError or Error, at most 1000 bytes. Where the action meets with other ranks it must do so also when
/// it is going to fail.
void together(Collective& world, const std::function<void()>& action);

/// A folder that all ranks of a job write together.
struct JobFolder {
  std::filesystem::path target;
  /// On every rank: writes its files, flushed, into the temporary folder.
  std::function<void(const std::filesystem::path& folder)> write;
  /// On rank 0, once all have written: completes the folder.
  std::function<void(const std::filesystem::path& folder)> finish;
  /// On rank 0, right before the replacement: throws when the target may not be replaced. May be empty.
  std::function<void()> require_replaceable = {};
};

/// Fills a temporary folder next to the target and renames it there, in the place of an earlier one: the target is
/// complete or what it was, also when ranks are killed or the power fails at any moment (see exchange_directories).
/// A link stays, and its target is replaced. Ranks on several machines need a file system that
/// they share. When one fails, all throw as `together` does, and the written files are removed; when the folder was
/// complete and could not be put at its target, it stays where the message says.
void write_together(Collective& world, const JobFolder& folder);

/// For one rank, before the job: repairs what a killed job may have left between the target and its temporary, and
/// checks that the temporary can be created. Throws InputError and Error.
void prepare_target(const std::filesystem::path& target);

/// The temporary folder of a target, which a killed job may leave.
[[nodiscard]] std::filesystem::path temporary_of(const std::filesystem::path& target);
/// Whether it is the temporary of some target.
[[nodiscard]] bool is_temporary(const std::filesystem::path& path);

/// Repairs targets in a folder after killed jobs, and removes all temporaries there.
void clean_up_targets(const std::filesystem::path& folder);

/// Restricts a folder of checkpoints to one training: a lock on its file `lock`, which names the process that holds it,
/// or the last one that could write to the file. The lock ends with the object, and with the process however it ends.
/// Machines that share the folder see each other's locks if its file system supports them; without support there is no
/// protection.
class FolderLock {
 public:
  /// Throws InputError when another training has the folder, and when the file can be neither written nor read.
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  FileDescriptor file_;
};

}  // namespace lowgear::trainer
