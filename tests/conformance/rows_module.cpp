// Rows of modules that are moved in place, of the backward pass, and of optimizers across a move.
#include "autograd/ops/binary_ops.h"
#include "autograd/print.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "modules/layers/containers.h"
#include "modules/layers/conv_layers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/stateless.h"
#include "optim/algorithms/adam.h"
#include "optim/algorithms/sgd.h"
#include "tests/conformance/families.h"
#include "tests/conformance/python.h"

namespace taper::v0::conformance {
namespace {

// Returns a Linear(3, 1) with the weights that the rows print.
Linear known_linear() {
  Linear net(3, 1);
  net.weight = tensor({{0.1344, -0.1416, 0.2403}});
  net.bias = tensor({-0.2868});
  return net;
}

// A layer that holds a given tensor as its weight and returns a new tensor.
struct Holder : Module {
  explicit Holder(const Tensor& weight) { register_parameter("weight", weight); }
  Tensor forward(const Tensor&) override { return zeros({1}); }
  std::string type_name() const override { return "Holder"; }
};

Tensor leaf(const TensorData& values) { return tensor(values, {.requires_grad = true}); }

std::string parameter_list() {
  std::string text;
  for (const Tensor& p : known_linear().parameters()) {
    text += concat_to_string(text.empty() ? "" : ", ", to_string(p));
  }
  return concat_to_string("[", text, "]");
}

std::string moves_in_place() {
  Linear net(3, 1);
  const Tensor before = net.parameters()[0];
  Module& moved = net.cuda();
  return py_list(&moved == &net, net.parameters()[0].is_same(before), repr(before.device()));
}

std::string forward_print() {
  Linear net = known_linear();
  net.cuda();
  return to_string(net(eye(3).narrow(0, 0, 2).to("cuda")));
}

std::string moves_gradients() {
  Linear net(3, 1);
  net(ones({2, 3})).sum().backward();
  net.cuda();
  return py_list(net.weight->device(), net.weight->grad().device());
}

std::string stays_tied() {
  const Tensor shared = leaf({1., 2.});
  Sequential net{Holder(shared), Holder(shared)};
  net.cuda();
  std::vector<std::string> keys;
  for (const NamedTensor& entry : net.state_dict()) keys.push_back(entry.name);
  const bool tied = net.state_dict()[0].tensor.data_ptr() == net.state_dict()[1].tensor.data_ptr();
  return py_list(tied && shared.is_cuda(), net.parameters().size(), keys);
}

std::string new_tensor() {
  Holder net(leaf({1., 2.}));
  net.cuda();
  return to_string(net(ones({1}, {.device = "cuda"})).device());
}

std::string after_backward(const Tensor& y) {
  y.backward();
  return "no error";
}

std::string backward_twice() {
  const Tensor x = leaf({1., 2.}), y = (x * x).sum();
  y.backward();
  return after_backward(y);
}

std::string backward_accumulates() {
  const Tensor x = leaf({1.});
  for (int i = 0; i < 2; ++i) (x * 2).sum().backward();
  return to_string(x.grad());
}

void train_once(Linear& net, optim::Optimizer& optimizer) {
  optimizer.zero_grad();
  net(ones({2, 3}, {.device = net.weight->device()})).sum().backward();
  optimizer.step();
}

// The optimizer is created before the move and steps after it.
std::string made_before_move() {
  Linear net = known_linear();
  optim::SGD optimizer(net.parameters(), {.lr = 0.5});
  net.cuda();
  train_once(net, optimizer);
  // The gradient of the bias is the number of rows, 2.
  const bool stepped = net.bias->item<float>() == -0.2868f - 1;
  return stepped ? to_string(net.weight->device()) : "the step changed another tensor";
}

// Adam's moments are on the CPU when the model is moved.
std::string state_follows() {
  Linear net = known_linear();
  optim::Adam optimizer(net.parameters(), {.lr = 0.5});
  train_once(net, optimizer);
  net.cuda();
  train_once(net, optimizer);
  return concat_to_string("a step on ", net.weight->device());
}

std::string printed_layers() {
  return to_string(Sequential(Linear(784, 512), ReLU(), Dropout(), Conv2d(1, 20, 5),
                              BatchNorm2d(20), LayerNorm({8}), Embedding(10, 3)));
}

std::string state_keys() {
  std::vector<std::string> keys;
  Sequential net(Linear(3, 4), BatchNorm2d(4));
  for (const NamedTensor& entry : net.state_dict()) keys.push_back(entry.name);
  return py(keys);
}

void of_modules(Rows& rows) {
  rows("module.parameters", 0, parameter_list);
  rows("module.device_before", 0, [] { return repr(Linear(3, 1).parameters()[0].device()); });
  rows("module.in_place", 1, moves_in_place);
  rows("module.forward_print", 1, forward_print);
  rows("module.repr", 0, printed_layers);
  rows("module.to_moves_grad", 1, moves_gradients);
  rows("module.to_int_refused", 0, [] { return to_string(Linear(3, 1).to(kInt64)); })
      .differs_in(kCppWording,
                  "TypeError: Module::to only accepts floating-point dtypes, but got desired "
                  "dtype=int64");
  rows("module.tied", 1, stays_tied);
  rows("module.new_tensor_stays_cpu", 1, new_tensor);
  rows("module.state_dict_keys", 0, state_keys);
  rows("optimizer.before_move", 1, made_before_move);
  rows("optimizer.state_stays_behind", 1, state_follows)
      .differs_in("the state follows its parameter", "a step on cuda:0");
}

void of_the_tape(Rows& rows) {
  rows("backward.nonscalar", 0, [] { return after_backward(leaf({1., 2.}) * 2); });
  rows("backward.no_grad_tensor", 0, [] { return after_backward(tensor({1.}).sum()); });
  rows("backward.twice", 0, backward_twice)
      .differs_in(kCppWording,
                  "RuntimeError: Trying to backward through the graph a second time (or directly "
                  "access saved tensors after they have already been freed). Saved intermediate "
                  "values of the graph are freed when you call backward() or grad(). Specify "
                  "retain_graph = true if you need to backward through the graph a second time or "
                  "if you need to access saved tensors after calling backward.");
  rows("backward.accumulates", 0, backward_accumulates);
  rows("inplace.leaf", 0, [] { return to_string(leaf({1., 2.}).add_(ones({2}))); });
  rows("grad.int_requires_grad", 0, [] { return to_string(leaf({1, 2})); });
}

}  // namespace

void module_rows(Rows& rows) {
  of_modules(rows);
  of_the_tape(rows);
}

}  // namespace taper::v0::conformance
