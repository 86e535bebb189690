// A user's program that is compiled with its own warning and optimization flags. Taper's headers
// must not cause warnings.
#include <taper/data/images/cifar.h>
#include <taper/data/images/digits.h>
#include <taper/data/images/image_source.h>
#include <taper/data/loader.h>
#include <taper/data/metrics.h>
#include <taper/data/split.h>
#include <taper/data/tables/csv.h>
#include <taper/data/tables/npy_dataset.h>
#include <taper/data/text/text_dataset.h>
#include <taper/data/transforms.h>
#include <taper/modules/onnx/onnx.h>
#include <taper/runner.h>
#include <taper/taper.h>
#include <taper/testing/training_golden.h>

namespace {

using namespace taper;

struct Cube : Function<Cube> {
  static Tensor forward(Context& ctx, const Tensor& x) {
    ctx.save_for_backward({x});
    return x * x * x;
  }
  static std::vector<Tensor> backward(Context& ctx, const std::vector<Tensor>& dy) {
    const Tensor x = ctx.saved_tensors()[0];
    return {dy[0] * x * x * 3};
  }
};

struct Net : Module {
  Child<Conv1d> line{*this, "line", 1, 4, 3, ConvOptions{.padding = "same"}};
  Child<Conv2d> conv{*this, "conv", 1, 8, 3, ConvOptions{.padding = "valid"}};
  Child<Conv3d> volume{*this, "volume", 1, 4, Triple(3, 1, 1), {.padding = {1, 0, 0}}};
  Child<BatchNorm2d> norm{*this, "norm", 8};
  Child<Sequential> head{*this, "head", LeakyReLU(), Softplus(2), Flatten(), Linear(32, 10)};
  Parameter scale{*this, "scale", ones({10})};

  Tensor forward(const Tensor& x) override { return Cube::apply(head(norm(conv(x))) * *scale); }
  Attended operator()(const Tensor& q, const Tensor& k, const AttendOptions& o) {
    return call_with_hooks(
        [](const auto& x, const auto& y, const auto&) {
          return Attended{x, y};
        },
        q, k, o);
  }
  using Module::operator();
  std::string type_name() const override { return "Net"; }
};

double train(Net& net, const Tensor& x, const Tensor& labels) {
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-3, .weight_decay = 0.1});
  CrossEntropyLoss criterion({.label_smoothing = 0.1});
  optimizer.zero_grad();
  const Tensor loss = criterion(net(x), labels);
  loss.backward();
  optimizer.step();
  return loss.item<double>();
}

// Data types are aggregates, of which a program may initialize some fields by name.
int64_t samples() {
  const data::Digits digits{.train_size = 5};
  const data::Idx idx{.train_images = "train-images",
                      .train_labels = "train-labels",
                      .test_images = "test-images",
                      .test_labels = "test-labels"};
  const data::Mnist mnist{.root = "mnist"};
  const data::Cifar cifar{.root = "cifar"};
  const data::Images images{.path = "images", .size = "32"};
  return digits.train_size + std::ssize(images.size + idx.train_images + mnist.root + cifar.root);
}

test::Metrics trained(uint64_t seed) {
  manual_seed(seed);
  Net net;
  test::Metrics out = {{"start", 1.0}};
  out.add(2, {{"loss", train(net, randn({2, 1, 4, 4}), tensor({1, 2}))}});
  return out;
}

bool is_as_good(const std::filesystem::path& golden) {
  const golden::Verdict verdict = test::check_statistics(
      trained, golden, {.seeds = 5, .larger_is_better = {"score"}, .config = "lr: 0.1"});
  return verdict.passed && !verdict.is_inconclusive && test::trains_as_well(trained, golden) &&
         test::matches_golden(trained, golden, {.rtol = {{"loss", 1e-5}}});
}

}  // namespace

int main() {
  manual_seed(1);
  Net net;
  net.head->replace(-1, Linear(32, 10));
  net.conv = Conv2d(1, 8, 3, {.bias = false});
  const ModuleHookHandle hook =
      net.register_forward_hook([](Module&, const Tensor&, const Tensor& y) { return y * 2; });
  const double loss = train(net, randn({2, 1, 4, 4}), tensor({1, 2}));
  const LSTM lstm(3, 4, {.num_layers = 2});
  const TransformerEncoder encoder([] { return TransformerEncoderLayer(8, 2); }, 2);
  return samples() == 0 || is_as_good("golden.json") || to_string(net).empty() ||
         to_string(randn({2, 2})).empty() || loss < 0;
}
