// Calls with arguments in braces, as in cell(x, {h, c}) and mha(x, x, x, {.need_weights = false}),
// for objects whose operator() is a template: Child and ModuleOf. A template cannot deduce the type
// of {h, c}, so the type is looked up among the calls that the module declares.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "framework/base/namespace.h"

namespace taper::v0 {
namespace detail {

template <class... P> struct CallParameters {
  template <size_t I> using At = std::tuple_element_t<I, std::tuple<P...>>;
};

// Declares of(), whose return type has the parameters of the call operator of M:
// decltype(of(&M::operator())). The expression is valid only if M has exactly one overload with
// kCount parameters. of_first<F> considers only overloads whose first parameter is a const F&.
template <size_t kCount> struct CallWith;
template <> struct CallWith<1> {
  template <class R, class C, class A> static CallParameters<A> of(R (C::*)(A));
  template <class R, class C, class A> static CallParameters<A> of(R (C::*)(A) const);
};
template <> struct CallWith<2> {
  template <class R, class C, class A1, class A2>
  static CallParameters<A1, A2> of(R (C::*)(A1, A2));
  template <class R, class C, class A1, class A2>
  static CallParameters<A1, A2> of(R (C::*)(A1, A2) const);
  template <class F, class R, class C, class A2>
  static CallParameters<const F&, A2> of_first(R (C::*)(const F&, A2));
};
template <> struct CallWith<3> {
  template <class R, class C, class A1, class A2, class A3>
  static CallParameters<A1, A2, A3> of(R (C::*)(A1, A2, A3));
  template <class R, class C, class A1, class A2, class A3>
  static CallParameters<A1, A2, A3> of(R (C::*)(A1, A2, A3) const);
  template <class F, class R, class C, class A2, class A3>
  static CallParameters<const F&, A2, A3> of_first(R (C::*)(const F&, A2, A3));
};
template <> struct CallWith<4> {
  template <class R, class C, class A1, class A2, class A3, class A4>
  static CallParameters<A1, A2, A3, A4> of(R (C::*)(A1, A2, A3, A4));
  template <class R, class C, class A1, class A2, class A3, class A4>
  static CallParameters<A1, A2, A3, A4> of(R (C::*)(A1, A2, A3, A4) const);
  template <class F, class R, class C, class A2, class A3, class A4>
  static CallParameters<const F&, A2, A3, A4> of_first(R (C::*)(const F&, A2, A3, A4));
};

// Returns the parameter types of M's call with kCount arguments as a std::type_identity, or void if
// there is no such call. F is the type of the first argument, or void if that is unknown.
template <class M, size_t kCount, class F> auto call_parameters() {
  using Call = CallWith<kCount>;
  if constexpr (requires { Call::template of_first<F>(&M::operator()); }) {
    return std::type_identity<decltype(Call::template of_first<F>(&M::operator()))>();
  } else if constexpr (requires { Call::of(&M::operator()); }) {
    return std::type_identity<decltype(Call::of(&M::operator()))>();
  } else if constexpr (requires { Call::of(&M::forward); }) {
    return std::type_identity<decltype(Call::of(&M::forward))>();
  }
}
template <class M, size_t kCount, class F, size_t I>
using CallParameter = typename decltype(call_parameters<M, kCount, F>())::type::template At<I>;

// Adds a call with sizeof...(I) + 1 arguments to the class Self, which forwards it to its M. The
// parameters after the first have M's types, so that they can be given in braces. `volatile` gives
// this call a lower rank in overload resolution than Self's own operator(), which handles every
// call without braces.
template <class Self, class M, class Rest> struct BracedCall;
template <class Self, class M, size_t... I> struct BracedCall<Self, M, std::index_sequence<I...>> {
  template <class F, class N = M>
  decltype(auto) operator()(const F& first,
                            CallParameter<N, sizeof...(I) + 1, F, I + 1>... rest) volatile {
    auto& self = static_cast<Self&>(const_cast<BracedCall&>(*this));
    return self(first, std::forward<CallParameter<N, sizeof...(I) + 1, F, I + 1>>(rest)...);
  }
};
// Adds a call with one argument in braces: layer({h, c}).
template <class Self, class M> struct BracedCall<Self, M, std::index_sequence<>> {
  template <class N = M> decltype(auto) operator()(CallParameter<N, 1, void, 0> only) volatile {
    auto& self = static_cast<Self&>(const_cast<BracedCall&>(*this));
    return self(std::forward<CallParameter<N, 1, void, 0>>(only));
  }
};

}  // namespace detail

// Base class of a class Self whose operator() is a template that calls an M. Adds calls with
// arguments in braces.
template <class Self, class M>
struct BracedCalls : detail::BracedCall<Self, M, std::index_sequence<>>,
                     detail::BracedCall<Self, M, std::index_sequence<0>>,
                     detail::BracedCall<Self, M, std::index_sequence<0, 1>>,
                     detail::BracedCall<Self, M, std::index_sequence<0, 1, 2>> {
  using detail::BracedCall<Self, M, std::index_sequence<>>::operator();
  using detail::BracedCall<Self, M, std::index_sequence<0>>::operator();
  using detail::BracedCall<Self, M, std::index_sequence<0, 1>>::operator();
  using detail::BracedCall<Self, M, std::index_sequence<0, 1, 2>>::operator();
};

}  // namespace taper::v0
