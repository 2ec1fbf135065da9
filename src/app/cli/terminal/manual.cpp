#include "app/cli/terminal/manual.h"

#include <fmt/format.h>

#include "base/core/version.h"

namespace lowgear::cli {
namespace {

/// Text as roff prints it: backslashes and hyphens as they are, no line taken for a request.
std::string roff(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (const char character : text) {
    if (line_start && (character == '.' || character == '\'')) out += "\\&";
    if (character == '\\') {
      out += "\\e";
    } else if (character == '-') {
      out += "\\-";
    } else {
      out += character;
    }
    line_start = character == '\n';
  }
  return out;
}

std::string name_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : name_of(*app.get_parent()) + " " + app.get_name();
}

std::string page_name(const CLI::App& app) {
  std::string name = name_of(app);
  for (char& character : name) {
    if (character == ' ') character = '-';
  }
  return name;
}

std::string option_text(const CLI::Option& option) {
  std::string text = fmt::format(".TP\n\\fB{}\\fR", roff(option.get_name(option.get_positional())));
  if (option.get_expected_max() != 0) text += fmt::format(" \\fI{}\\fR", roff(option.get_type_name()));
  if (option.get_required()) text += " (required)";
  return text + fmt::format("\n{}.\n", roff(option.get_description()));
}

}  // namespace

std::string manual_page(const CLI::App& app) {
  std::string page = fmt::format(".TH {} 1 \"\" \"Lowgear {}\" \"User Commands\"\n", roff(page_name(app)), version());
  page += fmt::format(".SH NAME\n{} \\- {}\n", roff(page_name(app)), roff(app.get_description()));
  const auto verbs = app.get_subcommands([](const CLI::App*) { return true; });
  page += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR {}\n", roff(name_of(app)),
                      verbs.empty() ? "\\fIOPTIONS\\fR" : "\\fICOMMAND OPTIONS\\fR");
  page += ".SH OPTIONS\n";
  for (const CLI::Option* option : app.get_options()) page += option_text(*option);
  if (!verbs.empty()) page += ".SH VERBS\n";
  for (const CLI::App* verb : verbs) {
    page += fmt::format(".TP\n\\fB{}\\fR\n{}.\n", roff(verb->get_name()), roff(verb->get_description()));
  }
  page += fmt::format(".SH {}\n.nf\n{}\n.fi\n", verbs.empty() ? "EXAMPLE" : "NOTES", roff(app.get_footer()));
  page += ".SH EXIT STATUS\n0: success. 1: failure. 2: invalid usage or input.\n";
  return page;
}

}  // namespace lowgear::cli
