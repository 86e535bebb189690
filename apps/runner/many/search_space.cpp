#include "apps/runner/many/search_space.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <set>

#include <fmt/format.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"

namespace taper::v0::runner {
namespace {

// Splits a value at '|', except within brackets, braces and quotes.
std::vector<std::string> choices_in(const std::string& value) {
  std::vector<std::string> out(1);
  int depth = 0;
  char quote = 0;
  for (const char c : value) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    }
    if (c == '|' && depth == 0 && quote == 0) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

bool is_integer(const std::string& text) {
  int64_t value = 0;
  return parse_number(text, value) == std::errc();
}

// Returns std::nullopt if the value is no range. Throws ConfigError for a malformed one.
std::optional<SearchDimension> range_in(const std::string& word, const std::string& key,
                                        std::string value) {
  const size_t dots = value.find("..");
  if (dots == std::string::npos) return std::nullopt;
  const size_t colon = value.find(':', dots);
  const std::string scale = colon == std::string::npos ? "" : value.substr(colon + 1);
  value = value.substr(0, colon);
  const std::string low = value.substr(0, dots), high = value.substr(dots + 2);
  SearchDimension out{.key = key, .is_log = scale == "log"};
  const bool is_range = parse_number(low, out.low) == std::errc() &&
                        parse_number(high, out.high) == std::errc() && std::isfinite(out.low) &&
                        std::isfinite(out.high);
  if (!is_range && colon == std::string::npos) return std::nullopt;  // a path such as ../data
  const std::string place = concat_to_string("command line: ", word, ": ");
  require<ConfigError>(is_range, place, "expected a range such as 1e-4..1e-2:log");
  require<ConfigError>(scale.empty() || out.is_log, place, "unknown scale ", in_quotes(scale),
                       "; the only one is log");
  require<ConfigError>(out.low < out.high, place, "the first number must be below the second");
  require<ConfigError>(!out.is_log || out.low > 0, place,
                       "a range with :log must have positive numbers");
  out.is_integer = is_integer(low) && is_integer(high);
  return out;
}

// Returns numbers in [0, 1) that depend only on the arguments. Uses the bits of the generator
// itself, because std::uniform_real_distribution differs between libraries.
std::vector<double> uniform_numbers(size_t count, uint64_t seed, int64_t trial, int64_t attempt) {
  std::seed_seq words{uint32_t(seed), uint32_t(seed >> 32), uint32_t(trial), uint32_t(attempt)};
  std::mt19937_64 generator(words);
  std::vector<double> out(count);
  for (double& u : out) u = double(generator() >> 11) * 0x1p-53;
  return out;
}

}  // namespace

std::string SearchDimension::value_at(double u) const {
  if (!choices.empty()) return choices[size_t(u * double(choices.size()))];
  const double top = is_integer ? high + 1 : high;  // each integer up to `high` is a value
  const double x = is_log ? low * std::pow(top / low, u) : low + (top - low) * u;
  if (is_integer) return fmt::format("{}", std::min(int64_t(high), int64_t(std::floor(x))));
  return fmt::format("{:.4g}", x);
}

SearchSpace::SearchSpace(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    const std::vector<std::string> choices = choices_in(value);
    if (choices.size() > 1) {
      dimensions_.push_back({.key = key, .choices = choices});
    } else if (const auto range = range_in(word, key, value)) {
      dimensions_.push_back(*range);
    } else {
      fixed_.push_back(word);
      continue;
    }
    text_ += (text_.empty() ? "" : " ") + word;
  }
  require_single_keys();
  require<ConfigError>(!dimensions_.empty(),
                       "there is nothing to search; give at least one setting a range, such as "
                       "optimizer.lr=1e-4..1e-2:log, or choices, such as 'model.hidden=64|128'");
}

void SearchSpace::require_single_keys() const {
  std::set<std::string> known;
  for (const std::string& word : fixed_) known.insert(word.substr(0, word.find('=')));
  for (const SearchDimension& dimension : dimensions_) {
    require<ConfigError>(known.insert(dimension.key).second, "command line: ", dimension.key,
                         " is given twice; give one range, one list of choices or one value");
  }
}

int64_t SearchSpace::combinations(int64_t most) const {
  int64_t count = 1;
  for (const SearchDimension& dimension : dimensions_) {
    if (dimension.choices.empty()) return most;
    count = std::min(most, count * std::ssize(dimension.choices));
  }
  return count;
}

std::vector<std::vector<std::string>> SearchSpace::draw(int64_t count, uint64_t seed) const {
  std::vector<std::vector<std::string>> out;
  std::set<std::vector<std::string>> known;
  const int64_t most = combinations(count);
  constexpr int64_t kMostAttempts = 10'000;  // a range of few integers may be exhausted as well
  for (int64_t attempt = 0; std::ssize(out) < most && attempt < kMostAttempts; ++attempt) {
    const std::vector<double> u =
        uniform_numbers(dimensions_.size(), seed, std::ssize(out), attempt);
    std::vector<std::string> settings;
    for (size_t i = 0; i < dimensions_.size(); ++i) {
      settings.push_back(concat_to_string(dimensions_[i].key, "=", dimensions_[i].value_at(u[i])));
    }
    if (!known.insert(settings).second) continue;
    out.push_back(std::move(settings));
    attempt = -1;
  }
  return out;
}

}  // namespace taper::v0::runner
