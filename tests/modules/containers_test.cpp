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
  EXPECT_EQ(list.size(), 2);
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
  EXPECT_EQ(list.size(), 2);
}

// --- typed lists ---

struct Block : Cloneable<Block> {
  explicit Block(int64_t width, double factor_ = 1)
      : fc(*this, "fc", width, width), factor(factor_) {}
  Tensor forward(const Tensor& x) override { return fc(x) * factor; }
  Child<Linear> fc;
  double factor;
};
struct WideBlock : Block {
  using Block::Block;
};

TEST(ListOf, ItsLoopGivesItsModulesWithTheirType) {
  struct Net : ModuleOf<Net> {
    Child<ListOf<Block>> blocks{*this, "blocks", 3, 4, 0.5};
    Tensor forward(Tensor x) {
      for (Block& block : blocks) x = block(x) + block.factor;
      return x;
    }
  } net;
  const Tensor x = ones({2, 4});
  Tensor want = x;
  for (int64_t i = 0; i < net.blocks->size(); ++i) want = net.blocks[i](want) + 0.5;
  EXPECT_TRUE(close(net(x), want, 0));
  EXPECT_EQ(net.blocks->size(), 3);
  EXPECT_EQ(net.state_dict()[2].name, "blocks.1.fc.weight");
  EXPECT_EQ(&*std::next(net.blocks.begin()), &net.blocks[1]);
  EXPECT_EQ(&net.blocks[-1], &net.blocks[2]);
  EXPECT_TRUE(refuses<IndexError>([&] { return net.blocks[3].factor; },
                                  "index 3 is out of range of a list with 3 entries"));
  Net copy = clone(net);
  EXPECT_TRUE(close(copy(x), want, 0));
  EXPECT_NE(&copy.blocks[0], &net.blocks[0]);
  EXPECT_TRUE(to_string(net).find("(blocks): ModuleList(\n    (0-2): 3 x Block(") !=
              std::string::npos);
}

TEST(ListOf, IsFilledByAFunctionOrOneByOne) {
  ListOf<Block> list(2, [](int64_t i) { return Block(2, double(i)); });
  EXPECT_EQ(list[1].factor, 1);
  Block& added = list.add(2, 7);
  EXPECT_EQ(list[2].factor, 7);
  EXPECT_EQ(&added, &list[2]);
  list.add(Block(2, 8));
  WideBlock& wide = list.add(WideBlock(2, 9));
  EXPECT_EQ(&wide, &list[-1]);
  list.append(std::make_unique<WideBlock>(2, 10));
  EXPECT_EQ(list.size(), 6);
  EXPECT_EQ(list.replace(0, WideBlock(2, 11)).factor, 11);
  EXPECT_EQ(list.begin()->factor, 11);
  const auto sevens =
      std::count_if(list.begin(), list.end(), [](const Block& b) { return b.factor == 7; });
  EXPECT_EQ(sevens, 1);
  for (const Block& block : ListOf<Block>()) ADD_FAILURE() << block.factor;
  EXPECT_EQ(ListOf<Block>(0, 4).size(), 0);
  EXPECT_TRUE(
      refuses<ValueError>([] { return ListOf<Block>(-1, 4).size(); },
                          "ModuleList: the number of modules must not be negative, got -1"));
}

TEST(ListOf, OfAMovedModuleGoesWithIt) {
  struct Net : ModuleOf<Net> {
    Child<ListOf<Block>> blocks{*this, "blocks", 2, 2};
    Tensor forward(Tensor x) {
      for (Block& block : blocks) x = block(x);
      return x;
    }
  };
  Net from;
  const Tensor want = from(ones({1, 2}));
  Net to = std::move(from);
  EXPECT_TRUE(close(to(ones({1, 2})), want, 0));
  EXPECT_EQ(to.parameters().size(), 4U);
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
