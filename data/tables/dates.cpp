#include "data/tables/dates.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdint>

namespace taper::v0::data {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool is_same(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

// Scans a text from its beginning.
class DateScanner {
 public:
  explicit DateScanner(std::string_view text) : rest_(text) {}

  bool is_at_end() const { return rest_.empty(); }
  char next() const { return rest_.empty() ? '\0' : rest_[0]; }
  bool take(char c) {
    if (next() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool skip_blanks() {
    bool has_any = false;
    while (take(' ')) has_any = true;
    return has_any;
  }
  std::string_view take_while(auto fits, size_t most) {
    const auto end = std::ranges::find_if_not(rest_.substr(0, most), fits);
    const std::string_view out(rest_.begin(), end);
    rest_.remove_prefix(out.size());
    return out;
  }
  std::string_view digits(size_t most) { return take_while(is_digit, most); }
  std::string_view letters() { return take_while(is_letter, rest_.size()); }

 private:
  std::string_view rest_;
};

int value_of(std::string_view digits) {
  int out = 0;
  for (const char c : digits) out = 10 * out + (c - '0');
  return out;
}

// Returns 1 for "Jan" and "january", and 0 for other words.
int month_of(std::string_view name) {
  constexpr std::array<std::string_view, 12> kNames = {
      "january", "february", "march",     "april",   "may",      "june",
      "july",    "august",   "september", "october", "november", "december"};
  if (is_same(name, "sept")) return 9;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (is_same(name, kNames[i]) || is_same(name, kNames[i].substr(0, 3))) return int(i) + 1;
  }
  return 0;
}

// One of the parts of a date.
struct DatePart {
  int value = 0;
  size_t digits = 0;  // 0: the name of a month
};
struct DateParts {
  std::array<DatePart, 3> parts{};
  size_t count = 0;
  char separator = '\0';  // between the first two parts
};

std::optional<DatePart> take_part(DateScanner& text) {
  if (is_digit(text.next())) {
    const std::string_view digits = text.digits(8);
    return DatePart{value_of(digits), digits.size()};
  }
  const int month = month_of(text.letters());
  return month == 0 ? std::nullopt : std::optional(DatePart{month, 0});
}

// Returns the separator after a part: one of - / . or a blank. Several blanks and a comma count as
// one blank. Returns 0 if there is none.
char take_separator(DateScanner& text) {
  for (const char c : {'-', '/', '.'}) {
    if (text.take(c)) return c;
  }
  const bool has_comma = text.take(',');
  return text.skip_blanks() || has_comma ? ' ' : '\0';
}

// Blanks separate the parts of a date only if one of them is a name; otherwise a time follows.
std::optional<DateParts> take_parts(DateScanner& text) {
  DateParts out;
  bool has_name = false;
  while (out.count < out.parts.size()) {
    const auto part = take_part(text);
    if (!part) return std::nullopt;
    out.parts[out.count++] = *part;
    has_name = has_name || part->digits == 0;
    if (part->digits == 8 || out.count == out.parts.size()) break;
    DateScanner ahead = text;
    const char separator = take_separator(ahead);
    const bool may_go_on = separator == ' ' ? has_name || is_letter(ahead.next()) : separator != 0;
    const bool is_time = separator == ' ' && out.count == 2 && has_name && out.parts[1].digits == 4;
    if (!may_go_on || is_time || ahead.is_at_end()) break;
    if (out.count > 1 && separator != out.separator) return std::nullopt;
    if (out.count == 1) out.separator = separator;
    text = ahead;
  }
  return out;
}

struct CivilDay {
  int year = 0, month = 0, day = 0;
};

// Returns the year of a part of four or two digits, or 0.
int year_of(const DatePart& part) {
  if (part.digits == 4) return part.value;
  if (part.digits == 2) return part.value + (part.value < 69 ? 2000 : 1900);
  return 0;
}

// Determines which part is the year, the month and the day. The caller checks whether the day and
// the year are possible.
std::optional<CivilDay> day_of(const DateParts& date, DateOrder order) {
  const auto& [a, b, c] = date.parts;
  const auto is_short = [](const DatePart& part) { return part.digits <= 2; };
  if (date.count == 1 && a.digits == 8) {
    return CivilDay{a.value / 10000, a.value / 100 % 100, a.value % 100};
  }
  if (date.count == 2) {
    if (a.digits == 4 && is_short(b) && date.separator != '.') return CivilDay{a.value, b.value, 1};
    if (a.digits == 0 && b.digits == 4) return CivilDay{b.value, a.value, 1};
    return std::nullopt;
  }
  if (date.count != 3) return std::nullopt;
  if (a.digits == 4 && is_short(b) && is_short(c) && c.digits > 0) {
    return CivilDay{a.value, b.value, c.value};
  }
  const int year = year_of(c);
  if (year == 0 || !is_short(a) || !is_short(b)) return std::nullopt;
  if (a.digits == 0) {
    return b.digits == 0 ? std::nullopt : std::optional(CivilDay{year, a.value, b.value});
  }
  const bool is_day_first = b.digits == 0 || date.separator == '.' || order == DateOrder::kDayFirst;
  return is_day_first ? CivilDay{year, b.value, a.value} : CivilDay{year, a.value, b.value};
}

// Reads one or two digits up to `most`.
std::optional<int> take_number(DateScanner& text, int most) {
  const std::string_view digits = text.digits(2);
  const int value = value_of(digits);
  return digits.empty() || value > most ? std::nullopt : std::optional(value);
}

// Reads ":10.25" and returns the seconds; 0 if there are none.
std::optional<double> take_seconds(DateScanner& text) {
  if (!text.take(':')) return 0;
  const auto seconds = take_number(text, 60);
  if (!seconds) return std::nullopt;
  double out = *seconds, unit = 0.1;
  if (!text.take('.') && !text.take(',')) return out;
  for (const char c : text.digits(18)) {
    out += (c - '0') * unit;
    unit /= 10;
  }
  return out;
}

// Reads "13:45:10.25" or "1:45 PM" and returns the seconds since midnight.
std::optional<double> take_time(DateScanner& text) {
  const auto hour = take_number(text, 23);
  if (!hour || !text.take(':')) return std::nullopt;
  const auto minute = take_number(text, 59);
  if (!minute) return std::nullopt;
  const auto seconds = take_seconds(text);
  if (!seconds) return std::nullopt;
  DateScanner ahead = text;
  ahead.skip_blanks();
  const std::string_view half = ahead.letters();
  const bool is_afternoon = is_same(half, "pm");
  int hours = *hour;
  if (is_afternoon || is_same(half, "am")) {
    if (hours < 1 || hours > 12) return std::nullopt;
    hours = hours % 12 + (is_afternoon ? 12 : 0);
    text = ahead;
  }
  return hours * 3600 + *minute * 60 + *seconds;
}

// Reads a zone and returns its distance from UTC in seconds; 0 if there is none.
std::optional<int> take_zone(DateScanner& text) {
  text.skip_blanks();
  if (is_letter(text.next())) {
    const std::string_view name = text.letters();
    const bool is_known = is_same(name, "z") || is_same(name, "utc") || is_same(name, "gmt");
    return is_known ? std::optional(0) : std::nullopt;
  }
  const bool is_west = text.next() == '-';
  if (!text.take('+') && !text.take('-')) return 0;
  const auto hours = take_number(text, 14);
  if (!hours) return std::nullopt;
  const bool has_minutes = text.take(':') || !text.is_at_end();
  const auto minutes = has_minutes ? take_number(text, 59) : std::optional(0);
  if (!minutes) return std::nullopt;
  return (is_west ? -1 : 1) * (*hours * 3600 + *minutes * 60);
}

}  // namespace

std::optional<double> parse_date(std::string_view text, DateOrder order) {
  constexpr double kSecondsPerDay = 86'400;
  DateScanner rest(text);
  const auto parts = take_parts(rest);
  const auto day = parts ? day_of(*parts, order) : std::nullopt;
  if (!day || day->year < 1 || day->month < 1 || day->day < 1) return std::nullopt;
  const std::chrono::year_month_day civil{std::chrono::year(day->year),
                                          std::chrono::month(unsigned(day->month)),
                                          std::chrono::day(unsigned(day->day))};
  if (!civil.ok()) return std::nullopt;
  const auto days = std::chrono::sys_days(civil).time_since_epoch().count();
  const double midnight = double(days) * kSecondsPerDay;
  if (rest.is_at_end()) return midnight;
  if (!rest.take('T') && !rest.skip_blanks()) return std::nullopt;
  const auto time = take_time(rest);
  const auto zone = time ? take_zone(rest) : std::nullopt;
  if (!zone || !rest.is_at_end()) return std::nullopt;
  return midnight + *time - *zone;
}

DateOrder find_date_order(std::span<const std::string_view> texts) {
  int64_t month_first = 0, day_first = 0;
  for (const std::string_view text : texts) {
    month_first += parse_date(text, DateOrder::kMonthFirst).has_value();
    day_first += parse_date(text, DateOrder::kDayFirst).has_value();
  }
  return day_first > month_first ? DateOrder::kDayFirst : DateOrder::kMonthFirst;
}

}  // namespace taper::v0::data
