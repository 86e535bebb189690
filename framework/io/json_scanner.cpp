#include "framework/io/json_scanner.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/base/error.h"

namespace taper::v0 {
namespace {

using Json = nlohmann::json;
using Event = JsonEvent::EventKind;

// An iterator that counts how far the parser has read, because the parser's events carry no
// positions.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** furthest;

  const char& operator*() const { return *at; }
  Cursor& operator++() {
    *furthest = ++at;
    return *this;
  }
  bool operator==(const Cursor& other) const { return at == other.at; }
  bool operator!=(const Cursor& other) const { return at != other.at; }
};

bool is_numeric(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// Handles the parser's events. Its functions return whether to continue.
class Scan {
 public:
  Scan(std::string_view text, const std::function<void(const JsonEvent&)>& watch)
      : text_(text), watch_(watch), furthest_(text.data()) {}

  std::optional<JsonFault> run() {
    // At a zero byte the parser would stop without an error.
    if (const size_t zero = text_.find('\0'); zero != text_.npos) return {{zero, "a zero byte"}};
    const char *begin = text_.data(), *end = begin + text_.size();
    (void)Json::sax_parse(Cursor{begin, &furthest_}, Cursor{end, &furthest_}, this);
    return std::move(fault_);
  }

  bool null() { return tell(Event::kNull, "null"); }
  bool boolean(bool b) { return tell(Event::kBoolean, b ? "true" : "false"); }
  bool number_integer(int64_t) { return number(); }
  bool number_unsigned(uint64_t) { return number(); }
  bool number_float(double, const std::string&) { return number(); }
  bool string(const std::string& s) { return event(Event::kString, s, start_of_string()); }
  bool binary(const Json::binary_t&) { return false; }
  bool key(const std::string& s) {
    const size_t at = start_of_string();
    if (!keys_.back().insert(s).second) {
      return refuse(at, concat_to_string("the key \"", s.substr(0, 100), "\" comes twice"));
    }
    return event(Event::kKey, s, at);
  }
  bool start_object(size_t) { return open(Event::kMapStart); }
  bool start_array(size_t) { return open(Event::kListStart); }
  bool end_object() { return close(Event::kMapEnd); }
  bool end_array() { return close(Event::kListEnd); }
  template <class Fault>
  bool parse_error(size_t read, const std::string& token, const Fault& fault) {
    constexpr int kNumberOverflow = 406;
    if (fault.id == kNumberOverflow) {
      return refuse(number_before(consumed()).at, "a number that is too large");
    }
    if (read > text_.size()) return refuse(text_.size(), "the text ends within a value");
    size_t at = consumed() - 1;
    if (!token.empty() && std::ranges::all_of(token, is_numeric)) {
      const Spelled digits = number_before(consumed());
      at = digits.at + digits.text.size() - std::min(token.size(), digits.text.size());
    }
    const char c = text_[at];
    return refuse(at, c >= ' ' && c <= '~' ? concat_to_string("unexpected '", c, "'")
                                           : concat_to_string("unexpected byte ", int(uint8_t(c))));
  }

 private:
  struct Spelled {
    size_t at;
    std::string_view text;
  };
  // Returns the token that ends before `end`. The parser recognizes the end of a number only at the
  // character after it.
  Spelled number_before(size_t end) const {
    while (end > 0 && !is_numeric(text_[end - 1])) --end;
    size_t at = end;
    while (at > 0 && is_numeric(text_[at - 1])) --at;
    return {at, text_.substr(at, end - at)};
  }
  size_t start_of_string() const {
    for (size_t at = consumed() - 1; at-- > 0;) {
      if (text_[at] != '"') continue;
      size_t slashes = 0;
      while (slashes < at && text_[at - slashes - 1] == '\\') ++slashes;
      if (slashes % 2 == 0) return at;
    }
    return 0;
  }
  size_t consumed() const { return size_t(furthest_ - text_.data()); }

  bool event(Event kind, std::string_view text, size_t at) {
    watch_({kind, text, at});
    return true;
  }
  bool tell(Event kind, std::string_view word) {
    return event(kind, word, consumed() - word.size());
  }
  bool number() {
    const Spelled spelled = number_before(consumed());
    return event(Event::kNumber, spelled.text, spelled.at);
  }
  bool open(Event kind) {
    const size_t at = consumed() - 1;
    keys_.emplace_back();
    if (keys_.size() <= kMaxJsonDepth) return event(kind, "", at);
    return refuse(at, concat_to_string("nested deeper than ", kMaxJsonDepth, " levels"));
  }
  bool close(Event kind) {
    keys_.pop_back();
    return event(kind, "", consumed() - 1);
  }
  bool refuse(size_t at, std::string what) {
    fault_ = {at, std::move(what)};
    return false;
  }

  std::string_view text_;
  const std::function<void(const JsonEvent&)>& watch_;
  const char* furthest_;
  std::vector<std::set<std::string>> keys_;  // the keys of each open list or map
  std::optional<JsonFault> fault_;
};

}  // namespace

std::optional<JsonFault> scan_json(std::string_view text,
                                   const std::function<void(const JsonEvent&)>& watch) {
  return Scan(text, watch).run();
}

}  // namespace taper::v0
