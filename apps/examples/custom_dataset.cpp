// A user-defined data set, like PyTorch's tutorial "Writing custom datasets": each sample is
// computed from its index (here a point on one of two arms of a spiral). The data set is split,
// transformed, and assembled into batches by worker threads.
#include <cmath>
#include <iostream>
#include <memory>

#include <taper/data/loader.h>
#include <taper/data/split.h>
#include <taper/taper.h>

using namespace taper;

// Sample i: a point (x, y) on one of two arms, and the number of the arm.
struct Spirals : data::MapDataset {
  int64_t size() const override { return 4000; }
  data::Batch sample(int64_t i) const override {
    const double along = double(i / 2 % 2000) / 2000, turn = 9 * along + 3.14159 * double(i % 2);
    return {tensor({along * std::cos(turn), along * std::sin(turn)}), tensor(i % 2)};
  }
};

// Shifts each point a little, by random numbers that depend on the sample and the epoch, not on the
// worker that assembles the batch.
data::Batch jittered(const data::Batch& batch, data::SampleRng& draws) {
  return {batch.inputs + draws.uniform(2, -0.02, 0.02), batch.targets};
}

int main(int argc, char** argv) {
  const int64_t epochs = argc > 1 ? std::stoll(argv[1]) : 20;
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);

  const auto halves = data::random_split(std::make_shared<Spirals>(), {0.8, 0.2}, 1);
  data::DataLoader train_loader(
      halves[0], {.batch_size = 64, .shuffle = true, .workers = 2, .transform = jittered}, device,
      1);
  data::DataLoader test_loader(halves[1], {.batch_size = 500}, device, 1);

  Sequential model(Linear(2, 64), ReLU(), Linear(64, 64), ReLU(), Linear(64, 2));
  model.to(device);
  optim::Adam optimizer(model.parameters(), {.lr = 3e-3});
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    double total = 0, correct = 0;
    for (const data::Batch& batch : train_loader.epoch(epoch)) {
      optimizer.zero_grad();
      const Tensor loss = cross_entropy(model(batch.inputs), batch.targets);
      loss.backward();
      optimizer.step();
      total += loss.item<double>();
    }
    const NoGradGuard no_grad;
    for (const data::Batch& batch : test_loader.epoch(0)) {
      correct += (model(batch.inputs).argmax(1) == batch.targets).sum().item<double>();
    }
    std::cout << "epoch " << epoch << ": loss " << total / double(train_loader.steps_per_epoch())
              << ", accuracy " << correct / double(test_loader.samples_per_epoch()) << "\n";
  }
}
