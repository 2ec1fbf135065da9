#include "app/operations/commands/serve_state.h"

#include <fmt/format.h>

#include <string>

#include "base/core/error.h"
#include "server/state_check.h"
#include "server/store/state_backup.h"
#include "server/store/store_schema.h"

namespace lowgear::operations {
namespace {

server::StateSummary carry_out(const StateRequest& request) {
  const bool checks = request.effect == StateEffect::checked;
  if (request.action == StateAction::restore) {
    const server::RestoreRequest restore{
        .file = request.file, .state = request.state, .unreadable = server::unreadable_rows};
    return checks ? server::check_restore(restore) : server::restore(restore);
  }
  const server::BackupKind kind =
      request.action == StateAction::final_backup ? server::BackupKind::final : server::BackupKind::copy;
  const server::BackupRequest backup{
      .state = request.state, .file = request.file, .kind = kind, .unreadable = server::unreadable_rows};
  return checks ? server::check_backup(backup) : server::back_up(backup);
}

Json summary_json(const StateRequest& request, const server::StateSummary& summary) {
  return {{"action", request.action == StateAction::restore ? "restore" : "backup"},
          {"final", request.action == StateAction::final_backup},
          {"dry_run", request.effect == StateEffect::checked},
          {"state", request.state.string()},
          {"file", request.file.string()},
          {"bytes", summary.bytes},
          {"schema_version", server::kStoreSchema},
          {"open_jobs", summary.open_jobs},
          {"finished_jobs", summary.finished_jobs}};
}

std::string summary_text(const StateRequest& request, const server::StateSummary& summary) {
  const std::string state = printable(request.state.string());
  const std::string file = printable(request.file.string());
  const std::string what = fmt::format("{} open and {} finished jobs, {} bytes, schema version {}", summary.open_jobs,
                                       summary.finished_jobs, summary.bytes, server::kStoreSchema);
  const bool restores = request.action == StateAction::restore;
  if (request.effect == StateEffect::checked) {
    return fmt::format("nothing is changed (--dry-run); {} would be {} {}: {}\n", restores ? file : state,
                       restores ? "restored into" : "backed up to", restores ? state : file, what);
  }
  std::string text = fmt::format("{} {}: {}; all of it is read again and whole\n",
                                 restores ? "restored into" : "backed up to", restores ? state : file, what);
  if (request.action == StateAction::final_backup) {
    text += fmt::format("no server starts from {} any more; restore the file where its jobs are to be served\n", state);
  }
  return text;
}

}  // namespace

cli::ExitCode run_state_request(const StateRequest& request, bool json, cli::Console& console) {
  const server::StateSummary summary = carry_out(request);
  if (json) {
    console.print_json(summary_json(request, summary));
  } else {
    console.print(summary_text(request, summary));
  }
  return cli::ExitCode::ok;
}

}  // namespace lowgear::operations
