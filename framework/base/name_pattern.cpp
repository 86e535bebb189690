#include "framework/base/name_pattern.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "framework/base/error.h"

namespace taper::v0 {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Returns the number in `text`; std::nullopt unless all of it are digits.
std::optional<size_t> number_of(std::string_view text) {
  size_t n = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, n);
  const bool is_number = error == std::errc() && rest == end && is_digit(text[0]);
  return is_number ? std::optional(n) : std::nullopt;
}

// Returns the part of a path that begins at `at`, up to the next dot.
std::string_view part_at(std::string_view path, size_t at) {
  return path.substr(at, path.find('.', at) - at);
}

// An element of a pattern: a character, `*`, or a range of numbers.
struct Element {
  char c = 0;
  bool is_star = false, is_range = false;
  size_t first = 0, last = 0;
};

std::vector<Element> elements_of(std::string_view pattern) {
  std::vector<Element> out;
  for (size_t i = 0; i < pattern.size();) {
    const bool begins_part = i == 0 || pattern[i - 1] == '.';
    const std::string_view part = begins_part ? part_at(pattern, i) : std::string_view();
    const size_t dash = part.find('-');
    const auto first = dash == part.npos ? std::nullopt : number_of(part.substr(0, dash));
    const auto last = dash == part.npos ? std::nullopt : number_of(part.substr(dash + 1));
    if (first && last) {
      out.push_back({.is_range = true, .first = *first, .last = *last});
      i += part.size();
      continue;
    }
    out.push_back({.c = pattern[i], .is_star = pattern[i] == '*'});
    ++i;
  }
  return out;
}

// Which rests of a pattern match which rests of a name.
class Match {
 public:
  Match(std::string_view pattern, std::string_view name)
      : elements_(elements_of(pattern)),
        name_(name),
        fits_((elements_.size() + 1) * (name.size() + 1)) {
    for (size_t i = elements_.size() + 1; i-- > 0;) {
      for (size_t j = name.size() + 1; j-- > 0;) fits_[index(i, j)] = compute(i, j);
    }
  }

  bool holds() const { return fits(0, 0); }
  // Call these if holds(). Returns the texts that the `*` match, and sets `end` to the position
  // after the part of the name that the pattern matches.
  std::vector<std::string_view> texts(size_t& end) const {
    std::vector<std::string_view> out;
    size_t j = 0;
    for (size_t i = 0; i < elements_.size(); ++i) {
      const size_t from = j;
      if (!elements_[i].is_star) {
        j += length(i, j);
        continue;
      }
      while (!fits(i + 1, j)) ++j;
      out.push_back(name_.substr(from, j - from));
    }
    end = j;
    return out;
  }

 private:
  size_t index(size_t i, size_t j) const { return i * (name_.size() + 1) + j; }
  bool fits(size_t i, size_t j) const { return fits_[index(i, j)]; }

  // Returns the number of characters at position j that element i, which is no `*`, matches; 0 if
  // it does not match.
  size_t length(size_t i, size_t j) const {
    const Element& e = elements_[i];
    if (!e.is_range) return j < name_.size() && name_[j] == e.c ? 1 : 0;
    const std::string_view part = part_at(name_, j);
    const auto n = number_of(part);
    return n && e.first <= *n && *n <= e.last ? part.size() : 0;
  }
  bool compute(size_t i, size_t j) const {
    if (i == elements_.size()) return j == name_.size() || name_[j] == '.';
    if (elements_[i].is_star) return fits(i + 1, j) || (j < name_.size() && fits(i, j + 1));
    const size_t n = length(i, j);
    return n > 0 && fits(i + 1, j + n);
  }

  std::vector<Element> elements_;
  std::string_view name_;
  std::vector<bool> fits_;  // [elements + 1, characters + 1]
};

}  // namespace

bool matches_name(std::string_view pattern, std::string_view name) {
  return !pattern.empty() && Match(pattern, name).holds();
}

std::optional<size_t> longest_match(const std::vector<std::string>& patterns,
                                    std::string_view name) {
  std::optional<size_t> best;
  std::ptrdiff_t most = 0;
  for (size_t i = 0; i < patterns.size(); ++i) {
    const std::ptrdiff_t length = std::ssize(patterns[i]) - std::ranges::count(patterns[i], '*');
    if ((best && length <= most) || !matches_name(patterns[i], name)) continue;
    best = i;
    most = length;
  }
  return best;
}

std::optional<std::string> rename_matched(std::string_view pattern, std::string_view replacement,
                                          std::string_view name) {
  require<ValueError>(std::ranges::count(replacement, '*') <= std::ranges::count(pattern, '*'),
                      "the new name \"", replacement, "\" has more * than the pattern \"", pattern,
                      "\", whose texts they get");
  const Match match(pattern, name);
  if (pattern.empty() || !match.holds()) return {};
  size_t end = 0, next = 0;
  const std::vector<std::string_view> texts = match.texts(end);
  std::string out;
  for (const char c : replacement) {
    if (c == '*') {
      out += texts[next++];
    } else {
      out += c;
    }
  }
  out += name.substr(end);
  return out;
}

}  // namespace taper::v0
