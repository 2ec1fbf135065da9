#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear {

/// Largest document that a reader accepts: a profile, a configuration, a record of a run.
inline constexpr std::size_t kMaxDocumentBytes = std::size_t{1} << 26;
/// Largest file that grows with time or data: a recording, samples, a log, a text to train on.
inline constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;

/// The whole file; a pipe up to its end. Throws InputError with the path and the system's reason when it is missing,
/// unreadable, a directory, a device other than a terminal or /dev/null, or larger than `max_bytes`, of which no more
/// is read; also when it is an archive or another known kind of binary file (`known_file_kind`), or a pointer of Git
/// LFS.
/// `-` reads standard input.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::size_t max_bytes = kMaxDocumentBytes);

/// Throws InputError when the path is an address (`https://...`), which no command reads.
void require_no_address(const std::filesystem::path& path);

/// Makes renames in a folder durable. Does nothing on a file system that does not support it.
void flush_directory(const std::filesystem::path& path);

/// Swaps two folders of one parent: atomically, or on a file system that cannot do that (NFS) by renames that are
/// undone when one fails. After a kill between the renames, `settle_exchange` repairs. Throws InputError and Error
/// as write_file_atomically, naming `b`.
void exchange_directories(const std::filesystem::path& a, const std::filesystem::path& b);

/// Whether an `exchange_directories(a, b)` has set this folder aside and may have left it; then `a` is the path without
/// its `.old`.
[[nodiscard]] bool is_set_aside(const std::filesystem::path& path);

/// Completes an interrupted `exchange_directories(a, b)`: afterwards `b` exists, unchanged or exchanged, and nothing is
/// set aside. Does nothing if there was none. Throws as that does.
void settle_exchange(const std::filesystem::path& a, const std::filesystem::path& b);

/// Writes the file whole or not at all: a temporary file next to it, flushed to the disk, then renamed over it. A
/// symbolic link stays and its target is replaced; a device or FIFO is written straight, as nothing can be renamed over
/// it. Throws InputError when the folder cannot be written to and Error when writing fails (a full disk); the temporary
/// is removed.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// Whether `write_file_atomically` can begin to write there; to check before computing a result for long. Throws
/// InputError as that does.
void check_writable(const std::filesystem::path& path);

/// A file that is written piece by piece in a temporary file next to its target and appears there complete on `commit`,
/// or not at all: the destructor removes an uncommitted file. For content too large to hold in memory.
class StagedFile {
 public:
  /// Throws InputError when the folder cannot be written to, or `target` is there and is no regular file. A symbolic
  /// link stays and its target is replaced.
  explicit StagedFile(const std::filesystem::path& target);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  /// Appends. Throws Error when that fails (a full disk).
  void write(std::string_view content);
  /// Overwrites bytes at `offset`, for a header whose values are known last; appending continues at the end.
  void overwrite(std::size_t offset, std::string_view content);
  /// Flushes to the disk and renames over the target. Throws Error when that fails; the target is then as before.
  void commit();

 private:
  std::filesystem::path name_;       ///< as given, for messages
  std::filesystem::path target_;     ///< with links followed
  std::filesystem::path temporary_;  ///< empty once committed
  int descriptor_ = -1;
};

/// Throws InputError when `folder` is a mount point or the current folder: another cannot be renamed over these.
void check_replaceable(const std::filesystem::path& folder);

/// A folder that is filled in a temporary folder next to its target and appears there on `commit`, complete and with a
/// manifest of its files (base/core/files/folder_manifest.h), or not at all: the destructor removes an uncommitted
/// folder. Whole also when the program is killed at any time (a temporary may stay), but not flushed: a power
/// failure may lose it.
class StagedDirectory {
 public:
  /// Throws InputError when `target` cannot be created, is a file, a mount point or the current folder (none of which a
  /// folder can be renamed over), or exists and is neither empty nor an earlier output: one that holds a file named
  /// `marker`, and nothing that its manifest does not list.
  StagedDirectory(const std::filesystem::path& target, std::string marker);
  ~StagedDirectory();
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;

  /// Writes one file below the folder; folders in between are made. Throws Error when that fails (a full disk).
  void write(const std::filesystem::path& relative, std::string_view content);
  /// Moves the filled folder to its target, replacing an earlier output of the same marker. Throws Error when the
  /// system refuses, and InputError when foreign files were added to the target meanwhile; the target is then
  /// unchanged.
  void commit();
  /// Where `commit` has put the earlier output, if the system refused to remove all of it; else empty.
  [[nodiscard]] const std::filesystem::path& left_behind() const { return left_behind_; }

 private:
  void check_target() const;
  void make_parents();
  void remove_made_parents() const noexcept;

  std::filesystem::path target_;
  std::filesystem::path staging_;
  std::filesystem::path left_behind_;
  std::string marker_;
  std::vector<std::filesystem::path> made_parents_;  ///< innermost first
  bool committed_ = false;
};

}  // namespace lowgear
