// Enums that can be written as text, for all choices in public interfaces. A parameter or option
// accepts an enumerator or its word. A word that is not listed is refused at run time, with the
// list of the accepted ones.
//
//   struct ReductionValues {
//     enum class Value : uint8_t { kNone, kMean, kSum };
//     static constexpr Value kNone = Value::kNone, kMean = Value::kMean, kSum = Value::kSum;
//     static constexpr const char* kOption = "reduction";
//     static constexpr const char* kWords[] = {"none", "mean", "sum"};
//   };
//   using Reduction = TextEnum<ReductionValues>;
//
//   mse_loss(x, y, Reduction::kSum);
//   mse_loss(x, y, "sum");
//   mse_loss(x, y, "summ");  // throws: 'summ' is not a valid value for reduction ...
//
// The words are PyTorch's, in the order of the values, which begin at 0. Descriptions of options
// (framework/base/describe.h) take them from here, so that a config accepts the same words.
// (`using enum Value` would list the enumerators once, but GCC 12 fails on enumerators that are
// used that way in a template.)
#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "framework/base/namespace.h"

namespace taper::v0 {

// Throws ValueError, which names the option and its words.
[[noreturn]] void refuse_word(std::string_view word, const char* option, const char* const* words,
                              size_t count);

// Values has the enum, the name of the option and the words, as in the example above.
template <class Values> class TextEnum : public Values {
 public:
  using Value = typename Values::Value;
  static constexpr size_t kCount = std::size(Values::kWords);

  constexpr TextEnum(Value enumerator) : value(enumerator) {}
  // Accepts string literals, std::string and std::string_view. Throws ValueError for other words.
  template <class T>
  requires(std::convertible_to<const T&, std::string_view> &&
           !std::same_as<T, std::nullptr_t>) constexpr TextEnum(const T& word)
      : value(find(word)) {}
  constexpr operator Value() const { return value; }
  template <std::integral T> explicit constexpr operator T() const { return T(value); }

  constexpr size_t index() const { return size_t(value); }
  // Returns "invalid" for a value without a word, which only a cast from a number can produce.
  constexpr const char* word() const {
    return index() < kCount ? Values::kWords[index()] : "invalid";
  }

  friend constexpr bool operator==(TextEnum a, TextEnum b) { return a.value == b.value; }
  friend constexpr bool operator==(TextEnum a, Value b) { return a.value == b; }
  friend std::string to_string(TextEnum x) { return x.word(); }

  Value value;  // public, so that the type can be a template argument

 private:
  static constexpr Value find(std::string_view word) {
    for (size_t i = 0; i < kCount; ++i) {
      if (word == Values::kWords[i]) return Value(i);
    }
    refuse_word(word, Values::kOption, Values::kWords, kCount);
  }
};

template <class T> inline constexpr bool kIsTextEnum = false;
template <class Values> inline constexpr bool kIsTextEnum<TextEnum<Values>> = true;

}  // namespace taper::v0
