// A network compares two images and predicts whether they show the same digit, like
// pytorch/examples' siamese_network. The example shows a data set that makes each pair from its
// index, and a module whose forward takes two arguments.
#include <iostream>
#include <random>

#include <taper/data/images/digits.h>
#include <taper/data/loader.h>
#include <taper/modules/models/resnet.h>
#include <taper/taper.h>

using namespace taper;

struct SiameseNetwork : ModuleOf<SiameseNetwork> {
  // For gray images. Its last layer returns the features that are compared.
  Child<ResNet> resnet{*this, "resnet",
                       resnet18({.num_classes = 128, .in_channels = 1, .width = 16})};
  Child<Sequential> fc{*this, "fc", Linear(2 * 128, 256), ReLU(), Linear(256, 1)};

  SiameseNetwork() {
    fc->apply([](Module& m) {
      if (auto* linear = dynamic_cast<Linear*>(&m)) {
        init::xavier_uniform_(linear->weight);
        init::constant_(linear->bias, 0.01);
      }
    });
  }
  Tensor forward(const Tensor& input1, const Tensor& input2) {
    const Tensor output1 = resnet(input1), output2 = resnet(input2);
    return sigmoid(fc(cat({output1, output2}, 1))).squeeze(1);
  }
};

// Returns a data set of pairs. Pair i contains two images of the same digit if i is even, of
// different digits if it is odd.
data::FunctionDataset pairs(int64_t count, uint64_t seed) {
  const data::Batch digits = data::draw_digits(seed, 0, 2000);
  const Tensor images = digits.inputs.to(kFloat32) / 255;
  std::vector<std::vector<int64_t>> by_class(10);
  for (int64_t i = 0; i < images.size(0); ++i) {
    by_class[digits.targets[i].item<size_t>()].push_back(i);
  }
  return {count, [=](int64_t i) -> data::Batch {
            std::mt19937_64 random(seed + uint64_t(i));
            const auto pick = [&](uint64_t digit) {
              return images[by_class[digit][random() % by_class[digit].size()]];
            };
            const uint64_t digit = random() % 10, other = (digit + 1 + random() % 9) % 10;
            const bool same = i % 2 == 0;
            return {pick(digit), tensor(same ? 1.f : 0.f), {pick(same ? digit : other)}};
          }};
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 100;  // per epoch
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);
  data::DataLoader train_loader(pairs(20000, 1),
                                {.batch_size = 64, .shuffle = true, .batches = steps}, device, 1);
  data::DataLoader test_loader(pairs(1000, 2), {.batch_size = 500}, device, 1);

  SiameseNetwork model;
  model.to(device);
  optim::Adadelta optimizer(model.parameters(), {.lr = 1});
  optim::LRScheduler scheduler(optimizer, optim::schedule::step(1, 0.7));
  for (int64_t epoch = 1; epoch <= 2; ++epoch) {
    model.train();
    int64_t step = 0;
    for (const auto& [image1, target, others] : train_loader.epoch(epoch)) {
      optimizer.zero_grad();
      const Tensor loss = binary_cross_entropy(model(image1, others[0]), target);
      loss.backward();
      optimizer.step();
      if (step++ % 10 != 0) continue;
      std::cout << "epoch " << epoch << " step " << step << ": loss " << loss.item<double>()
                << "\n";
    }
    model.eval();
    const NoGradGuard no_grad;
    double correct = 0;
    for (const auto& [image1, target, others] : test_loader.epoch(0)) {
      correct += ((model(image1, others[0]) > 0.5) == (target > 0.5)).sum().item<double>();
    }
    std::cout << "test: accuracy " << correct / double(test_loader.samples_per_epoch()) << "\n";
    scheduler.step();
  }
}
