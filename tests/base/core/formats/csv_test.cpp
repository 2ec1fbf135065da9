#include "base/core/formats/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/formats/json.h"
#include "base/core/formats/yaml.h"
#include "base/core/text.h"

namespace lowgear {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using Texts = std::vector<std::vector<std::string>>;

std::string with_byte_order_mark(std::string_view text) { return std::string(kUtf8ByteOrderMark).append(text); }

Texts texts_of(std::string_view csv) {
  Texts texts;
  for (const CsvRow& row : parse_csv(csv, "t.csv")) {
    auto& cells = texts.emplace_back();
    for (const CsvCell& cell : row.cells) cells.push_back(cell.text);
  }
  return texts;
}

std::string parse_error_of(std::string_view csv) {
  return error_of([csv] { (void)parse_csv(csv, "t.csv"); });
}

std::string table_error_of(std::string_view csv) {
  return error_of([csv] { CsvTable(csv, "t.csv"); });
}

TEST(ParseCsv, ReadsCellsAndRows) { EXPECT_EQ(texts_of("a,b\n1,2\n"), (Texts{{"a", "b"}, {"1", "2"}})); }

TEST(ParseCsv, ReadsTheSameWithEveryLineEndAndWithoutTheLast) {
  const Texts expected = {{"a", "b"}, {"1", "2"}};
  for (const std::string& csv : std::vector<std::string>{"a,b\r\n1,2\r\n", "a,b\r1,2\r", "a,b\n1,2", "a,b\r\n1,2",
                                                         with_byte_order_mark("a,b\n1,2\n")}) {
    EXPECT_EQ(texts_of(csv), expected) << csv;
  }
}

TEST(ParseCsv, RemovesBlanksAroundCellsButNotWithinQuotes) {
  EXPECT_EQ(texts_of(" a ,\tb c\t, \" d \" \n"), (Texts{{"a", "b c", " d "}}));
}

TEST(ParseCsv, ReadsQuotedCells) {
  EXPECT_EQ(texts_of("\"a,b\",\"say \"\"hi\"\"\",\"two\r\nlines\",\"\"\n"),
            (Texts{{"a,b", "say \"hi\"", "two\r\nlines", ""}}));
}

TEST(ParseCsv, TakesAQuoteWithinACellAsItIs) { EXPECT_EQ(texts_of("5\",x\n"), (Texts{{"5\"", "x"}})); }

TEST(ParseCsv, SkipsEmptyLinesOnly) {
  EXPECT_EQ(texts_of("\n  \na\n\r\n\t\n,\n\"\"\nb"), (Texts{{"a"}, {"", ""}, {""}, {"b"}}));
  EXPECT_EQ(texts_of(""), Texts{});
  EXPECT_EQ(texts_of(kUtf8ByteOrderMark), Texts{});
}

TEST(ParseCsv, KnowsWhereCellsStand) {
  const std::vector<CsvRow> rows = parse_csv(with_byte_order_mark("ä, b\r\n\n\"x\ny\", z\n"), "t.csv");
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].line, 1);
  EXPECT_EQ(rows[0].cells[0].column, 1);
  EXPECT_EQ(rows[0].cells[1].column, 4);
  EXPECT_EQ(rows[1].line, 3);
  EXPECT_EQ(rows[1].cells[0].line, 3);
  EXPECT_EQ(rows[1].cells[1].line, 4) << "after a cell of two lines";
  EXPECT_EQ(rows[1].cells[1].column, 5);
}

TEST(ParseCsv, RefusesAQuoteThatNeverCloses) {
  EXPECT_THAT(parse_error_of("a,b\n1,\"2\n3,4\n"), StartsWith("t.csv:2:3: a quote opens here and never closes"));
}

TEST(ParseCsv, RefusesTextAfterAQuote) {
  EXPECT_THAT(parse_error_of("a\n\"1\" 2\n"), StartsWith("t.csv:2:5: text after a closing quote"));
}

TEST(ParseCsv, RefusesNulBytes) {
  using std::string_view_literals::operator""sv;
  EXPECT_THAT(parse_error_of("a\nb\0c\n"sv), StartsWith("t.csv:2:2: holds a NUL byte"));
  EXPECT_THAT(parse_error_of("\"\0\""sv), StartsWith("t.csv:1:2: holds a NUL byte"));
  EXPECT_THAT(parse_error_of("\xFF\xFE"
                             "a\0,\0"sv),
              HasSubstr("save the file as UTF-8"));
}

TEST(ParseCsv, RefusesMoreCellsThanMemoryShouldHold) {
  EXPECT_EQ(parse_csv("a,b\nc,d\n", "t.csv", 4).size(), 2);
  EXPECT_EQ(error_of([] { (void)parse_csv("a,b\nc,d\ne\n", "t.csv", 4); }),
            "t.csv:3:1: more than 4 cells; split the file");
}

TEST(CsvCell, RoundTripsAnyText) {
  std::mt19937_64 random(7);
  const std::string alphabet = "ab ,\"\n\r\t;é";
  std::uniform_int_distribution<std::size_t> pick(0, alphabet.size() - 1);
  std::uniform_int_distribution<std::size_t> size(0, 6);
  for (int round = 0; round < 2000; ++round) {
    Texts texts(1 + size(random), std::vector<std::string>(2));
    std::string csv;
    for (auto& row : texts) {
      for (std::string& cell : row) {
        for (std::size_t i = size(random); i > 0; --i) cell += alphabet[pick(random)];
      }
      csv += csv_cell(row[0]) + "," + csv_cell(row[1]) + (round % 2 == 0 ? "\n" : "\r\n");
    }
    ASSERT_EQ(texts_of(csv), texts) << csv;
  }
}

TEST(CsvCell, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(csv_cell("gpt3 175b"), "gpt3 175b");
  EXPECT_EQ(csv_cell(""), "");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell("say \"hi\""), "\"say \"\"hi\"\"\"");
  EXPECT_EQ(csv_cell(" x"), "\" x\"");
}

TEST(CsvTable, ReadsColumnsByName) {
  const CsvTable table("time,stage,note\n0.5,3,x\n1e-3,4.0,\n", "t.csv");
  ASSERT_EQ(table.rows(), 2);
  EXPECT_EQ(table.source(), "t.csv");
  EXPECT_EQ(table.number(0, table.column("time")), 0.5);
  EXPECT_EQ(table.number(1, table.column("time")), 0.001);
  EXPECT_EQ(table.integer(0, table.column("stage")), 3);
  EXPECT_EQ(table.integer(1, table.column("stage")), 4);
  EXPECT_EQ(table.text(1, table.column("note")), "");
  EXPECT_TRUE(table.has_column("note"));
  EXPECT_FALSE(table.has_column("Note"));
  EXPECT_EQ(to_string(table.where(1, 1)), "t.csv:3:6");
}

/// Rows of `a,b` as read in blocks of so many bytes, with the lines on which they stand.
std::vector<std::string> rows_in_blocks(std::string_view csv, std::size_t block_bytes) {
  std::vector<std::string> rows;
  CsvBlocks blocks(csv, "t.csv", block_bytes);
  while (const std::optional<CsvTable> table = blocks.next()) {
    for (std::size_t row = 0; row < table->rows(); ++row) {
      rows.push_back(to_string(table->where(row, 0)) + " " + table->text(row, table->column("a")) + "|" +
                     table->text(row, table->column("b")));
    }
  }
  return rows;
}

TEST(CsvBlocks, ReadTheSameWhateverTheirSize) {
  const std::string_view csv = "b,a\n1,2\n\n3,4\r\n\"5\",6\n7,8";
  const std::vector<std::string> rows = {"t.csv:2:1 2|1", "t.csv:4:1 4|3", "t.csv:5:1 6|5", "t.csv:6:1 8|7"};
  for (std::size_t block_bytes = 0; block_bytes < 30; ++block_bytes) {
    EXPECT_EQ(rows_in_blocks(csv, block_bytes), rows) << block_bytes;
  }
  EXPECT_TRUE(rows_in_blocks("a,b\n", 1).empty());
}

TEST(CsvBlocks, SayWhereSomethingIsWrong) {
  EXPECT_THAT(error_of([] { (void)rows_in_blocks("a,b\n1,2\n3\n", 2); }), StartsWith("t.csv:3:1: the row has 1"));
  EXPECT_THAT(error_of([] { (void)rows_in_blocks("", 2); }), StartsWith("t.csv: is empty"));
  EXPECT_THAT(error_of([] { (void)rows_in_blocks("a,a\n", 2); }), HasSubstr("occurs twice"));
}

TEST(CsvTable, IsFineWithoutRows) { EXPECT_EQ(CsvTable("a,b\n", "t.csv").rows(), 0); }

TEST(CsvTable, RefusesAFileWithoutHeader) {
  for (const std::string_view csv :
       {std::string_view(), std::string_view("\n\n"), kUtf8ByteOrderMark, std::string_view("  \r\n")}) {
    EXPECT_THAT(table_error_of(csv), StartsWith("t.csv: is empty; it needs a header line"));
  }
}

TEST(CsvTable, RefusesAHeaderNameThatStandsTwice) {
  EXPECT_EQ(table_error_of("a,b,a\n"), "t.csv:1:5: column \"a\" occurs twice; keep one of them");
}

TEST(CsvTable, RefusesRowsOfAnotherWidth) {
  EXPECT_EQ(table_error_of("a,b,c\n1,2,3\n1,2\n"),
            "t.csv:3:3: the row has 2 cells, but the header has 3; complete the row: the file may be truncated");
  EXPECT_EQ(
      table_error_of("a,b\n1,2,3\n"),
      "t.csv:2:5: the row has 3 cells, but the header has 2; remove the extra cells, or write numbers with a point "
      "where they have a comma");
}

TEST(CsvTable, SaysThatCellsAreSeparatedByOtherThanCommas) {
  const std::string fix = "separate them by commas, and write numbers with a point";
  EXPECT_EQ(table_error_of("stage;time\n0;0,05\n"), "t.csv:1:1: the cells are separated by semicolons; " + fix);
  EXPECT_EQ(table_error_of("stage\ttime\n0\t0.05\n"), "t.csv:1:1: the cells are separated by tabs; " + fix);
  EXPECT_EQ(table_error_of("stage|time\n0|0.05\n"), "t.csv:1:1: the cells are separated by bars; " + fix);
  EXPECT_THAT(table_error_of("sep=;\nstage;time\n0;0,05\n"), HasSubstr("separated by semicolons"));
  EXPECT_EQ(CsvTable("stage,time;of\n0,1\n", "t.csv").rows(), 1) << "a semicolon within a name";
}

TEST(CsvTable, SaysThatALineIsAComment) {
  EXPECT_EQ(table_error_of("# A100 80GB, 2024-05\nstage,time,energy\n0,1,2\n"),
            "t.csv:1:1: the first line is a comment; begin the file with the names of its columns, without #");
  const CsvTable as_wide("# stage,time\n0,1\n", "t.csv");
  EXPECT_THAT(error_of([&] { (void)as_wide.column("stage"); }), HasSubstr("without #"));
  EXPECT_EQ(as_wide.column("# stage"), 0U) << "a column of another program, such as # GPUs";
  EXPECT_EQ(table_error_of("stage,time\n0,1\n# warm\n1,2\n"), "t.csv:3:1: the line is a comment; remove it");
}

TEST(CsvTable, SkipsTheFirstLineOfSpreadsheetsThatNamesCommas) {
  for (const char* first : {"sep=,\n", "\"sep=,\"\r\n", "\xEF\xBB\xBFsep=,\r\n"}) {
    const CsvTable table(std::string(first) + "a,b\n1,2\n", "t.csv");
    ASSERT_EQ(table.rows(), 1) << first;
    EXPECT_EQ(table.number(0, table.column("b")), 2);
    EXPECT_EQ(table.where(0, 0).line, 3);
  }
  EXPECT_THAT(error_of([] { (void)CsvTable("sep=;\na;b\n1;2\n", "t.csv"); }),
              HasSubstr("the cells are separated by semicolons"));
}

TEST(CsvTable, NamesTheColumnsThatAreThere) {
  const CsvTable table("stage,\"odd\nname\"\n", "t.csv");
  EXPECT_EQ(error_of([&] { (void)table.column("time"); }),
            "t.csv:1: there is no column \"time\"; the header has \"stage\", \"odd\\x0aname\"");
}

TEST(CsvTable, NamesOnlySomeOfVeryManyColumns) {
  std::string header = "c0";
  for (int i = 1; i < 1000; ++i) header += ",c" + std::to_string(i);
  const CsvTable table(header, "t.csv");
  const std::string message = error_of([&] { (void)table.column("time"); });
  EXPECT_THAT(message, HasSubstr("\"c19\", ..."));
  EXPECT_LT(message.size(), 300);
}

TEST(CsvTable, RefusesWhatIsNoNumberAtItsCell) {
  const CsvTable table("s,t\n0,nan\n1,inf\n2,\n3,1.5s\n4,\"1\n2\"\n", "t.csv");
  EXPECT_EQ(error_of([&] { (void)table.number(0, 1); }),
            "t.csv:2:3: t: expected a number, found \"nan\"; give a finite decimal number such as 0.0512");
  EXPECT_THAT(error_of([&] { (void)table.number(1, 1); }),
              StartsWith("t.csv:3:3: t: expected a number, found \"inf\""));
  EXPECT_THAT(error_of([&] { (void)table.number(2, 1); }),
              StartsWith("t.csv:4:3: t: expected a number, found an empty cell"));
  EXPECT_THAT(error_of([&] { (void)table.number(3, 1); }),
              StartsWith("t.csv:5:3: t: expected a number, found \"1.5s\""));
  EXPECT_THAT(error_of([&] { (void)table.number(4, 1); }),
              StartsWith("t.csv:6:3: t: expected a number, found \"1\\x0a2\""));
}

TEST(CsvTable, RefusesWhatIsNoWholeNumberAtItsCell) {
  const CsvTable table("s\n1.5\n1e300\nx\n", "t.csv");
  EXPECT_EQ(error_of([&] { (void)table.integer(0, 0); }),
            "t.csv:2:1: s: expected a whole number, found \"1.5\"; give a whole number");
  EXPECT_THAT(error_of([&] { (void)table.integer(1, 0); }), StartsWith("t.csv:3:1"));
  EXPECT_THAT(error_of([&] { (void)table.integer(2, 0); }), StartsWith("t.csv:4:1"));
}

using ::testing::StartsWith;

constexpr const char* kRefusal =
    "file: it is a web page (HTML or XML), as a failed download leaves it; download the file";

TEST(WebPage, IsRefusedByEveryReader) {
  for (const char* const page :
       {"<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n", "\n<HTML>\n<body>404 Not Found</body>",
        "\xef\xbb\xbf<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code></Error>"}) {
    EXPECT_THAT(error_of([&] { (void)parse_json(page, "file"); }), StartsWith(kRefusal));
    EXPECT_THAT(error_of([&] { const CsvTable table(page, "file"); }), StartsWith(kRefusal));
    EXPECT_THAT(error_of([&] { (void)YamlView::parse(page, "file"); }), StartsWith(kRefusal));
  }
}

TEST(WebPage, IsNothingElse) {
  for (const char* const text : {"", "{}", "<", "<table", "stage,kind\n", "a: <!doctype html>\n"}) {
    EXPECT_EQ(error_of([&] { refuse_web_page(text, "file"); }), "no error") << text;
  }
}

}  // namespace

}  // namespace lowgear
