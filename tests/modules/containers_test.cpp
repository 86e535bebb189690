// Containers of modules, by index and by name.
#include "modules/layers/containers.h"

#include <memory>

#include <gtest/gtest.h>

#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/linear.h"
#include "modules/layers/stateless.h"
#include "tests/modules/modules.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

struct Branches : Module {
  Child<ModuleList> layers{*this, "layers"};
  Child<ModuleDict> heads{*this, "heads"};

  Branches() {
    layers->add<Linear>(3, 4);
    layers->add<Linear>(4, 4);
    heads->add<Linear>("left", 4, 2, LinearOptions{.bias = false});
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (const auto& [name, layer] : *layers) y = relu((*layer)(y));
    return heads->at<Linear>("left")(y);
  }
  std::string type_name() const override { return "Branches"; }
};

TEST(ModuleList, RegistersItsModulesUnderTheirPlaces) {
  Branches net;
  EXPECT_EQ(names_of(net.named_parameters()),
            (std::vector<std::string>{"layers.0.weight", "layers.0.bias", "layers.1.weight",
                                      "layers.1.bias", "heads.left.weight"}));
  EXPECT_EQ(net(ones({5, 3})).shape(), (Shape{5, 2}));
  EXPECT_TRUE(refuses<Error>(
      [&] {
        return net.layers->at<Linear>(1)(ones({2, 3}));
      },
      "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x4)"));
}

TEST(Sequential, MovedFromIsNoIdentity) {
  Sequential from(Linear(3, 4), ReLU()), empty;
  Sequential to = std::move(from), none = std::move(empty);
  EXPECT_EQ(to(ones({2, 3})).shape(), (Shape{2, 4}));
  EXPECT_EQ(Sequential()(ones({2, 3})).shape(), (Shape{2, 3}));
  EXPECT_TRUE(refuses<Error>([&] { return from(ones({2, 3})); }, "this Sequential was moved from"));
  EXPECT_EQ(from.add(Linear(3, 2))(ones({2, 3})).shape(), (Shape{2, 2}));
}

TEST(ModuleList, GivesItsModulesByPlaceAndType) {
  ModuleList list;
  Linear& first = list.add<Linear>(3, 4);
  list.append(std::make_unique<ReLU>());
  EXPECT_EQ(list.size(), 2u);
  EXPECT_EQ(&list[0], &first);
  EXPECT_EQ(&list[-2], &first);
  EXPECT_EQ(list.at<Linear>(0).out_features, 4);
  EXPECT_TRUE(refuses<TypeError>([&] { return list.at<Linear>(1).out_features; },
                                 "a module of this ModuleList is a ReLU, not a taper::Linear"));
  EXPECT_TRUE(refuses<TypeError>([&] { return to_string(list.at<ReLU>(0)); },
                                 "a module of this ModuleList is a Linear, not a ReLU"));
  for (const int64_t i : {2, -3}) {
    EXPECT_TRUE(refuses<IndexError>([&] { return to_string(list[i]); },
                                    concat_to_string("index ", i, " is out of range")));
  }
  EXPECT_TRUE(refuses<TypeError>(
      [&] {
        list.append(nullptr);
        return 0;
      },
      "nullptr is not a Module subclass (child of ModuleList)"));
  EXPECT_EQ(list.size(), 2u);
}

TEST(ModuleList, CannotBeCalled) {
  ModuleList list;
  ModuleDict dict;
  EXPECT_TRUE(refuses<NotImplementedError>(
      [&] { return list(ones({2})); },
      "Module [ModuleList] is missing the required \"forward\" function"));
  EXPECT_TRUE(refuses<NotImplementedError>(
      [&] { return dict(ones({2})); },
      "Module [ModuleDict] is missing the required \"forward\" function"));
}

TEST(ModuleList, PrintsEqualNeighboursOnce) {
  ModuleList list;
  EXPECT_EQ(to_string(list), "ModuleList()");
  list.add<Linear>(3, 4);
  list.add<ReLU>();
  list.add<ReLU>();
  list.append(std::make_unique<Sequential>(ReLU(), ReLU()));
  for (int i = 0; i < 3; ++i) list.append(std::make_unique<Sequential>(Linear(2, 2)));
  EXPECT_EQ(to_string(list),
            "ModuleList(\n"
            "  (0): Linear(in_features=3, out_features=4, bias=True)\n"
            "  (1-2): 2 x ReLU()\n"
            "  (3): Sequential(\n"
            "    (0): ReLU()\n"
            "    (1): ReLU()\n"
            "  )\n"
            "  (4-6): 3 x Sequential(\n"
            "    (0): Linear(in_features=2, out_features=2, bias=True)\n"
            "  )\n"
            ")");
}

TEST(ModuleDict, GivesItsModulesByName) {
  ModuleDict dict;
  Linear& fc = dict.add<Linear>("fc", 2, 3);
  dict.insert("act", std::make_unique<ReLU>());
  EXPECT_EQ(dict.keys(), (std::vector<std::string>{"fc", "act"}));
  EXPECT_EQ(&dict["fc"], &fc);
  EXPECT_EQ(&dict.at<Linear>("fc"), &fc);
  EXPECT_TRUE(
      refuses<IndexError>([&] { return to_string(dict["bc"]); },
                          "'bc' is no key of this ModuleDict, whose keys are ['fc', 'act']"));
  EXPECT_TRUE(
      refuses<Error>([&] { return &dict.add<ReLU>("fc"); }, "Submodule 'fc' already defined"));
  EXPECT_EQ(to_string(dict),
            "ModuleDict(\n"
            "  (fc): Linear(in_features=2, out_features=3, bias=True)\n"
            "  (act): ReLU()\n"
            ")");
}

TEST(Sequential, IsAListThatCanBeCalled) {
  Sequential net(Linear(3, 4), ReLU());
  net.add<Linear>(4, 2);
  EXPECT_EQ(net.at<Linear>(-1).out_features, 2);
  EXPECT_EQ(net(ones({5, 3})).shape(), (Shape{5, 2}));
  Sequential twice(ReLU{}, ReLU{});
  EXPECT_EQ(to_string(twice), "Sequential(\n  (0): ReLU()\n  (1): ReLU()\n)");
}

}  // namespace
}  // namespace taper::v0::test
