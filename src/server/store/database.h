#pragma once

struct sqlite3;
struct sqlite3_stmt;

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/core/error.h"

namespace lowgear::server {

/// What kind of refusal SQLite's was.
enum class DatabaseFault : unsigned char {
  disk_full,   ///< also a quota
  constraint,  ///< the row contradicts the schema or another row
  damaged,     ///< no database, or not what SQLite wrote
  locked,      ///< another connection holds it
  other,
};

/// The message names the file and says what SQLite said.
class DatabaseError : public Error {
 public:
  DatabaseError(DatabaseFault fault, const std::string& message) : Error(message), fault_(fault) {}
  [[nodiscard]] DatabaseFault fault() const { return fault_; }

 private:
  DatabaseFault fault_;
};

/// A connection to an SQLite file, for one thread at a time. Every call throws DatabaseError.
class Database {
 public:
  enum class Sharing : unsigned char {
    shared,     ///< others may read (a backup while the server runs)
    exclusive,  ///< no other connection may; needs no file for shared memory, for which a full disk has no room
  };
  enum class Opening : unsigned char {
    make,       ///< made if need be
    existing,   ///< has to be there
    read_only,  ///< has to be there, and stays as it is
  };
  /// Opens the file. Every commit is on the disk when it returns.
  Database(std::filesystem::path path, Sharing sharing, Opening opening = Opening::make);
  /// Lets commits be appended to a log next to the file, from now on and in every later connection: one flush each.
  void use_write_ahead_log();

  /// Runs statements that return no rows.
  void execute(const char* sql);
  /// The only value of the only row of a query.
  [[nodiscard]] std::int64_t integer(const char* sql);
  /// Replaces everything in `target` by the content of this file: one moment of it, also while others write to it.
  void copy_to(Database& target);
  /// Reads all of the file; empty when it is whole, otherwise the first damage that was found.
  [[nodiscard]] std::string damage();
  /// Whether a transaction is open. SQLite ends one by itself on some errors (a full disk).
  [[nodiscard]] bool in_transaction() const;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Throws what SQLite's result code means.
  [[noreturn]] void fail(int code) const;

 private:
  friend class Statement;
  friend class Transaction;
  friend class Savepoint;
  struct Close {
    void operator()(sqlite3* connection) const;
  };

  std::filesystem::path path_;
  std::unique_ptr<sqlite3, Close> connection_;
};

/// A prepared statement, to be run many times. Parameters are bound in order; texts are copied.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);

  /// Rows of one run. The statement can be run again once this has gone.
  class Rows {
   public:
    ~Rows();
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;

    /// Goes to the next row; false after the last one.
    [[nodiscard]] bool next();
    [[nodiscard]] std::int64_t integer(int column) const;
    [[nodiscard]] int small_integer(int column) const;
    [[nodiscard]] double number(int column) const;
    [[nodiscard]] std::optional<double> optional_number(int column) const;
    [[nodiscard]] std::string text(int column) const;

   private:
    friend class Statement;
    explicit Rows(Statement& statement) : statement_(&statement) {}
    Statement* statement_;
  };

  template <typename... Values>
  [[nodiscard]] Rows query(const Values&... values) {
    int index = 0;
    (bind(++index, values), ...);
    return Rows(*this);
  }
  /// Runs to the end; returns how many rows were changed.
  template <typename... Values>
  std::int64_t execute(const Values&... values) {
    Rows rows = query(values...);
    while (rows.next()) {
    }
    return changes();
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  void bind(int index, std::int64_t value);
  void bind(int index, int value) { bind(index, std::int64_t{value}); }
  void bind(int index, double value);
  void bind(int index, const std::optional<double>& value);
  void bind(int index, std::string_view value);
  void check(int code) const;
  [[nodiscard]] std::int64_t changes() const;

  Database* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// Begins a transaction that writes; rolled back unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  /// On return all of it is on the disk.
  void commit();

 private:
  Database* database_;
};

/// A part of a transaction that is undone by itself unless kept.
class Savepoint {
 public:
  explicit Savepoint(Database& database);
  ~Savepoint();
  Savepoint(const Savepoint&) = delete;
  Savepoint& operator=(const Savepoint&) = delete;

  void keep();

 private:
  Database* database_;
  bool kept_ = false;
};

/// Number of the schema, which a file states. It rises with every change of a table or of a stored document's meaning.
inline constexpr std::int64_t kStoreSchema = 7;

/// False for an empty file. Throws InputError for one that is another program's, or of another schema.
[[nodiscard]] bool has_schema(Database& database);

/// Makes the tables of an empty file, all or none. Throws as `has_schema`.
void require_schema(Database& database);

}  // namespace lowgear::server
