#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/store/store.h"

namespace lowgear::server {

/// Rows that one page of an export looks at.
inline constexpr int kExportRows = 5'000;

/// `usage.csv`, `jobs.csv`, `decisions.csv`, `budgets.csv` (docs/formats.md); empty: there is no such file.
[[nodiscard]] std::optional<ExportTable> export_table(std::string_view file);
/// Throws InputError unless a page of the table may begin at this place, which `ExportPage::next` has named.
void require_place(ExportTable table, const std::string& after);
/// Pages put together are the file when only the first has its header.
enum class CsvHeader : unsigned char { with, without };
[[nodiscard]] std::string export_csv(ExportTable table, const ExportPage& page, CsvHeader header);

}  // namespace lowgear::server
