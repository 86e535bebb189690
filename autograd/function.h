// Differentiable functions of the user's own
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

#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "autograd/node.h"
#include "framework/memory/pointers.h"

namespace taper::v0 {

// What forward leaves for backward: a handle, made anew for each run of either.
class Context {
 public:
  // Inputs, outputs or anything else; read in backward, where a tensor that was changed in place
  // since is refused. Once at most.
  void save_for_backward(const std::vector<Tensor>& tensors);
  std::vector<Tensor> saved_tensors() const;
  // Anything that is no tensor: ctx.set("low", 0.5), ctx.get<double>("low"). Getting what was not
  // set, or as another type, throws.
  template <class T> void set(const std::string& name, T value) {
    put(name, typeid(T), Shared<T>::make(std::move(value)));
  }
  template <class T> const T& get(const std::string& name) const {
    return *static_cast<const T*>(find(name, typeid(T)));
  }
  // Whether argument i of apply wants a gradient.
  bool needs_input_grad(size_t i) const;
  // These outputs get no gradient and hand none on (integers never do).
  void mark_non_differentiable(const std::vector<Tensor>& outputs);

 private:
  friend class FunctionCall;
  struct Left;
  explicit Context(Shared<Left> left, const Gradients* pass = nullptr)
      : left_(std::move(left)), pass_(pass) {}
  void put(const std::string& name, const std::type_info& type, Shared<const void> value);
  const void* find(const std::string& name, const std::type_info& type) const;

  Shared<Left> left_;
  const Gradients* pass_;  // in backward
};

// One application, whatever the types.
class FunctionCall {
 public:
  using Backward = std::vector<Tensor> (*)(Context&, const std::vector<Tensor>&);

  // The arguments of apply; those that are no tensors are undefined here.
  FunctionCall(const char* name, std::vector<Tensor> arguments);
  Context& context() { return context_; }
  // Puts the outputs on the tape if need be.
  std::vector<Tensor> finish(std::vector<Tensor> outputs, Backward backward);

 private:
  const char* name_;
  std::vector<Tensor> arguments_;
  bool recorded_;
  Context context_;
};

// "taper::Clip" gives "ClipBackward".
std::string backward_name(const std::type_info& type);

// Derive from Function<F> and write
//   static Tensor (or std::vector<Tensor>) forward(Context&, ...), which runs without the tape, and
//   static std::vector<Tensor> backward(Context&, const std::vector<Tensor>& dy),
// which gets a gradient for each output (zeros where none arrived) and returns one for each
// argument of apply, undefined for what is no tensor; behind the last tensor they may be left out.
// Undefined ones for arguments of forward that apply left at their defaults are taken, too.
// forward must not change its arguments in place.
// When backward is written with differentiable functions it can be differentiated again. Tensors
// are arguments of their own: in a std::vector they would be lost to the tape.
template <class F> struct Function {
  template <class... Args> static auto apply(const Args&... args) {
    static_assert(!(std::is_same_v<Args, std::vector<Tensor>> || ...),
                  "pass each tensor as an argument of its own");
    static const std::string name = backward_name(typeid(F));
    FunctionCall call(name.c_str(), {tensor_or_nothing(args)...});
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
  template <class T> static Tensor tensor_or_nothing(const T& x) {
    if constexpr (std::is_convertible_v<const T&, const Tensor&>) {
      return x;
    } else {
      return {};
    }
  }
};

}  // namespace taper::v0
