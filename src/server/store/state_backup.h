#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "server/store/store.h"

namespace lowgear::server {

/// The digest of a backup stands at its end, where SQLite looks at nothing: a bit that has changed anywhere in the file
/// shows, also one that makes another value of a row.
enum class BackupSeal : unsigned char {
  missing,
  broken,  ///< the file is not as it was sealed
  whole,
};

/// Appends the digest to a file that has none, and flushes it. Throws Error when the disk refuses.
void seal_backup(const std::filesystem::path& file);
/// Reads all of the file. Throws InputError when it cannot be read.
[[nodiscard]] BackupSeal backup_seal(const std::filesystem::path& file);

/// Rows that a server which starts with them could not read, one line each.
using UnreadableRows = std::function<std::vector<std::string>(StoreContents)>;

/// A state or a backup that has lost something. The message lists the findings, a line each.
class DamagedState : public Error {
 public:
  using Error::Error;
};

/// Contents of a database of the server.
struct StateSummary {
  std::int64_t bytes = 0;
  std::int64_t open_jobs = 0;
  std::int64_t finished_jobs = 0;
};

enum class BackupKind : unsigned char {
  copy,   ///< the server may run, and continues
  final,  ///< no server runs, and none starts from the folder any more: its jobs move to another one
};

struct BackupRequest {
  std::filesystem::path state;  ///< folder of the server
  std::filesystem::path file;   ///< to be made
  BackupKind kind = BackupKind::copy;
  UnreadableRows unreadable = {};  ///< may be empty: then rows are not read
};

/// Throws InputError where `back_up` could not begin: there is no state, the file exists, its disk has no room, a
/// server runs and the backup is to be final. Changes nothing.
[[nodiscard]] StateSummary check_backup(const BackupRequest& request);

/// Writes one moment of the state into a new file (mode 0600: it holds the keys of ranks) with its digest, reads all of
/// it again, and only then gives it its name. It has all changes that the server acknowledged before. A final backup
/// then marks the folder as moved. Throws as `check_backup`, DamagedState when rows cannot be read, and Error when the
/// disk refuses; there is no file then.
StateSummary back_up(const BackupRequest& request);

struct RestoreRequest {
  std::filesystem::path file;      ///< that `back_up` wrote
  std::filesystem::path state;     ///< folder of a server that does not run; made if need be
  UnreadableRows unreadable = {};  ///< may be empty: then rows are not read
};

/// Throws InputError where `restore` could not begin: the file is another program's, or of another schema; the folder
/// is in use or has a database, unless that has moved (a final backup). Throws DamagedState when the file is not as
/// `back_up` wrote it, or has rows that cannot be read. Changes nothing.
[[nodiscard]] StateSummary check_restore(const RestoreRequest& request);

/// Makes the folder's database from the file, whole or not at all. A database that has moved stays next to it as
/// `server.db.moved`. Throws as `check_restore`, and Error when the disk refuses; the folder is then as before.
StateSummary restore(const RestoreRequest& request);

}  // namespace lowgear::server
