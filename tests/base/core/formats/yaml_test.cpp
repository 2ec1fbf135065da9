#include "base/core/formats/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

YamlView parse_text(std::string_view text, const std::vector<std::string>& settings = {}) {
  return YamlView::parse(text, "job.yaml", settings);
}

std::string parse_error(std::string_view text, const std::vector<std::string>& settings = {}) {
  return error_of([&] { (void)parse_text(text, settings); });
}

std::string repeated(std::string_view piece, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += piece;
  return text;
}

TEST(Yaml, ReadsMapsListsAndValues) {
  const YamlView view = parse_text("steps: 10\nmodel:\n  name: 'a b'\n  sizes: [1, 2.5]\n  tied: true\n");
  EXPECT_EQ(view.at("steps").integer_in(1, 100), 10);
  EXPECT_EQ(view.at("model").at("name").text(), "a b");
  EXPECT_EQ(view.at("model").at("sizes").size(), 2);
  EXPECT_EQ(view.at("model").at("sizes").at(1).number_in(0, 3), 2.5);
  EXPECT_TRUE(view.at("model").at("tied").boolean());
  EXPECT_TRUE(view.at("model").is_map());
  EXPECT_TRUE(view.at("model").at("sizes").is_list());
  EXPECT_FALSE(view.at("steps").is_map());
}

TEST(Yaml, AViewOutlivesTheDocument) {
  const YamlView inner = parse_text("a:\n  b:\n    - c: deep\n").at("a").at("b").at(0);
  EXPECT_EQ(inner.at("c").text(), "deep");
}

TEST(Yaml, ReadsWhatJsonWrites) {
  EXPECT_EQ(parse_text(R"({"a": {"b": [1, "x"]}})").at("a").at("b").at(1).text(), "x");
}

TEST(Yaml, SkipsAByteOrderMark) {
  EXPECT_EQ(parse_text("\xEF\xBB\xBFsteps: 3\n").at("steps").integer_in(0, 9), 3);
  EXPECT_EQ(error_of([] { (void)parse_text("\xEF\xBB\xBFsteps: x\n").at("steps").integer_in(0, 9); }),
            "job.yaml:1:8: steps: expected a whole number from 0 to 9, not \"x\"");
}

TEST(Yaml, TakesNothingForNotGiven) {
  for (const char* text : {"a:\nb: 1\n", "a: ~\nb: 1\n", "a: null\nb: 1\n", "b: 1\n"}) {
    EXPECT_FALSE(parse_text(text).has("a")) << text;
    EXPECT_TRUE(parse_text(text).has("b")) << text;
  }
  EXPECT_FALSE(parse_text("a: 1\n").at("a").has("b"));
  EXPECT_EQ(error_of([] { (void)parse_text("b: 1\na:\n").at("a"); }), "job.yaml:2:1: a: a value is missing");
}

TEST(Yaml, SaysWhereAValueStandsAndWhatIsExpected) {
  const YamlView view = parse_text("model:\n  heads: four\n  sizes: [1, [2]]\n  tied: yes\n");
  const YamlView model = view.at("model");
  EXPECT_EQ(error_of([&] { (void)model.at("heads").integer_in(1, 8); }),
            "job.yaml:2:10: model.heads: expected a whole number from 1 to 8, not \"four\"");
  EXPECT_EQ(error_of([&] { (void)model.at("heads").number_in(0, 0.5); }),
            "job.yaml:2:10: model.heads: expected a number from 0 to 0.5, not \"four\"");
  EXPECT_EQ(error_of([&] { (void)model.at("sizes").at(1).text(); }),
            "job.yaml:3:14: model.sizes[1]: expected a text, not a list");
  EXPECT_EQ(error_of([&] { (void)model.at("sizes").at(2); }), "job.yaml:3:10: model.sizes: there is no element 2");
  EXPECT_EQ(error_of([&] { (void)model.at("tied").boolean(); }),
            "job.yaml:4:9: model.tied: expected true or false, not \"yes\"");
  EXPECT_EQ(error_of([&] { (void)model.at("layers"); }), "job.yaml:2:3: model: \"layers\" is missing");
  EXPECT_EQ(error_of([&] { (void)model.at("heads").at("x"); }),
            "job.yaml:2:10: model.heads: expected a map with \"x\", not \"four\"");
  EXPECT_EQ(error_of([&] { (void)model.size(); }), "job.yaml:2:3: model: expected a list, not a map");
  EXPECT_EQ(error_of([&] { model.at("heads").fail("this is wrong", "mend it"); }),
            "job.yaml:2:10: model.heads: this is wrong; mend it");
  EXPECT_EQ(error_of([&] { model.at("heads").require_only({"a"}); }),
            "job.yaml:2:10: model.heads: expected a map, not \"four\"");
}

TEST(Yaml, BoundsIncludeTheirEnds) {
  const YamlView view = parse_text("a: 1\nb: 8\nc: 9\nd: -9223372036854775808\ne: 1e400\nf: .nan\ng: 0x10\n");
  EXPECT_EQ(view.at("a").integer_in(1, 8), 1);
  EXPECT_EQ(view.at("b").integer_in(1, 8), 8);
  EXPECT_THROW((void)view.at("c").integer_in(1, 8), InputError);
  EXPECT_THROW((void)view.at("d").integer_in(1, 8), InputError);
  for (const char* key : {"e", "f", "g"}) EXPECT_THROW((void)view.at(key).number_in(0, 1e308), InputError) << key;
}

TEST(Yaml, RefusesOtherKeysAndSaysWhatMayBeMeant) {
  const YamlView view = parse_text("steps: 1\noptimizer:\n  learning_rat: 1\n  zzz: 2\n");
  view.require_only({"steps", "optimizer"});
  EXPECT_EQ(error_of([&] {
              view.require_only({"step", "optimizer"});
            }),
            "job.yaml:1:1: \"steps\" is not a setting; did you mean step?");
  EXPECT_EQ(error_of([&] { view.at("optimizer").require_only({"learning_rate"}); }),
            "job.yaml:3:3: optimizer: \"learning_rat\" is not a setting; did you mean learning_rate?");
  EXPECT_EQ(error_of([&] {
              view.at("optimizer").require_only({"learning_rat", "beta1"});
            }),
            "job.yaml:4:3: optimizer: \"zzz\" is not a setting; there are learning_rat, beta1");
}

TEST(Yaml, RefusesAnythingButAMap) {
  for (const char* text : {"", "# nothing\n", "- 1\n- 2\n", "word", "~", "---\n...\n"}) {
    EXPECT_THAT(parse_error(text), HasSubstr("expected a map of settings; write lines such as \"name: value\""))
        << text;
  }
}

TEST(Yaml, SaysHowToWriteTomlInYaml) {
  const std::string start = ": this is TOML, and the file has to be YAML; write ";
  EXPECT_EQ(parse_error("# first\n\nsteps = 10\n"), "job.yaml:3:1" + start + "\"steps: VALUE\"");
  EXPECT_EQ(parse_error("[model] # second\nsize = 'a: b'\n"),
            "job.yaml:1:1" + start + "\"model:\" and its settings on lines below it, indented with spaces");
  EXPECT_EQ(parse_error("  [[arm]]\n"),
            "job.yaml:1:3" + start + "\"arm:\" and each entry on lines below it, after \"  - \"");
  EXPECT_EQ(parse_text("# steps = 1\nsteps: a = b\n").at("steps").text(), "a = b");
  EXPECT_THAT(parse_error("[1, 2]\n"), HasSubstr("expected a map of settings"));
  EXPECT_THAT(parse_error("= 2\n"), HasSubstr("expected a map of settings"));
}

TEST(Yaml, TakesQuotedNumbersForTexts) {
  const YamlView view = parse_text("a: '1'\nb: \"true\"\n", {"c=2"});
  EXPECT_EQ(error_of([&] { (void)view.at("a").integer_in(0, 8); }),
            "job.yaml:1:4: a: expected a whole number from 0 to 8, not the text \"1\"; remove the quotes");
  EXPECT_THROW((void)view.at("a").number_in(0, 8), InputError);
  EXPECT_THROW((void)view.at("b").boolean(), InputError);
  EXPECT_EQ(view.at("c").integer_in(0, 8), 2);
}

TEST(Yaml, SaysWhereASyntaxErrorIs) {
  EXPECT_THAT(parse_error("a: 1\nb: [1, 2\n"), StartsWith("job.yaml:"));
  EXPECT_THAT(parse_error("a: 1\n b: 2\n"), StartsWith("job.yaml:2:"));
  EXPECT_THAT(parse_error("a: \"x"), StartsWith("job.yaml:"));
  EXPECT_THAT(parse_error("\ta: 1\n"), StartsWith("job.yaml:1:"));
}

TEST(Yaml, RefusesQuotesThatDoNotEnd) {
  EXPECT_EQ(parse_error("a: 1\nb: \"x\nc: 2\n"),
            "job.yaml:2:4: the quoted text has no closing quote; write \" after it");
  EXPECT_EQ(parse_error("a: 'it''s\nc: 2\n"), "job.yaml:1:4: the quoted text has no closing quote; write ' after it");
  EXPECT_THAT(parse_error("a: \"x\\\"\nc: 2\n"), HasSubstr("has no closing quote"));
  EXPECT_EQ(parse_error("a: 'it''s'\nb: \"x \\\" y\"\nc: |\n  \"x\n"), "no error");
}

TEST(Yaml, RefusesDuplicateKeysAtEveryLevel) {
  EXPECT_EQ(parse_error("a: 1\nb: 2\na: 3\n"), "job.yaml:3:1: \"a\" occurs twice here; keep one of them");
  EXPECT_EQ(parse_error("m:\n  - {x: 1, x: 2}\n"), "job.yaml:2:12: \"x\" occurs twice here; keep one of them");
}

TEST(Yaml, RefusesKeysThatAreNoWords) {
  for (const char* text : {"? [1]\n: 2\n", "? {a: 1}\n: 2\n", "~: 2\n"}) {
    EXPECT_THAT(parse_error(text), HasSubstr("a key must be a single value")) << text;
  }
}

TEST(Yaml, SaysThatBracketsWithoutAnEndAreNestedTooDeep) {
  EXPECT_THAT(parse_error(std::string(200'000, '[')), HasSubstr("levels deep"));
}

TEST(Yaml, RefusesAliasesEvenOfWhatTheyAreIn) {
  EXPECT_EQ(parse_error("a: &x 1\nb: *x\n"), "job.yaml:2:4: aliases are not supported; write the value out");
  EXPECT_EQ(parse_error("a: &x [*x]\n"), "job.yaml:1:8: aliases are not supported; write the value out");
  EXPECT_EQ(parse_error("a: &x {b: *x}\n"), "job.yaml:1:11: aliases are not supported; write the value out");
  EXPECT_THAT(parse_error("a: *unknown\n"), StartsWith("job.yaml:1:"));
  EXPECT_EQ(parse_text("a: &x 1\n").at("a").integer_in(0, 1), 1);
}

TEST(Yaml, RefusesTags) {
  EXPECT_EQ(parse_error("a: !include other.yaml\n"), "job.yaml:1:4: the tag \"!include\" is not supported");
  EXPECT_THAT(parse_error("a: !!binary aGk=\n"), HasSubstr("the tag"));
  EXPECT_THAT(parse_error("a: !list [1]\n"), HasSubstr("the tag"));
}

TEST(Yaml, RefusesASecondDocument) {
  EXPECT_THAT(parse_error("a: 1\n---\nb: 2\n"), HasSubstr("a second document begins here; give one document"));
  EXPECT_EQ(parse_text("---\na: 1\n...\n").at("a").integer_in(0, 1), 1);
}

TEST(Yaml, RefusesWhatIsNoText) {
  EXPECT_EQ(parse_error("a: 1\nb: \x04 2\n"), "job.yaml:2:4: the byte 0x04 is not text; write UTF-8");
  EXPECT_EQ(parse_error(std::string_view("a: \0 2\n", 7)), "job.yaml:1:4: the byte 0x00 is not text; write UTF-8");
  EXPECT_EQ(parse_error("a: \xFF\n"), "job.yaml:1:4: the byte 0xff is not text; write UTF-8");
  EXPECT_THAT(parse_error("\xFF\xFE"
                          "a\0:\0"),
              HasSubstr("the byte 0xff is not text"));
}

TEST(Yaml, CountsColumnsInCharacters) {
  EXPECT_EQ(error_of([] { (void)parse_text("{ä: ü, n: x}").at("n").integer_in(0, 1); }),
            "job.yaml:1:11: n: expected a whole number from 0 to 1, not \"x\"");
}

TEST(Yaml, RefusesWhatIsTooDeep) {
  const auto nested = [](std::size_t levels) { return "a: " + repeated("[", levels) + repeated("]", levels); };
  EXPECT_TRUE(parse_text(nested(kMaxYamlDepth - 1)).has("a"));
  EXPECT_THAT(parse_error(nested(kMaxYamlDepth)), HasSubstr("nested more than 64 levels deep"));
  for (const char* piece : {"[", "{a: ", "- ", "? ", "a: {", "[{"}) {
    EXPECT_NE(parse_error(repeated(piece, 100'000)), "no error") << piece;
  }
}

TEST(Yaml, RefusesWhatIsTooLarge) {
  EXPECT_THAT(parse_error("a: " + std::string(kMaxYamlBytes, 'x')),
              HasSubstr("bytes are too many for a configuration"));
  EXPECT_TRUE(parse_text("a: [" + repeated("1,", 9'000) + "1]").has("a"));
  EXPECT_THAT(parse_error("a: [" + repeated("1,", 20'000) + "1]"), HasSubstr("more than 10000 values"));
}

TEST(YamlSettings, ReplaceAndAddValues) {
  const YamlView view =
      parse_text("steps: 1\noptimizer:\n  beta1: 0.5\n",
                 {"steps=7", "optimizer.beta2=0.75", "energy.profile.clocks_mhz=[1200, 1410]", "steps=8"});
  EXPECT_EQ(view.at("steps").integer_in(1, 9), 8);
  EXPECT_EQ(view.at("optimizer").at("beta1").number_in(0, 1), 0.5);
  EXPECT_EQ(view.at("optimizer").at("beta2").number_in(0, 1), 0.75);
  EXPECT_EQ(view.at("energy").at("profile").at("clocks_mhz").at(1).integer_in(1, 9999), 1410);
}

TEST(YamlSettings, ReachIntoWhatHasNoValue) {
  EXPECT_EQ(parse_text("optimizer:\n", {"optimizer.beta1=0.5"}).at("optimizer").at("beta1").number_in(0, 1), 0.5);
}

TEST(YamlSettings, WithoutAValueTakeOneAway) {
  EXPECT_FALSE(parse_text("metrics: out.jsonl\nsteps: 1\n", {"metrics="}).has("metrics"));
}

TEST(YamlSettings, KeepWhatIsQuoted) {
  EXPECT_EQ(parse_text("a: 1\n", {R"(path="/tmp/a: b #c=d")"}).at("path").text(), "/tmp/a: b #c=d");
}

TEST(YamlSettings, AreReportedAsTheyAreGiven) {
  EXPECT_EQ(error_of([] { (void)parse_text("steps: 1\n", {"steps=many"}).at("steps").integer_in(1, 9); }),
            "setting \"steps=many\": steps: expected a whole number from 1 to 9, not \"many\"");
  EXPECT_EQ(error_of([] { parse_text("steps: 1\n", {"stepz=3"}).require_only({"steps"}); }),
            "setting \"stepz=3\": \"stepz\" is not a setting; did you mean steps?");
}

TEST(YamlSettings, RefusesWhatIsNoSetting) {
  const std::string hint = "write PATH=VALUE, such as optimizer.learning_rate=1e-4";
  EXPECT_EQ(parse_error("a: 1\n", {"a"}), "setting \"a\": there is no \"=\" in it; " + hint);
  EXPECT_EQ(parse_error("a: 1\n", {""}), "setting \"\": there is no \"=\" in it; " + hint);
  EXPECT_EQ(parse_error("a: 1\n", {"=1"}), "setting \"=1\": a part of its path is empty; " + hint);
  EXPECT_EQ(parse_error("a: 1\n", {"b..c=1"}), "setting \"b..c=1\": a part of its path is empty; " + hint);
  EXPECT_EQ(parse_error("a: 1\n", {"a.b=1"}), "setting \"a.b=1\": the parent of \"b\" is not a map; " + hint);
  EXPECT_THAT(parse_error("a: 1\n", {repeated("b.", 100'000) + "c=1"}), HasSubstr("there is no such setting"));
  EXPECT_THAT(parse_error("a: 1\n", {"a=[1"}), StartsWith("setting \"a=[1\": "));
  EXPECT_THAT(parse_error("a: 1\n", {"a=&x [*x]"}), HasSubstr("aliases are not supported"));
}

TEST(YamlOrigins, TakeScalarsAsTheyAreAndReportWhereTheyCameFrom) {
  const std::vector<YamlSetting> settings = {{"--tp 8", "parallel.tp", "8"}, {"--model 'a: b'", "model", "a: b #c"}};
  const YamlView view = YamlView::parse_with("parallel: {tp: 2, pp: 4}\n", "job.yaml", settings);
  EXPECT_EQ(view.at("parallel").at("tp").integer_in(1, 9), 8);
  EXPECT_EQ(view.at("parallel").at("pp").integer_in(1, 9), 4);
  EXPECT_EQ(view.at("model").text(), "a: b #c");
  EXPECT_EQ(error_of([&] { (void)view.at("parallel").at("tp").integer_in(1, 4); }),
            "--tp 8: expected a whole number from 1 to 4, not \"8\"");
  EXPECT_EQ(error_of([&] { (void)view.at("parallel").at("pp").integer_in(1, 3); }),
            "job.yaml:1:23: parallel.pp: expected a whole number from 1 to 3, not \"4\"");
  EXPECT_THAT(error_of([&] { (void)YamlView::parse_with("parallel: 2\n", "job.yaml", settings); }),
              StartsWith("--tp 8: the parent of \"tp\" is not a map"));
}

TEST(Yaml, NamesTheTabThatIndentsALine) {
  const std::string expected = "a tab indents this line, which YAML does not allow; indent it with spaces";
  EXPECT_EQ(parse_error("model: a\ncluster:\n\tgpus: 8\nparallel:\n  tp: 2\n"), "job.yaml:3:1: " + expected);
  EXPECT_EQ(parse_error("cluster:\n  gpus: 8\n  \tnodes: 2\n"), "job.yaml:3:3: " + expected);
  EXPECT_EQ(parse_text("# one\n\t# two\n\t\nsteps:\t10\n").at("steps").integer_in(1, 10), 10) << "these are allowed";
  EXPECT_THAT(parse_error("steps:\t10\nmodel: [\n"), testing::Not(HasSubstr("tab")));
}

TEST(Yaml, ListsTheKeysOfAMap) {
  EXPECT_EQ(parse_text("{b: 1, a: }").keys(), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(parse_text("a: 1").at("a").keys(), std::vector<std::string>());
}

}  // namespace
}  // namespace lowgear
