// A ResNet-18 that was trained on other images gets a new head, and only the head is trained, like
// PyTorch's transfer learning tutorial. The second argument is a file with torchvision's weights
// (.pt, .pth).
#include <filesystem>
#include <iostream>

#include <taper/data/images/digits.h>
#include <taper/data/loader.h>
#include <taper/modules/models/resnet.h>
#include <taper/taper.h>

using namespace taper;

// Converts gray digits to the input that the network was trained on: three channels, normalized by
// ImageNet's mean and standard deviation.
Tensor prepared(const Tensor& grey) {
  const TensorOptions there{.device = grey.device()};
  const Tensor mean = tensor({0.485, 0.456, 0.406}, there).view({3, 1, 1});
  const Tensor std = tensor({0.229, 0.224, 0.225}, there).view({3, 1, 1});
  return (grey.expand({-1, 3, -1, -1}) - mean) / std;
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 100;  // per epoch
  const std::string weights = argc > 2 ? argv[2] : "resnet18.pth";
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);
  const data::Splits sets = data::Digits{}.load(1);
  data::DataLoader train_loader(sets.train, {.batch_size = 32, .shuffle = true, .batches = steps},
                                device, 1);
  data::DataLoader test_loader(sets.test, {.batch_size = 100, .batches = steps}, device, 1);

  ResNet model = resnet18();
  if (std::filesystem::exists(weights)) {
    model.load_state_dict(load_pt(weights));
  } else {
    std::cout << "there is no file " << weights << ": the trunk stays as it was drawn\n";
  }
  model.requires_grad_(false);
  model.fc = Linear(model.fc->in_features, 10);
  model.to(device);

  optim::SGD optimizer(model.fc->parameters(), {.lr = 1e-2, .momentum = 0.9});
  optim::LRScheduler scheduler(optimizer, optim::schedule::step(7, 0.1));
  for (int64_t epoch = 1; epoch <= 2; ++epoch) {
    model.train();
    int64_t step = 0;
    for (const data::Batch& batch : train_loader.epoch(epoch)) {
      optimizer.zero_grad();
      const Tensor loss = cross_entropy(model(prepared(batch.inputs)), batch.targets);
      loss.backward();
      optimizer.step();
      if (step++ % 10 != 0) continue;
      std::cout << "epoch " << epoch << " step " << step << ": loss " << loss.item<double>()
                << "\n";
    }
    scheduler.step();

    model.eval();
    const NoGradGuard no_grad;
    double correct = 0;
    for (const data::Batch& batch : test_loader.epoch(0)) {
      const Tensor predicted = model(prepared(batch.inputs)).argmax(1);
      correct += (predicted == batch.targets).sum().item<double>();
    }
    std::cout << "test: accuracy " << correct / double(test_loader.samples_per_epoch()) << "\n";
  }
}
