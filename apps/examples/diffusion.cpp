// A denoising diffusion model (https://arxiv.org/abs/2006.11239) of digits: a small U-Net learns
// which noise was added to an image, and generates new images by removing noise in 200 steps.
#include <iostream>

#include <taper/data/images/digits.h>
#include <taper/data/loader.h>
#include <taper/taper.h>

using namespace taper;

constexpr int64_t kTimes = 200;
// doubles the size, with a kernel of 4
const ConvTransposeOptions kTwice{.stride = 2, .padding = 1};

struct Denoiser : ModuleOf<Denoiser> {
  Child<Embedding> time{*this, "time", kTimes, 32};
  Child<Conv2d> in{*this, "in", 1, 16, 3, {.padding = 1}};
  Child<Conv2d> down1{*this, "down1", 16, 32, 3, {.stride = 2, .padding = 1}};
  Child<Conv2d> down2{*this, "down2", 32, 32, 3, {.stride = 2, .padding = 1}};
  Child<ConvTranspose2d> up2{*this, "up2", 32, 32, 4, kTwice};
  Child<ConvTranspose2d> up1{*this, "up1", 64, 16, 4, kTwice};
  Child<Conv2d> out{*this, "out", 32, 1, 3, {.padding = 1}};
  Child<GroupNorm> norm1{*this, "norm1", 8, 32}, norm2{*this, "norm2", 8, 32};

  // Maps x [N, 1, 28, 28], noisy after t [N] steps, to the noise in it.
  Tensor forward(const Tensor& x, const Tensor& t) {
    const Tensor when = time(t).view({-1, 32, 1, 1});
    const Tensor x0 = silu(in(x));                    // [N, 16, 28, 28]
    const Tensor x1 = silu(norm1(down1(x0)) + when);  // [N, 32, 14, 14]
    const Tensor x2 = silu(norm2(down2(x1)) + when);  // [N, 32, 7, 7]
    const Tensor y1 = cat({silu(up2(x2)), x1}, 1);    // [N, 64, 14, 14]
    return out(cat({silu(up1(y1)), x0}, 1));
  }
};

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 500;
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);
  const Tensor beta = linspace(1e-4, 0.04, kTimes, {.device = device});
  const Tensor alpha = 1 - beta;
  const Tensor alpha_bar = alpha.log().cumsum(0).exp();
  const data::Splits sets = data::Digits{}.load(1);
  data::DataLoader loader(sets.train, {.batch_size = 64, .shuffle = true}, device, 1);

  Denoiser model;
  model.to(device);
  optim::AdamW optimizer(model.parameters(), {.lr = 2e-3});
  for (int64_t step = 0, epoch = 0; step < steps; ++epoch) {
    for (const data::Batch& batch : loader.epoch(epoch)) {
      const Tensor x = batch.inputs * 2 - 1, noise = randn_like(x);
      const Tensor t = randint(0, kTimes, {x.size(0)}, {.device = device});
      const Tensor kept = alpha_bar[t].view({-1, 1, 1, 1});
      const Tensor noisy = sqrt(kept) * x + sqrt(1 - kept) * noise;
      const Tensor loss = mse_loss(model(noisy, t), noise);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      if (step % 20 == 0) {
        std::cout << "step " << step << ": loss " << loss.item<double>() << "\n";
      }
      if (++step == steps) break;
    }
  }

  const NoGradGuard no_grad;
  Tensor x = randn({16, 1, 28, 28}, {.device = device});
  for (int64_t i = kTimes - 1; i >= 0; --i) {
    const Tensor noise = model(x, full({16}, i, {.device = device}));
    x = (x - beta[i] / sqrt(1 - alpha_bar[i]) * noise) / sqrt(alpha[i]);
    if (i > 0) x += sqrt(beta[i]) * randn_like(x);
  }
  save_npy("diffusion_samples.npy", x.cpu());
}
