// Low-rank adaptation (LoRA, https://arxiv.org/abs/2106.09685): a network that reads digits learns
// to read ones that are transposed. Its weights W are frozen; only the matrices A and B of W + B A
// are trained, and only they are saved. Argument: steps.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>

#include <taper/data/images/digits.h>
#include <taper/data/loader.h>
#include <taper/taper.h>

using namespace taper;

// A change of a weight [out, in] by a matrix of the given rank. It is zero at first.
struct LowRank : Cloneable<LowRank> {
  Parameter a, b;
  double scale;

  LowRank(const Shape& weight, int64_t rank, double alpha)
      : a(*this, "a", randn({rank, weight[1]}) / std::sqrt(double(weight[1]))),
        b(*this, "b", zeros({weight[0], rank})),
        scale(alpha / double(rank)) {}
  Tensor change() const { return matmul(*b, *a) * scale; }
};

// One LowRank for each weight of a network's linear layers. The network itself stays as it is.
struct Adapters : Module {
  Child<ListOf<LowRank>> changes{*this, "changes"};
  std::vector<std::string> names;

  explicit Adapters(Module& net, int64_t rank = 8, double alpha = 8) {
    for (const auto& [path, module] : net.named_modules()) {
      const auto* layer = dynamic_cast<Linear*>(module);
      if (!layer) continue;
      names.push_back(path + ".weight");
      changes->add(layer->weight->shape(), rank, alpha);
    }
    to(net.parameters()[0].device());
  }
  // Returns the network's adapted weights by name. Gradients flow to the adapters.
  std::vector<NamedTensor> applied_to(const Module& net) const {
    std::vector<NamedTensor> out;
    const std::vector<NamedTensor> own = net.named_parameters();
    for (size_t i = 0; i < names.size(); ++i) {
      const auto weight = std::ranges::find(own, names[i], &NamedTensor::name);
      out.push_back({names[i], weight->tensor + changes[int64_t(i)].change()});
    }
    return out;
  }
};

Tensor transposed(const Tensor& images) { return images.transpose(2, 3); }

using Predict = std::function<Tensor(const Tensor& images)>;

void train(const char* what, data::DataLoader& loader, const std::vector<Tensor>& parameters,
           const Predict& predict) {
  optim::Adam optimizer(parameters, {.lr = 3e-3});
  int64_t step = 0;
  for (const data::Batch& batch : loader.epoch(0)) {
    const Tensor loss = cross_entropy(predict(batch.inputs), batch.targets);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step++ % 10 != 0) continue;
    std::cout << what << " step " << step - 1 << ": loss " << loss.item<double>() << "\n";
  }
}

double accuracy(data::DataLoader& loader, const Predict& predict) {
  const NoGradGuard no_grad;
  double correct = 0;
  for (const data::Batch& batch : loader.epoch(0)) {
    correct += (predict(batch.inputs).argmax(1) == batch.targets).sum().item<double>();
  }
  return correct / double(loader.samples_per_epoch());
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 300;
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);
  const data::Splits sets = data::Digits{}.load(1);
  data::DataLoader loader(sets.train, {.batch_size = 64, .shuffle = true, .batches = steps},
                          device);
  data::DataLoader tests(sets.test, {.batch_size = 500, .batches = 4}, device);

  Sequential net(Flatten(), Linear(784, 256), ReLU(), Linear(256, 256), ReLU(), Linear(256, 10));
  net.to(device);
  train("base", loader, net.parameters(), [&](const Tensor& x) { return net(x); });
  const Predict base = [&](const Tensor& x) { return net(transposed(x)); };
  std::cout << "base: accuracy of transposed digits " << accuracy(tests, base) << "\n";

  net.requires_grad_(false);
  Adapters adapters(net);
  const Predict adapted = [&](const Tensor& x) {
    return functional_call(net, adapters.applied_to(net), transposed(x));
  };
  train("adapters", loader, adapters.parameters(), adapted);
  std::cout << "adapters: accuracy of transposed digits " << accuracy(tests, adapted) << ", "
            << adapters.num_parameters() << " trained parameters of " << net.num_parameters()
            << "\n";

  // Only the adapters are saved. The next program loads them for the same network.
  TrainingCheckpoint{{"lora", adapters}}.save("lora.safetensors");
  Adapters loaded(net);
  loaded.load_state_dict(load_safetensors("lora.safetensors", {.prefix = "lora."}).tensors);

  // Added to the weights, the adapters cost no time.
  Sequential merged = clone(net);
  merged.load_state_dict(loaded.applied_to(net), {.strict = false});
  const double whole = accuracy(tests, [&](const Tensor& x) { return merged(transposed(x)); });
  std::cout << "merged: accuracy of transposed digits " << whole << "\n";
  return whole == accuracy(tests, adapted) ? 0 : 1;
}
