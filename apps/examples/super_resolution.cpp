// Doubles the size of images by sub-pixel convolutions (https://arxiv.org/abs/1609.05158), like
// pytorch/examples' super_resolution. The example enlarges digits from 14x14 to 28x28 pixels.
#include <cmath>
#include <iostream>

#include <taper/data/images/digits.h>
#include <taper/data/loader.h>
#include <taper/taper.h>

using namespace taper;

struct Net : Module {
  Child<Conv2d> conv1{*this, "conv1", 1, 64, 5, {.padding = 2}};
  Child<Conv2d> conv2{*this, "conv2", 64, 64, 3, {.padding = 1}};
  Child<Conv2d> conv3{*this, "conv3", 64, 32, 3, {.padding = 1}};
  Child<Conv2d> conv4;
  Child<PixelShuffle> pixel_shuffle;

  explicit Net(int64_t upscale_factor)
      : conv4(*this, "conv4", 32, upscale_factor * upscale_factor, 3, {.padding = 1}),
        pixel_shuffle(*this, "pixel_shuffle", upscale_factor) {
    for (Conv2d* conv : {&*conv1, &*conv2, &*conv3}) {
      init::orthogonal_(conv->weight, init::calculate_gain("relu"));
    }
    init::orthogonal_(conv4->weight);
  }
  Tensor forward(const Tensor& image) override {
    Tensor x = relu(conv1(image));
    x = relu(conv2(x));
    x = relu(conv3(x));
    return pixel_shuffle(conv4(x));
  }
};

Tensor smaller(const Tensor& images) {
  return interpolate(images, {.scale_factor = 0.5, .mode = Interpolation::kBicubic});
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 100;  // per epoch
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(123);
  const data::Splits sets = data::Digits{}.load(1);
  data::DataLoader train_loader(sets.train, {.batch_size = 16, .shuffle = true, .batches = steps},
                                device, 1);
  data::DataLoader test_loader(sets.test, {.batch_size = 100, .batches = steps}, device, 1);

  Net model(2);
  model.to(device);
  optim::Adam optimizer(model.parameters(), {.lr = 1e-3});
  for (int64_t epoch = 1; epoch <= 2; ++epoch) {
    int64_t step = 0;
    for (const data::Batch& batch : train_loader.epoch(epoch)) {
      optimizer.zero_grad();
      const Tensor loss = mse_loss(model(smaller(batch.inputs)), batch.inputs);
      loss.backward();
      optimizer.step();
      if (step++ % 10 != 0) continue;
      std::cout << "epoch " << epoch << " step " << step << ": loss " << loss.item<double>()
                << "\n";
    }
    const NoGradGuard no_grad;
    double psnr = 0;
    for (const data::Batch& batch : test_loader.epoch(0)) {
      psnr -= 10 * std::log10(mse_loss(model(smaller(batch.inputs)), batch.inputs).item<double>());
    }
    std::cout << "test: PSNR " << psnr / double(test_loader.steps_per_epoch()) << " dB\n";
  }
}
