#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/report/report_data.h"

namespace lowgear {

/// What a number on a page of estimates measures: how it is written.
enum class ReportQuantity : unsigned char { time, energy, bytes };

/// Amounts that add up, one bar a row: where time, energy or memory goes.
struct ReportBars {
  std::string title;
  std::string basis;  ///< `estimated`
  std::string caption;
  ReportQuantity quantity = ReportQuantity::time;
  std::vector<std::string> parts;  ///< names, in the order in which they are stacked
  struct Row {
    std::string name;
    std::vector<double> amounts;  ///< by part, not negative; s, J or bytes
  };
  std::vector<Row> rows;
  std::optional<double> limit;  ///< drawn as a line
  std::string limit_name;
};

/// A point of a time-energy plot.
struct ReportMark {
  enum class Kind : unsigned char { baseline, plan, candidate };
  Kind kind = Kind::plan;
  std::string name;
  std::string basis;  ///< `estimated`, `planned`, `replayed`
  std::string label;  ///< written next to it; empty: only shown when pointed at
  bool chosen = false;
  PipelineFigures point;
};

/// What the legend calls each kind of point.
struct ReportMarkNames {
  std::string baseline = "full clocks";
  std::string plan = "plan";
  std::string chosen = "chosen plan";
  std::string candidate = "layout";
};

/// Time against energy of one iteration of the whole job.
struct ReportPlot {
  std::string title;
  std::string caption;
  std::string curve_name;
  std::vector<PipelineFigures> curve;  ///< fastest first; may be empty
  std::vector<ReportMark> marks;       ///< with one baseline, savings are against it
  ReportMarkNames mark_names;
};

struct ReportTable {
  std::string title;
  std::string basis;
  std::vector<std::string> columns;            ///< the first names the row; of text
  std::vector<std::vector<std::string>> rows;  ///< cells as they are shown, one a column
  std::optional<std::size_t> chosen;           ///< index of a row
};

struct ReportCard {
  std::string name;
  std::string value;
  std::string detail;
};

struct ReportEntry {
  std::string name;
  std::string text;
};

/// The page of `lowgear estimate` and `lowgear search`.
struct EstimateReport {
  std::string lowgear_version;
  std::string command;
  std::string title;
  std::vector<ReportEntry> facts;
  std::vector<ReportCard> cards;
  std::vector<std::string> warnings;
  std::optional<ReportPlot> plot;
  std::vector<ReportBars> bars;
  std::vector<ReportTable> tables;
  std::vector<ReportEntry> reading;  ///< what the numbers are
};

/// One self-contained HTML page, in the style of the report of a plan. Names may hold any text.
[[nodiscard]] std::string render_estimate_report(const EstimateReport& report);

}  // namespace lowgear
