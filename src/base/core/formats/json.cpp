#include "base/core/formats/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/numbers/number.h"
#include "base/core/text.h"

namespace lowgear {
namespace {

/// Hands text to the parser and tells how much it has taken, which the parser's own events do not.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* taken) : at_(at), taken_(taken) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*taken_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* taken_;
};

/// Builds the document from the parser's events, refusing what the library's own builder lets pass.
class DocumentBuilder : public nlohmann::json_sax<Json> {
 public:
  DocumentBuilder(std::string_view text, const std::string& source, const std::size_t& taken, std::size_t max_values)
      : text_(text), source_(source), taken_(taken), max_values_(max_values) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // text formats have none

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    if (!open_.back().keys.insert(value).second) {
      fail(start_of_string(taken_), fmt::format("the key {} occurs twice in its object", quote(value)),
           "keep one of them");
    }
    open_.back().key = std::move(value);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...": the place is reported as in
    // other messages.
    std::string_view what = error.what();
    what.remove_prefix(std::min(what.find("] ") + 2, what.size()));
    if (what.starts_with("parse error at ")) what.remove_prefix(std::min(what.find(": ") + 2, what.size()));
    const std::size_t offset = position == 0 ? 0 : position - 1;
    fail(offset, fmt::format("not valid JSON: {}", printable(what)), {});
  }

 private:
  struct Open {
    Json* value;
    std::string key;                       ///< of the member to come, in an object
    std::unordered_set<std::string> keys;  ///< so far, in an object
  };

  [[noreturn]] void fail(std::size_t offset, std::string_view what, std::string_view fix) const {
    throw_input_error(locate(text_, offset, source_), what, fix);
  }

  /// Offset of the opening quote of the string whose closing quote is the last character before `end`. A quote within a
  /// string has an odd number of backslashes before it.
  [[nodiscard]] std::size_t start_of_string(std::size_t end) const {
    std::size_t at = end - 1;
    while (at > 0) {
      --at;
      if (text_[at] != '"') continue;
      std::size_t backslashes = 0;
      while (backslashes < at && text_[at - 1 - backslashes] == '\\') ++backslashes;
      if (backslashes % 2 == 0) break;
    }
    return at;
  }

  /// Puts the value where it belongs. The address stays valid while the value is open: its parent grows only after.
  template <typename Value>
  Json* put(Value&& value) {
    if (++values_ > max_values_) fail(taken_ - 1, fmt::format("more than {} values", max_values_), {});
    if (open_.empty()) {
      root_ = std::forward<Value>(value);
      return &root_;
    }
    Open& parent = open_.back();
    if (parent.value->is_array()) {
      auto& elements = parent.value->get_ref<Json::array_t&>();
      elements.emplace_back(std::forward<Value>(value));
      return &elements.back();
    }
    // `keys` has seen to it that the key is new, so that the library need not look through all members.
    auto& members = parent.value->get_ref<Json::object_t&>();
    members.emplace_back(std::move(parent.key), std::forward<Value>(value));
    return &members.back().second;
  }

  template <typename Value>
  bool add(Value&& value) {
    put(std::forward<Value>(value));
    return true;
  }

  bool open(Json empty) {
    if (open_.size() == kMaxJsonDepth) {
      fail(taken_ - 1, fmt::format("nested deeper than {} levels", kMaxJsonDepth), {});
    }
    open_.push_back({put(std::move(empty)), {}, {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& source_;
  const std::size_t& taken_;
  std::size_t max_values_;
  std::size_t values_ = 0;
  Json root_;
  std::vector<Open> open_;
};

std::string describe(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return quote(value.get_ref<const std::string&>());
    default:
      return value.dump();
  }
}

/// `.name` for a plain name, `["any text"]` otherwise.
std::string path_step(std::string_view key) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (!key.empty() && key.size() <= 40 && std::all_of(key.begin(), key.end(), plain)) return fmt::format(".{}", key);
  return fmt::format("[{}]", quote(key));
}

}  // namespace

Json parse_json(std::string_view text, const std::string& source, std::size_t max_values) {
  refuse_web_page(text, source);
  std::size_t taken = 0;
  DocumentBuilder builder(text, source, taken, max_values);
  const char* const end = text.data() + text.size();
  const bool parsed = Json::sax_parse(CountingIterator(text.data(), &taken), CountingIterator(end, &taken), &builder);
  if (!parsed) throw_input_error({source, 0, 0}, "not valid JSON");
  return builder.take();
}

JsonView::JsonView(const Json& value, std::string source, std::string path)
    : value_(&value), source_(std::move(source)), path_(std::move(path)) {}

JsonView JsonView::at(std::string_view key) const {
  if (!value_->is_object()) fail_kind("an object");
  const auto member = value_->find(std::string(key));
  if (member == value_->end()) fail(fmt::format("the member {} is missing", quote(key)));
  return {*member, source_, path_ + path_step(key)};
}

JsonView JsonView::at(std::size_t index) const {
  if (index >= size()) fail(fmt::format("has {} elements, no element {}", size(), index));
  return {(*value_)[index], source_, fmt::format("{}[{}]", path_, index)};
}

bool JsonView::has(std::string_view key) const { return value_->is_object() && value_->contains(std::string(key)); }

std::size_t JsonView::size() const {
  if (!value_->is_array()) fail_kind("an array");
  return value_->size();
}

double JsonView::number() const {
  if (!value_->is_number()) fail_kind("a number");
  return value_->get<double>();
}

long long JsonView::integer() const {
  std::optional<long long> value;
  if (value_->is_number_unsigned()) {
    const auto positive = value_->get<unsigned long long>();
    if (positive <= static_cast<unsigned long long>(std::numeric_limits<long long>::max())) {
      value = static_cast<long long>(positive);
    }
  } else if (value_->is_number_integer()) {
    value = value_->get<long long>();
  } else if (value_->is_number_float()) {
    value = whole_number(value_->get<double>());
  }
  if (!value) fail_kind("a whole number");
  return *value;
}

int JsonView::integer_in(int low, int high) const {
  const long long value = integer();
  if (value < low || value > high) fail_kind(fmt::format("a whole number from {} to {}", low, high));
  return static_cast<int>(value);
}

std::string JsonView::text() const {
  if (!value_->is_string()) fail_kind("text");
  return value_->get<std::string>();
}

bool JsonView::boolean() const {
  if (!value_->is_boolean()) fail_kind("true or false");
  return value_->get<bool>();
}

void JsonView::fail(std::string_view what, std::string_view fix) const {
  throw_input_error({source_, 0, 0}, fmt::format("{}: {}", printable(path_, std::string_view::npos), what), fix);
}

void JsonView::fail_kind(std::string_view expected) const {
  fail(fmt::format("expected {}, not {}", expected, describe(*value_)));
}

void require_format(const JsonView& document, std::string_view expected) {
  const JsonView format = document.at("format");
  const std::string found = format.text();
  if (found != expected) {
    format.fail(fmt::format("the format is {} where {} is expected", quote(found), quote(expected)),
                "use the file with the program and version that wrote it, or write it again");
  }
}

void for_each_json_line(std::string_view text, const std::string& source,
                        const std::function<void(const JsonView& line)>& read) {
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {  // editors leave blank lines
      const std::string place = fmt::format("{}:{}", source, number);
      const Json document = parse_json(line, place);
      read(JsonView(document, place));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double number_or_nan(const JsonView& view) {
  return view.json().is_null() ? std::numeric_limits<double>::quiet_NaN() : view.number();
}

void require_members(const JsonView& object, std::initializer_list<std::string_view> known) {
  if (!object.json().is_object()) object.fail("expected an object");
  const std::vector<std::string_view> names(known);
  for (const auto& [key, value] : object.json().items()) {
    if (std::ranges::find(names, key) != names.end()) continue;
    const auto nearest = nearest_name(key, names);
    object.fail(fmt::format("there is no member {}", quote(key)),
                nearest ? fmt::format("did you mean {}?", quote(*nearest)) : std::string());
  }
}

double number_in(const JsonView& value, double low, double high) {
  const double number = value.number();
  if (number < low || number > high)
    value.fail(fmt::format("expected a number from {} to {}, not {}", low, high, number));
  return number;
}

bool has_value(const JsonView& object, std::string_view key) {
  return object.has(key) && !object.at(key).json().is_null();
}

}  // namespace lowgear
