#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/report/report_data.h"

namespace lowgear::report {

/// The quantity that a number on a page measures; decides how it is written. Energy of accounts is in kWh.
enum class Quantity : unsigned char { time, energy, account_energy, bytes };

/// Amounts that add up, one bar a row: where time, energy or memory goes.
struct Bars {
  std::string title;
  std::string basis;  ///< `estimated`
  std::string caption;
  Quantity quantity = Quantity::time;
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
struct Mark {
  enum class Kind : unsigned char { baseline, plan, candidate };
  Kind kind = Kind::plan;
  std::string name;
  std::string basis;  ///< `estimated`, `planned`, `replayed`
  std::string label;  ///< written next to it; empty: only shown when pointed at
  bool chosen = false;
  simulator::PipelineFigures point;
};

/// Names of the kinds of points in the legend.
struct MarkNames {
  std::string baseline = "full clocks";
  std::string plan = "plan";
  std::string chosen = "chosen plan";
  std::string candidate = "layout";
};

/// Time against energy of one iteration of the whole job.
struct Plot {
  std::string title;
  std::string caption;
  std::string curve_name;
  std::vector<simulator::PipelineFigures> curve;  ///< fastest first; may be empty
  std::vector<Mark> marks;                        ///< with one baseline, savings are against it
  MarkNames mark_names;
};

struct Table {
  std::string title;
  std::string basis;
  std::vector<std::string> columns;            ///< the first names the row; of text
  std::vector<std::vector<std::string>> rows;  ///< cells as shown, one per column; a line feed begins a note
  std::optional<std::size_t> chosen;           ///< index of a row
};

/// Differences from a baseline, in per cent, with their confidence intervals.
struct Intervals {
  /// How a row is coloured.
  enum class Sense : unsigned char { none, better, worse };
  struct Row {
    std::string name;
    std::optional<double> mean;
    std::optional<double> low;
    std::optional<double> high;
    Sense sense = Sense::none;
    std::string text;  ///< the same in words
  };
  struct Group {
    std::string name;
    std::vector<Row> rows;
  };
  std::string title;
  std::string basis;
  std::string caption;
  std::vector<Group> groups;
};

/// Curves on common axes.
struct Curves {
  struct Axis {
    std::string name;     ///< `tokens`
    bool energy = false;  ///< in J
  };
  struct Point {
    double x = 0;
    double y = 0;
  };
  struct Curve {
    std::string name;
    std::vector<Point> points;  ///< one at least, by rising x
  };
  std::string title;
  std::string basis;
  std::string caption;
  Axis x;
  std::string y_name;
  std::vector<Curve> curves;
};

/// Small plots next to each other, which share their legend: a series of one name looks the same in all of them.
struct SeriesPlots {
  enum class Unit : unsigned char { seconds, joules, percent, none };
  struct Axis {
    std::string name;
    Unit unit = Unit::none;
  };
  struct Point {
    double x = 0;
    double y = 0;
  };
  struct Series {
    std::string name;
    bool is_line = false;       ///< through its points, by rising x; otherwise a mark at each point
    std::vector<Point> points;  ///< one at least
  };
  struct PlotOfSeries {
    std::string name;
    std::vector<Series> series;
  };
  std::string title;
  std::string basis;
  std::string caption;
  Axis x;
  Axis y;
  std::vector<PlotOfSeries> plots;
};

/// Pipelines below each other on one time axis, each op in the colour of its clock.
struct PipelinePictures {
  std::string title;
  std::string basis;
  std::string caption;
  std::vector<Timeline> pictures;
};

struct Card {
  std::string name;
  std::string value;
  std::string detail;
};

struct Entry {
  std::string name;
  std::string text;
};

/// A page of figures, tables and notes: of `lowgear estimate`, `search`, `evaluate`, `profile`, `experiment` and
/// `report`. Parts that are empty are left out.
struct Page {
  std::string lowgear_version;
  std::string command;
  std::string title;
  std::string headline = {};  ///< the result in words
  std::vector<Entry> facts;
  std::vector<Card> cards;
  std::vector<std::string> warnings;
  std::optional<Plot> plot;
  std::vector<Bars> bars;
  std::vector<Table> tables;
  std::vector<Entry> reading;  ///< meaning of the numbers
  std::vector<Intervals> intervals = {};
  std::vector<Curves> curves = {};
  std::vector<Valley> valleys = {};
  std::string valley_basis = {};  ///< `measured`
  std::vector<SeriesPlots> series = {};
  std::optional<PipelinePictures> pipelines = {};
};

/// One self-contained HTML page, in the style of the report of a plan. Names may hold any text.
[[nodiscard]] std::string render_html_page(const Page& report);

}  // namespace lowgear::report
