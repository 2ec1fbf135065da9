#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/core/formats/toml.h"
#include "base/http/client/client.h"
#include "base/http/message/endpoint.h"

namespace lowgear::metrics {

/// Where metrics are posted to: `[otlp]` of server.toml and agent.toml.
struct OtlpOptions {
  http::Endpoint collector;
  std::string target = "/v1/metrics";
  std::chrono::milliseconds interval{60'000};
  std::filesystem::path headers_file;  ///< lines `Name: value`, which are secret; empty: none are sent
  std::filesystem::path ca_file;       ///< authorities of an https collector in PEM; empty: those of the system
};

/// Empty when the table has no url. Throws InputError for values that do not do.
[[nodiscard]] std::optional<OtlpOptions> parse_otlp(TomlTable table);

/// The headers of a file that only its owner may read. Throws InputError, which does not show a value.
[[nodiscard]] http::Client::HeaderList read_otlp_headers(const std::filesystem::path& file);

}  // namespace lowgear::metrics
