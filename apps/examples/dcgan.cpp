// A generator and a discriminator train against each other (https://arxiv.org/abs/1511.06434), like
// pytorch/examples' dcgan, on digits of 32x32 pixels. The example uses transposed convolutions and
// two optimizers.
#include <iostream>

#include <taper/data/images/digits.h>
#include <taper/data/loader.h>
#include <taper/taper.h>

using namespace taper;

constexpr int64_t nz = 100, ngf = 32, ndf = 32, nc = 1;

void weights_init(Module& m) {
  if (auto* conv = dynamic_cast<Conv2d*>(&m)) {
    init::normal_(conv->weight, 0, 0.02);
  } else if (auto* transposed = dynamic_cast<ConvTranspose2d*>(&m)) {
    init::normal_(transposed->weight, 0, 0.02);
  } else if (auto* norm = dynamic_cast<BatchNorm2d*>(&m)) {
    init::normal_(norm->weight, 1, 0.02);
    init::zeros_(norm->bias);
  }
}

struct NetG : Module {
  // Maps z [N, nz, 1, 1] to 4x4, 8x8, 16x16 and 32x32.
  Child<Sequential> main{
      *this,
      "main",
      ConvTranspose2d(nz, ngf * 4, 4, {.bias = false}),
      BatchNorm2d(ngf * 4),
      ReLU(),
      ConvTranspose2d(ngf * 4, ngf * 2, 4, {.stride = 2, .padding = 1, .bias = false}),
      BatchNorm2d(ngf * 2),
      ReLU(),
      ConvTranspose2d(ngf * 2, ngf, 4, {.stride = 2, .padding = 1, .bias = false}),
      BatchNorm2d(ngf),
      ReLU(),
      ConvTranspose2d(ngf, nc, 4, {.stride = 2, .padding = 1, .bias = false}),
      Tanh()};

  Tensor forward(const Tensor& z) override { return main(z); }
};

struct NetD : Module {
  Child<Sequential> main{*this,
                         "main",
                         Conv2d(nc, ndf, 4, {.stride = 2, .padding = 1, .bias = false}),
                         LeakyReLU(0.2),
                         Conv2d(ndf, ndf * 2, 4, {.stride = 2, .padding = 1, .bias = false}),
                         BatchNorm2d(ndf * 2),
                         LeakyReLU(0.2),
                         Conv2d(ndf * 2, ndf * 4, 4, {.stride = 2, .padding = 1, .bias = false}),
                         BatchNorm2d(ndf * 4),
                         LeakyReLU(0.2),
                         Conv2d(ndf * 4, 1, 4, {.bias = false}),
                         Sigmoid()};

  Tensor forward(const Tensor& images) override { return main(images).flatten(); }
};

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 300;
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);
  data::DataLoader loader(data::Digits{}.load(1).train,
                          {.batch_size = 64, .shuffle = true, .batches = steps}, device, 1);

  NetG netG;
  NetD netD;
  netG.apply(weights_init).to(device);
  netD.apply(weights_init).to(device);
  const Tensor fixed_noise = randn({64, nz, 1, 1}, {.device = device});
  optim::Adam optimizerD(netD.parameters(), {.lr = 2e-4, .betas = {0.5, 0.999}});
  optim::Adam optimizerG(netG.parameters(), {.lr = 2e-4, .betas = {0.5, 0.999}});

  int64_t step = 0;
  for (const data::Batch& batch : loader.epoch(0)) {
    // The discriminator: maximize log(D(x)) + log(1 - D(G(z))).
    netD.zero_grad();
    const Tensor real = pad(batch.inputs, {2, 2, 2, 2}) * 2 - 1;  // to 32x32, in [-1, 1]
    const Tensor ones = full({real.size(0)}, 1.0, {.device = device}), zeros = zeros_like(ones);
    const Tensor on_real = netD(real);
    const Tensor errD_real = binary_cross_entropy(on_real, ones);
    errD_real.backward();
    const Tensor fake = netG(randn({real.size(0), nz, 1, 1}, {.device = device}));
    const Tensor errD_fake = binary_cross_entropy(netD(fake.detach()), zeros);
    errD_fake.backward();
    optimizerD.step();

    // The generator: maximize log(D(G(z))).
    netG.zero_grad();
    const Tensor on_fake = netD(fake);
    const Tensor errG = binary_cross_entropy(on_fake, ones);
    errG.backward();
    optimizerG.step();
    if (step++ % 10 != 0) continue;
    std::cout << "step " << step << ": loss of D " << (errD_real + errD_fake).item<double>()
              << ", of G " << errG.item<double>() << ", D(x) " << on_real.mean().item<double>()
              << ", D(G(z)) " << on_fake.mean().item<double>() << "\n";
  }
  const NoGradGuard no_grad;
  save_npy("dcgan_samples.npy", netG(fixed_noise).cpu());
}
