// The tree of modules: registration, moving, state, texts
// (https://pytorch.org/docs/stable/generated/torch.nn.Module.html).
#include <gtest/gtest.h>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "modules/layers/stateless.h"
#include "modules/members.h"
#include "tests/modules/modules.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

struct Net : Module {
  Child<Linear> fc1{*this, "fc1", 3, 4};
  Child<Linear> fc2{*this, "fc2", 4, 2, LinearOptions{.bias = false}};
  Parameter scale{*this, "scale", ones({2})};
  Buffer count{*this, "count", zeros({}, {.dtype = kInt64})};
  Buffer average{*this, "average", zeros({4})};
  Tensor forward(const Tensor& x) override { return (*fc2)(relu((*fc1)(x))) * *scale; }
  std::string type_name() const override { return "Net"; }
};

// A layer whose weight belongs to another one.
struct Tied : Module {
  Child<Linear> first{*this, "first", 3, 3, LinearOptions{.bias = false}};
  Tied() { register_parameter("again", *first->weight); }
  Tensor forward(const Tensor& x) override { return first(first(x)); }
  std::string type_name() const override { return "Tied"; }
};

TEST(Module, ParametersComeDepthFirstInOrderOfRegistration) {
  const Net net;
  EXPECT_EQ(names_of(net.named_parameters()),
            (Names{"scale", "fc1.weight", "fc1.bias", "fc2.weight"}));
  EXPECT_EQ(names_of(net.named_buffers()), (Names{"count", "average"}));
  EXPECT_EQ(names_of(net.state_dict()),
            (Names{"scale", "count", "average", "fc1.weight", "fc1.bias", "fc2.weight"}));
  EXPECT_EQ(net.num_parameters(), 2 + 12 + 4 + 8);
  EXPECT_EQ(net.parameters().size(), 4u);
  EXPECT_TRUE(net.parameters()[0].is_same(*net.scale));
}

TEST(Module, ParametersAreLeavesThatRequireGradAndBuffersAreNot) {
  const Net net;
  for (const Tensor& p : net.parameters()) {
    EXPECT_TRUE(p.requires_grad());
    EXPECT_TRUE(p.is_leaf());
    EXPECT_TRUE(p.impl()->is_parameter);
  }
  for (const NamedTensor& b : net.named_buffers()) EXPECT_FALSE(b.tensor.requires_grad());
  for (const NamedTensor& s : net.state_dict()) EXPECT_FALSE(s.tensor.requires_grad());
}

TEST(Module, NamesThatCannotBePathsAreRefused) {
  Net net;
  const auto parameter = [&](const char* name) {
    return [&net, name] { return net.register_parameter(name, ones({1})), 0; };
  };
  EXPECT_TRUE(refuses<Error>(parameter(""), "Parameter name must not be empty"));
  EXPECT_TRUE(
      refuses<Error>(parameter("a.b"), "Parameter name must not contain a dot (got 'a.b')"));
  EXPECT_TRUE(refuses<Error>(parameter("scale"), "Parameter 'scale' already defined"));
  EXPECT_TRUE(refuses<Error>(parameter("fc1"), "Parameter 'fc1' already defined"));
  EXPECT_TRUE(refuses<Error>([&] { return net.register_buffer("", ones({1})), 0; },
                             "Buffer name must not be empty"));
  EXPECT_TRUE(refuses<Error>([&] { return net.register_buffer("a.b", ones({1})), 0; },
                             "Buffer name must not contain a dot (got 'a.b')"));
  ReLU relu_module;
  EXPECT_TRUE(refuses<Error>([&] { return net.register_module("", relu_module), 0; },
                             "Submodule name must not be empty"));
  EXPECT_TRUE(refuses<Error>([&] { return net.register_module("a.b", relu_module), 0; },
                             "Submodule name must not contain a dot (got 'a.b')"));
  EXPECT_TRUE(refuses<Error>([&] { return net.register_module("count", relu_module), 0; },
                             "Submodule 'count' already defined"));
  EXPECT_EQ(net.parameters().size(), 4u);
}

TEST(Module, AssigningWritesThroughToTheRegisteredTensor) {
  Net net;
  const Tensor held = net.parameters()[0];
  net.scale = full({2}, 7.0);
  EXPECT_TRUE(close(held, {2}, {7, 7}, 0));
  EXPECT_TRUE(held.is_same(*net.scale));
  net.count = full({}, 3);
  EXPECT_EQ(net.named_buffers()[0].tensor.item<int64_t>(), 3);
  EXPECT_TRUE(refuses<Error>([&] { return net.scale = ones({3}), 0; },
                             "cannot assign a tensor of shape [3] to one of shape [2]"));
  EXPECT_TRUE(refuses<Error>([&] { return net.fc2->bias = ones({2}), 0; },
                             "cannot assign to a parameter that the module does not have"));
}

TEST(Module, ATiedParameterIsListedOnceButSavedUnderEachName) {
  const Tied tied;
  EXPECT_EQ(tied.parameters().size(), 1u);
  EXPECT_EQ(tied.state_dict().size(), 2u);
  EXPECT_EQ(tied.num_parameters(), 9);
  EXPECT_EQ(tied.state_dict()[0].tensor.data_ptr(), tied.state_dict()[1].tensor.data_ptr());
}

// --- moving ---

void expect_moved_in_place(Device device, DType dtype) {
  Net net;
  Tied tied;
  const std::vector<Tensor> held = net.parameters();
  net.forward(ones({2, 3})).sum().backward();
  const std::vector<double> grad_before = values_of(held[1].grad());
  const std::vector<double> before = values_of(held[1]);

  EXPECT_EQ(&net.to(device, dtype), &net);
  tied.to(device, dtype);
  const std::vector<Tensor> now = net.parameters();
  for (size_t i = 0; i < held.size(); ++i) {
    EXPECT_TRUE(now[i].is_same(held[i]));
    EXPECT_EQ(held[i].dtype(), dtype);
    EXPECT_EQ(held[i].device(), device);
    EXPECT_EQ(held[i].grad().dtype(), dtype);
    EXPECT_EQ(held[i].grad().device(), device);
    EXPECT_TRUE(held[i].requires_grad());
  }
  EXPECT_EQ(values_of(held[1]), before);
  EXPECT_EQ(values_of(held[1].grad()), grad_before);
  // Integer buffers are moved but keep their dtype.
  EXPECT_EQ(net.count->dtype(), kInt64);
  EXPECT_EQ(net.count->device(), device);
  EXPECT_EQ(net.average->dtype(), dtype);
  EXPECT_EQ(tied.parameters().size(), 1u);
  EXPECT_EQ(tied.state_dict()[0].tensor.data_ptr(), tied.state_dict()[1].tensor.data_ptr());
  EXPECT_EQ(net.forward(ones({2, 3}, {.dtype = dtype, .device = device})).dtype(), dtype);
}

TEST(Module, ToChangesTheModuleItselfAndKeepsItsTensors) {
  expect_moved_in_place(Device(), kFloat64);
}

TEST(Module, CudaChangesTheModuleItselfAndKeepsItsTensors) {
  if (skip_without_cuda()) return;
  expect_moved_in_place(Device("cuda:0"), kFloat32);
  expect_moved_in_place(Device("cuda:0"), kFloat64);
}

TEST(Module, AMoveToTheSamePlaceChangesNothing) {
  Net net;
  const void* data = net.scale->data_ptr();
  net.cpu().to(kFloat32);
  EXPECT_EQ(net.scale->data_ptr(), data);
}

TEST(Module, IntegerDtypesAreRefused) {
  Net net;
  EXPECT_TRUE(refuses<TypeError>([&] { return net.to(kInt64).num_parameters(); },
                                 "Module::to only accepts floating-point dtypes, but got desired "
                                 "dtype=int64"));
  EXPECT_EQ(net.scale->dtype(), kFloat32);
  EXPECT_TRUE(refuses<Error>([&] { return net.cuda(Device("cpu")).num_parameters(); },
                             "Invalid device, must be cuda device"));
}

// --- modes, gradients ---

TEST(Module, TrainAndEvalReachEveryChild) {
  Sequential net(Linear(2, 2), Dropout(0.5));
  EXPECT_TRUE(net.is_training());
  EXPECT_EQ(&net.eval(), &net);
  EXPECT_FALSE(net[1].is_training());
  const Tensor x = ones({4, 2});
  EXPECT_TRUE(same_bits(net(x), net[0](x)));
  net.train();
  EXPECT_TRUE(net[1].is_training());
}

TEST(Module, ZeroGradDropsAllGradients) {
  Net net;
  net(ones({1, 3})).sum().backward();
  EXPECT_TRUE(net.scale->grad().defined());
  net.zero_grad();
  for (const Tensor& p : net.parameters()) EXPECT_FALSE(p.grad().defined());
}

// --- state ---

TEST(Module, StateGoesFromOneModuleToAnotherAcrossDtypes) {
  manual_seed(1);
  Net from;
  manual_seed(2);
  Net to;
  const Tensor held = to.parameters()[1];
  to.load_state_dict(from.to(kFloat64).state_dict());
  EXPECT_EQ(held.dtype(), kFloat32);
  EXPECT_TRUE(close(held, *from.fc1->weight, 0));
  EXPECT_TRUE(held.is_same(*to.fc1->weight));
}

TEST(Module, LoadingReportsAllThatIsWrongAndChangesNothing) {
  Net net;
  const Tensor before = net.scale->detach().clone();
  std::vector<NamedTensor> state = Net().state_dict();
  state[0].tensor = zeros({2});
  state[3].tensor = zeros({9, 9});        // fc1.weight
  state[4] = {"fc1.offset", zeros({4})};  // fc1.bias
  state.push_back({"fc3.weight", zeros({1})});
  EXPECT_TRUE(
      refuses<Error>([&] { return net.load_state_dict(state), 0; },
                     "Error(s) in loading state_dict for Net:"
                     "\n\tMissing key(s) in state_dict: \"fc1.bias\"."
                     "\n\tUnexpected key(s) in state_dict: \"fc1.offset\", \"fc3.weight\"."
                     "\n\tsize mismatch for fc1.weight: copying a param with shape [9, 9] from "
                     "checkpoint, the "
                     "shape in current model is [4, 3]."));
  EXPECT_TRUE(same_bits(net.scale->detach(), before));
}

TEST(Module, LoadingIsAChangeThatTheTapeNotices) {
  Linear layer(2, 2);
  const Tensor y = layer(ones({1, 2}, {.requires_grad = true})).sum();
  layer.load_state_dict(Linear(2, 2).state_dict());
  EXPECT_TRUE(refuses<Error>([&] { return y.backward(), 0; },
                             "one of the variables needed for gradient computation has been "
                             "modified by an inplace operation"));
}

// --- messages ---

TEST(Module, ErrorsNameThePathOfTheModule) {
  struct Outer : Module {
    Child<Sequential> net{*this, "net", Linear(3, 4), ReLU(), Linear(5, 2)};
    Tensor forward(const Tensor& x) override { return net(x); }
    std::string type_name() const override { return "Outer"; }
  };
  Outer outer;
  try {
    (void)outer(ones({1, 3}));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_TRUE(what.starts_with("mat1 and mat2 shapes cannot be multiplied (1x4 and 5x2)"));
    EXPECT_TRUE(what.ends_with(" (in module net.2)")) << what;
    EXPECT_EQ(error.module_path(), "net.2");
  }
}

// A program's own exceptions keep their type, and their module can be queried.
TEST(Module, OfAnExceptionThatIsNoErrorThePathCanBeAsked) {
  struct Thrown : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  struct Odd : Module {
    Tensor forward(const Tensor& x) override {
      if (x.size(0) == 2) throw Thrown("two rows");
      return x;
    }
  };
  struct Outer : Module {
    Child<Sequential> net{*this, "net", Linear(3, 4), Odd()};
    Tensor forward(const Tensor& x) override {
      try {
        return net(x);
      } catch (const Thrown&) {
        if (is_training()) throw;
        throw std::logic_error("its own");
      }
    }
  };
  Outer outer;
  EXPECT_NO_THROW((void)outer(ones({1, 3})));
  try {
    (void)outer(ones({2, 3}));
    FAIL() << "nothing was thrown";
  } catch (const Thrown& error) {
    EXPECT_EQ(module_of(error), "net.1");
  }
  outer.eval();
  try {
    (void)outer(ones({2, 3}));
    FAIL() << "nothing was thrown";
  } catch (const std::logic_error& error) {
    EXPECT_EQ(module_of(error), "");
  }
}

TEST(Module, OperandsElsewhereAreRefusedWithThePath) {
  if (skip_without_cuda()) return;
  Sequential net(Linear(3, 1));
  net.cuda();
  EXPECT_TRUE(refuses<Error>(
      [&] {
        return net(ones({2, 3}));
      },
      "Expected all tensors to be on the same device, but got mat1 is on "
      "cpu, different from other tensors on cuda:0"));
}

}  // namespace
}  // namespace taper::v0::test
