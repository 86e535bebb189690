// Creation of modules from the arguments of a Child or of a container's add().
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "modules/module.h"

namespace taper::v0 {

// Takes ownership of a module that is passed as an rvalue, by moving it into a new object of type
// M.
template <class M> std::unique_ptr<Module> take_module(M&& module) {
  static_assert(!std::is_lvalue_reference_v<M>,
                "a module is given away: std::move(layer), or clone(layer) for a copy");
  static_assert(!std::is_same_v<M, Module>,
                "a Module is given away as a std::unique_ptr<Module>: its own type is not known "
                "here");
  check_whole(module, typeid(M));
  // NOLINTNEXTLINE(bugprone-move-forwarding-reference): M is not a reference, as checked above
  return std::unique_ptr<Module>(new M(std::move(module)));
}

// Whether a module passed to a Child<M> as an argument of type D becomes the child itself. It does
// not if M itself takes modules in its constructor (M::kTakesModules: Sequential).
template <class M>
concept TakesModules = requires {
  M::kTakesModules;
};
template <class M, class D>
concept GivenAs = std::derived_from<D, M> && !TakesModules<M>;

// Creates M(args...). If the only argument is an M, takes ownership of it; if M is Module, the
// argument may be a module of any type. Invalid arguments give a compile error that is a single
// sentence.
template <class M, class... Args> std::unique_ptr<Module> make_module(Args&&... args) {
  constexpr bool is_given = sizeof...(Args) == 1 && (GivenAs<M, std::remove_cvref_t<Args>> && ...);
  constexpr bool slices =
      is_given && !std::same_as<M, Module> && !(std::same_as<std::remove_cvref_t<Args>, M> && ...);
  static_assert(!slices,
                "this would slice: name the module's own type, as in Child<Derived>, or Module, "
                "which holds a module of any type");
  if constexpr (slices) {
    return {};
  } else if constexpr (is_given && !(std::is_lvalue_reference_v<Args> && ...)) {
    return (take_module(std::forward<Args>(args)), ...);
  } else {
    constexpr bool can_be_made = std::is_constructible_v<M, Args...>;
    static_assert(can_be_made, "no constructor of this Child's module takes these arguments");
    if constexpr (can_be_made) return std::unique_ptr<Module>(new M(std::forward<Args>(args)...));
  }
}

}  // namespace taper::v0
