// A convolutional network learns handwritten digits, like pytorch/examples' mnist. The second
// argument is the folder with MNIST's four IDX files. Without it the program generates digits.
#include <filesystem>
#include <iostream>

#include <taper/data/images/digits.h>
#include <taper/data/loader.h>
#include <taper/taper.h>

using namespace taper;

struct Net : Module {
  Child<Conv2d> conv1{*this, "conv1", 1, 32, 3};
  Child<Conv2d> conv2{*this, "conv2", 32, 64, 3};
  Child<Dropout> dropout1{*this, "dropout1", 0.25};
  Child<Dropout> dropout2{*this, "dropout2", 0.5};
  Child<Linear> fc1{*this, "fc1", 9216, 128};
  Child<Linear> fc2{*this, "fc2", 128, 10};

  Tensor forward(const Tensor& images) override {
    Tensor x = relu(conv1(images));
    x = relu(conv2(x));
    x = max_pool2d(x, 2);
    x = dropout1(x).flatten(1);
    x = relu(fc1(x));
    x = dropout2(x);
    return log_softmax(fc2(x), 1);
  }
};

Tensor train_step(Net& model, optim::Optimizer& optimizer, const Tensor& data,
                  const Tensor& target) {
  optimizer.zero_grad();
  const Tensor loss = nll_loss(model(data), target);
  loss.backward();
  optimizer.step();
  return loss;
}

void train(Net& model, data::DataLoader& loader, optim::Optimizer& optimizer, int64_t epoch) {
  model.train();
  int64_t step = 0;
  for (const data::Batch& batch : loader.epoch(epoch)) {
    const Tensor loss = train_step(model, optimizer, batch.inputs, batch.targets);
    if (step++ % 10 != 0) continue;
    std::cout << "epoch " << epoch << " step " << step << ": loss " << loss.item<double>() << "\n";
  }
}

void test(Net& model, data::DataLoader& loader) {
  model.eval();
  const NoGradGuard no_grad;
  double loss = 0, correct = 0;
  for (const data::Batch& batch : loader.epoch(0)) {
    const Tensor output = model(batch.inputs);
    loss += nll_loss(output, batch.targets, {.reduction = Reduction::kSum}).item<double>();
    correct += (output.argmax(1) == batch.targets).sum().item<double>();
  }
  const double count = double(loader.samples_per_epoch());
  std::cout << "test: average loss " << loss / count << ", accuracy " << correct / count << "\n";
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 100;  // per epoch; 0: all
  const std::string folder = argc > 2 ? argv[2] : "data/mnist";
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);

  const bool is_there = std::filesystem::exists(folder);
  if (!is_there) std::cout << "there is no folder " << folder << ": digits are drawn instead\n";
  const data::Splits sets = is_there ? data::Mnist{folder}.load(1) : data::Digits{}.load(1);
  data::DataLoader train_loader(
      sets.train, {.batch_size = 64, .shuffle = true, .batches = steps, .workers = 1}, device, 1);
  data::DataLoader test_loader(sets.test, {.batch_size = 1000, .batches = steps}, device, 1);

  Net model;
  model.to(device);
  optim::Adadelta optimizer(model.parameters(), {.lr = 1});
  optim::LRScheduler scheduler(optimizer, optim::schedule::step(1, 0.7));
  for (int64_t epoch = 1; epoch <= 2; ++epoch) {
    train(model, train_loader, optimizer, epoch);
    test(model, test_loader);
    scheduler.step();
  }
  save_safetensors("mnist_cnn.safetensors", model.state_dict());
}
