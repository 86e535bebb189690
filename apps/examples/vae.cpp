// A variational autoencoder (https://arxiv.org/abs/1312.6114) of digits, like pytorch/examples'
// vae. Its forward pass draws noise and returns three results. At the end, the decoder generates
// new digits from samples of the prior.
#include <iostream>
#include <tuple>

#include <taper/data/images/digits.h>
#include <taper/data/loader.h>
#include <taper/taper.h>

using namespace taper;

struct Reconstruction {
  Tensor x, mu, logvar;
  auto tensors() { return std::tie(x, mu, logvar); }
};

struct VAE : Module {
  Child<Linear> fc1{*this, "fc1", 784, 400};
  Child<Linear> fc21{*this, "fc21", 400, 20};
  Child<Linear> fc22{*this, "fc22", 400, 20};
  Child<Linear> fc3{*this, "fc3", 20, 400};
  Child<Linear> fc4{*this, "fc4", 400, 784};

  Tensor reparameterize(const Tensor& mu, const Tensor& logvar) {
    const Tensor std = exp(0.5 * logvar);
    return mu + randn_like(std) * std;
  }
  Tensor decode(const Tensor& z) { return sigmoid(fc4(relu(fc3(z)))); }

  Reconstruction operator()(const Tensor& images) {
    return call_with_hooks([this](const Tensor& x) { return reconstruct(x); }, images);
  }

 private:
  Reconstruction reconstruct(const Tensor& x) {
    const Tensor h1 = relu(fc1(x.view({-1, 784})));
    const Tensor mu = fc21(h1), logvar = fc22(h1);
    return {decode(reparameterize(mu, logvar)), mu, logvar};
  }
};

// Returns the sum of the reconstruction loss and the KL divergence (appendix B of the paper). Both
// are summed over all elements and the batch. The KL divergence is -0.5 sum(1 + log(sigma^2) - mu^2
// - sigma^2).
Tensor loss_function(const Reconstruction& y, const Tensor& x) {
  const Tensor bce = binary_cross_entropy(y.x, x.view({-1, 784}), {.reduction = Reduction::kSum});
  return bce - 0.5 * sum(1 + y.logvar - y.mu.pow(2) - y.logvar.exp());
}

void train(VAE& model, data::DataLoader& loader, optim::Optimizer& optimizer, int64_t epoch) {
  model.train();
  int64_t step = 0;
  for (const data::Batch& batch : loader.epoch(epoch)) {
    optimizer.zero_grad();
    const Tensor loss = loss_function(model(batch.inputs), batch.inputs);
    loss.backward();
    optimizer.step();
    if (step++ % 10 != 0) continue;
    const double each = loss.item<double>() / double(batch.inputs.size(0));
    std::cout << "epoch " << epoch << " step " << step << ": loss " << each << "\n";
  }
}

void test(VAE& model, data::DataLoader& loader) {
  model.eval();
  const NoGradGuard no_grad;
  double loss = 0;
  for (const data::Batch& batch : loader.epoch(0)) {
    loss += loss_function(model(batch.inputs), batch.inputs).item<double>();
  }
  std::cout << "test: average loss " << loss / double(loader.samples_per_epoch()) << "\n";
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 100;  // per epoch
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);

  const data::Splits sets = data::Digits{}.load(1);
  data::DataLoader train_loader(sets.train, {.batch_size = 128, .shuffle = true, .batches = steps},
                                device, 1);
  data::DataLoader test_loader(sets.test, {.batch_size = 128, .batches = steps}, device, 1);

  VAE model;
  model.to(device);
  optim::Adam optimizer(model.parameters(), {.lr = 1e-3});
  for (int64_t epoch = 1; epoch <= 2; ++epoch) {
    train(model, train_loader, optimizer, epoch);
    test(model, test_loader);
  }
  const NoGradGuard no_grad;
  const Tensor sample = model.decode(randn({64, 20}, {.device = device})).cpu();
  save_npy("vae_sample.npy", sample.view({64, 28, 28}));
}
