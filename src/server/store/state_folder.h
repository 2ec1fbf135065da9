#pragma once

#include <filesystem>
#include <string>

#include "base/core/files/file_descriptor.h"

namespace lowgear::server {

/// The server's folder, made with mode 0700 if need be and held for this process as long as this lives.
class StateFolder {
 public:
  /// Throws InputError when it cannot be made or written to, when others could change it
  /// (base/core/files/user_database.h), and when another server holds it, naming that one's process.
  explicit StateFolder(const std::filesystem::path& folder);

  /// Whether the server can write into the folder, if there is one. Throws InputError.
  static void check(const std::filesystem::path& folder);

  /// The database, made with mode 0600 if need be.
  [[nodiscard]] std::filesystem::path database() const { return database_of(folder_); }
  [[nodiscard]] static std::filesystem::path database_of(const std::filesystem::path& folder) {
    return folder / "server.db";
  }

  /// A folder whose state has moved to another server: two servers with the same jobs would each acknowledge what the
  /// other one does not know. `where` says when and into which file, in one line.
  void mark_moved(const std::string& where) const;
  void clear_moved() const;
  /// What `mark_moved` said; empty: it has not moved.
  [[nodiscard]] static std::string moved(const std::filesystem::path& folder);
  /// Throws InputError when it has moved.
  static void require_not_moved(const std::filesystem::path& folder);

 private:
  std::filesystem::path folder_;
  FileDescriptor lock_;
};

}  // namespace lowgear::server
