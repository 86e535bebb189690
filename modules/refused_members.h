// Types and messages for constructors of members (modules/members.h) that refuse their arguments.
#pragma once

#include <initializer_list>
#include <string>
#include <type_traits>

#include "framework/base/namespace.h"

namespace taper::v0 {

class Module;

namespace detail {

// Selects constructors of members that only refuse their arguments by a static_assert.
struct Refused {};
template <class T>
concept IsText = std::is_convertible_v<T, std::string>;
// A parameter type that overload resolution considers last for a Module.
struct AnyOwner {
  AnyOwner(Module&);
};
// A parameter type that GCC converts from anything in braces, also from options that are misspelt.
// It does so only if there is a constructor from a list. From version 14 on, GCC converts braces
// with names of options to nothing but a struct, and says only that it could not convert them.
// clang lists the constructors of Child, with the type of the options.
struct AnyBraces {
  template <class... T> AnyBraces(T&&...);
  AnyBraces(std::initializer_list<Refused>);
};
// A condition that fails only when a template is instantiated.
template <class T> inline constexpr bool kNever = false;

// Refuses a Parameter or Buffer without its module.
template <class T> void refuse_unowned() {
  static_assert(kNever<T>,
                "the first argument is the module: Parameter weight{*this, \"weight\", x}");
}
// Refuse the arguments of a Child in one sentence. They return what selects its constructor.
template <class T> Refused refuse_without_owner() {
  static_assert(
      kNever<T>,
      "the first argument of a Child is its owner: Child<Linear> fc{*this, \"fc\", 3, 4}");
  return {};
}
template <class T> Refused refuse_without_name() {
  static_assert(kNever<T>, "a Child has a name: Child<Linear> fc{*this, \"fc\", 3, 4}");
  return {};
}
template <class T> Refused refuse_options() {
  static_assert(kNever<T>,
                "these braces are no options of this Child's module: write their type, as in "
                "LinearOptions{.bias = false}, and the compiler names the wrong option");
  return {};
}

}  // namespace detail

}  // namespace taper::v0
