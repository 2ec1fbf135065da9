#include "server/audit/audit_entry.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/core/error.h"
#include "base/core/formats/json.h"

namespace lowgear::server {
namespace {

std::string utc(AuditTime time) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
  constexpr long long kMsPerS = 1'000;
  const auto seconds = static_cast<std::time_t>(ms / kMsPerS);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), ms % kMsPerS);
}

Json head(AuditTime time, std::string_view event) {
  return {{"format", "lowgear.audit/1"}, {"time", utc(time)}, {"event", event}};
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(printable(text)); }

std::string line_of(const Json& entry) {
  return entry.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string audit_line(const AuditedRequest& request, AuditTime time) {
  Json entry = head(time, "request");
  entry["caller"] = text_or_null(request.caller);
  entry["address"] = printable(request.address);
  entry["method"] = printable(request.method);
  entry["route"] = request.route;
  entry["object"] = text_or_null(request.object);
  entry["status"] = request.status;
  entry["result"] = request.result;
  return line_of(entry);
}

std::string audit_line(const AuditedEvent& event, AuditTime time) {
  Json entry = head(time, event.event);
  entry["detail"] = printable(event.detail, 1'000);
  return line_of(entry);
}

}  // namespace lowgear::server
