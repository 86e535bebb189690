// User-defined differentiable functions
// (https://pytorch.org/docs/stable/notes/extending.html#extending-torch-autograd).
//
//   struct Cube : Function<Cube> {
//     static Tensor forward(Context& ctx, const Tensor& x) {
//       ctx.save_for_backward({x});
//       return x * x * x;
//     }
//     static std::vector<Tensor> backward(Context& ctx, const std::vector<Tensor>& dy) {
//       const Tensor x = ctx.saved_tensors()[0];
//       return {dy[0] * x * x * 3};
//     }
//   };
//   const Tensor y = Cube::apply(x);
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "autograd/node.h"

namespace taper::v0 {

// Passes tensors and values from forward to backward. Each run of either gets a new Context, a
// handle to the same data.
class Context {
 public:
  // Saves inputs, outputs or any other tensors for backward. Call it at most once. In backward,
  // saved_tensors() throws Error if one of them has been changed in place since.
  void save_for_backward(const std::vector<Tensor>& tensors);
  std::vector<Tensor> saved_tensors() const;
  // Stores values other than tensors: ctx.set("low", 0.5), then ctx.get<double>("low"). get throws
  // Error if nothing of that name and type was set.
  template <class T> void set(const std::string& name, T value) {
    put(name, typeid(T), std::make_shared<T>(std::move(value)));
  }
  template <class T> const T& get(const std::string& name) const {
    return *static_cast<const T*>(find(name, typeid(T)));
  }
  // Returns whether argument i of apply needs a gradient. Each tensor of a list counts.
  bool needs_input_grad(size_t i) const;
  // Excludes these outputs from differentiation: they require no grad. Integer outputs never do.
  void mark_non_differentiable(const std::vector<Tensor>& outputs);

 private:
  friend class FunctionCall;
  struct Left;
  explicit Context(std::shared_ptr<Left> left, const Gradients* pass = nullptr)
      : left_(std::move(left)), pass_(pass) {}
  void put(const std::string& name, const std::type_info& type, std::shared_ptr<const void> value);
  const void* find(const std::string& name, const std::type_info& type) const;

  std::shared_ptr<Left> left_;
  const Gradients* pass_;  // in backward
};

// One call of apply, independent of the argument types.
class FunctionCall {
 public:
  using Backward = std::vector<Tensor> (*)(Context&, const std::vector<Tensor>&);

  // `arguments` are the arguments of apply, with the tensors of lists one after another, and with
  // an undefined tensor for each argument that is neither a tensor nor a list.
  FunctionCall(const char* name, std::vector<Tensor> arguments);
  Context& context() { return context_; }
  // Records the outputs on the tape if an argument requires grad.
  std::vector<Tensor> finish(std::vector<Tensor> outputs, Backward backward);

 private:
  const char* name_;
  std::vector<Tensor> arguments_;
  bool recorded_;
  Context context_;
};

// Returns the name of the node: "ClipBackward" for the class "taper::Clip".
std::string backward_name(const std::type_info& type);

// The base of a user-defined function F. Derive F from Function<F> and define two static members:
//
//   Tensor forward(Context& ctx, ...);   or a std::vector<Tensor> as the result
//   std::vector<Tensor> backward(Context& ctx, const std::vector<Tensor>& dy);
//
// forward runs without recording. It must not change its arguments in place. backward receives one
// gradient for each output, zeros where none arrived. It returns one gradient for each argument of
// apply, in order, and an undefined tensor for each argument that is not a tensor. Gradients after
// the last tensor argument may be omitted. Extra undefined gradients, for defaulted arguments of
// forward, are accepted.
//
// An argument may be a list of tensors: a std::vector<Tensor>, a std::array<Tensor, n>, a span or
// another range of them. Each tensor of a list counts as an argument of its own, in the order of
// the list, both for the gradients that backward returns and for needs_input_grad(). Tensors of a
// list may be undefined. Tensors inside other types are not recorded.
//
// If backward uses only differentiable functions, it can be differentiated again.
template <class F> struct Function {
  template <class... Args> static auto apply(const Args&... args) {
    static const std::string name = backward_name(typeid(F));
    std::vector<Tensor> tensors;
    (append(tensors, args), ...);
    FunctionCall call(name.c_str(), std::move(tensors));
    const auto run = [&] {
      const NoGradGuard no_grad;
      return F::forward(call.context(), args...);
    };
    if constexpr (std::is_same_v<decltype(run()), Tensor>) {
      return call.finish({run()}, &F::backward)[0];
    } else {
      return call.finish(run(), &F::backward);
    }
  }

 private:
  template <class T> static constexpr bool kIsList = requires(const T& x) {
    x.end();
    static_cast<const Tensor&>(*x.begin());
  };
  template <class T> static void append(std::vector<Tensor>& tensors, const T& argument) {
    if constexpr (std::is_convertible_v<const T&, const Tensor&>) {
      tensors.push_back(argument);
    } else if constexpr (kIsList<T>) {
      for (const Tensor& each : argument) tensors.push_back(each);
    } else {
      tensors.emplace_back();
    }
  }
};

}  // namespace taper::v0
