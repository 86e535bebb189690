// An optimizer refuses to step parameters that their module has given up.
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "modules/members.h"
#include "optim/algorithms/lbfgs.h"
#include "tests/optim/all_optimizers.h"

namespace taper::v0::test {
namespace {

using namespace optim;

struct LostNet : ModuleOf<LostNet> {
  Child<Linear> body{*this, "body", 3, 3}, fc{*this, "fc", 3, 2};
  Tensor forward(const Tensor& x) { return fc(body(x)); }
};

// A program that changes a model after its optimizer was created.
struct Program {
  std::unique_ptr<LostNet> net = std::make_unique<LostNet>();
  std::optional<LostNet> other;
  std::optional<SGD> optimizer;

  explicit Program(bool has_names = true) {
    if (has_names) {
      optimizer.emplace(net->named_parameters(), SGDOptions{.lr = 0.1});
    } else {
      optimizer.emplace(net->parameters(), SGDOptions{.lr = 0.1});
    }
  }
  void step() {
    LostNet& used = other ? *other : *net;
    optimizer->zero_grad();
    used(ones({1, 3})).sum().backward();
    optimizer->step();
  }
};

TEST(LostParameters, AreRefusedByNameWhereverTheyWereLost) {
  struct Row {
    const char* what;
    void (*change)(Program& p);
    const char* message;
  };
  const Row rows[] = {
      {"a layer is replaced", [](Program& p) { p.net->fc = Linear(3, 5); },
       "SGD: parameter fc.weight of shape [2, 3] and 1 more are no longer in a module"},
      {"a whole model is assigned", [](Program& p) { *p.net = LostNet(); },
       "SGD: parameter body.weight of shape [3, 3] and 3 more are no longer in a module"},
      {"the best model is taken back", [](Program& p) { *p.net = clone(*p.net); },
       "SGD: parameter body.weight of shape [3, 3] and 3 more are no longer in a module"},
      {"the model is destroyed", [](Program& p) { p.net = std::make_unique<LostNet>(); },
       "SGD: parameter body.weight of shape [3, 3] and 3 more are no longer in a module"},
      {"weights are tied afterwards",
       [](Program& p) {
         p.net->fc = Linear(3, 3);
         p.optimizer.emplace(p.net->named_parameters(), SGDOptions{.lr = 0.1});
         p.net->fc->weight.share(p.net->body->weight);
       },
       "SGD: parameter fc.weight of shape [3, 3] is no longer in a module"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Program p;
    p.step();
    row.change(p);
    EXPECT_TRUE(refuses<Error>([&] { return p.step(), 0; }, row.message));
    p.optimizer.emplace(p.net->named_parameters(), SGDOptions{.lr = 0.1});
    EXPECT_NO_THROW(p.step());
  }
}

TEST(LostParameters, WithoutNamesAreNumbered) {
  Program p(false);
  p.net->fc = Linear(3, 5);
  EXPECT_TRUE(refuses<Error>([&] { return p.step(), 0; },
                             "SGD: parameter 2 of shape [2, 3] and 1 more are no longer in"));
}

TEST(LostParameters, AreKnownAfterAStateWasLoadedAndAnOptimizerWasMoved) {
  Program p;
  p.step();
  p.optimizer->load_state_dict(p.optimizer->state_dict());
  SGD moved = *std::move(p.optimizer);
  EXPECT_NO_THROW(moved.step());
  p.net->body = Linear(3, 3);
  moved.load_state_dict(moved.state_dict());
  EXPECT_TRUE(refuses<Error>([&] { return moved.step(), 0; },
                             "SGD: parameter body.weight of shape [3, 3] and 1 more are"));
}

TEST(LostParameters, AModelThatMovesKeepsItsParameters) {
  struct Row {
    const char* what;
    void (*change)(Program& p);
  };
  const Row rows[] = {
      {"moved to a new object", [](Program& p) { p.other.emplace(std::move(*p.net)); }},
      {"moved there, and the old object is destroyed",
       [](Program& p) {
         p.other.emplace(std::move(*p.net));
         p.net.reset();
       }},
      {"assigned to another object",
       [](Program& p) {
         p.other.emplace();
         *p.other = std::move(*p.net);
       }},
      {"swapped with another one and back",
       [](Program& p) {
         LostNet b;
         std::swap(*p.net, b);
         std::swap(*p.net, b);
       }},
      {"its dtype changes", [](Program& p) { p.net->to(kFloat64).to(kFloat32); }},
      {"weights are loaded", [](Program& p) { p.net->load_state_dict(LostNet().state_dict()); }},
      {"a layer moves into a list",
       [](Program& p) {
         Sequential list(std::move(*p.net));
         p.other.emplace(std::move(list.at<LostNet>(0)));
       }},
      {"a copy is destroyed", [](Program& p) { (void)clone(*p.net); }},
      {"parameters are frozen", [](Program& p) { p.net->body->requires_grad_(false); }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Program p;
    p.step();
    row.change(p);
    EXPECT_NO_THROW(p.step());
  }
}

TEST(LostParameters, ATiedWeightIsHeldAsLongAsOneOfItsPlaces) {
  LostNet net;
  net.fc = Linear(3, 3);
  net.fc->weight.share(net.body->weight);
  SGD optimizer(net.named_parameters(), {.lr = 0.1});
  net.fc = Linear(3, 2);
  EXPECT_TRUE(refuses<Error>([&] { return optimizer.step(), 0; },
                             "SGD: parameter fc.bias of shape [3] is no longer in a module"));
}

TEST(LostParameters, TensorsThatNoModuleHeldAreTrained) {
  Tensor alone = ones({2}, {.requires_grad = true}), left;
  {
    const Linear layer(2, 2);
    left = *layer.weight;
  }
  SGD optimizer({alone, left}, {.lr = 0.1});
  (alone.sum() + left.sum()).backward();
  EXPECT_NO_THROW(optimizer.step());
  EXPECT_TRUE(close(alone, full({2}, 0.9), 1e-6));
}

TEST(LostParameters, AreRefusedByLBFGSBeforeItsClosure) {
  LostNet net;
  LBFGS optimizer(net.parameters());
  net.body = Linear(3, 3);
  EXPECT_TRUE(refuses<Error>(
      [&] { return optimizer.step([]() -> Tensor { throw std::runtime_error("was called"); }); },
      "LBFGS: parameter 0 of shape [3, 3] and 1 more are no longer in a module"));
}

}  // namespace
}  // namespace taper::v0::test
