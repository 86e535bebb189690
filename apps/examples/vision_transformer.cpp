// A vision transformer (https://arxiv.org/abs/2010.11929) for small images, like pytorch/examples'
// vision_transformer: patches as tokens, a class token, and pre-norm encoder blocks.
#include <iostream>

#include <taper/data/images/digits.h>
#include <taper/data/loader.h>
#include <taper/taper.h>

using namespace taper;

// Maps [N, C, H, W] to [N, patches, C * patch_size^2].
Tensor patchify(const Tensor& images, int64_t patch_size) {
  const int64_t N = images.size(0), C = images.size(1);
  const int64_t rows = images.size(2) / patch_size, columns = images.size(3) / patch_size;
  return images.view({N, C, rows, patch_size, columns, patch_size})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({N, rows * columns, C * patch_size * patch_size});
}

struct InputEmbedding : Module {
  const int64_t patch_size;
  Child<Linear> LinearProjection;
  Parameter class_token, pos_embedding;

  InputEmbedding(int64_t n_channels, int64_t patch, int64_t n_patches, int64_t latent_size)
      : patch_size(patch),
        LinearProjection(*this, "LinearProjection", n_channels * patch * patch, latent_size),
        class_token(*this, "class_token", randn({1, 1, latent_size})),
        pos_embedding(*this, "pos_embedding", randn({1, n_patches + 1, latent_size})) {}
  Tensor forward(const Tensor& images) override {
    const Tensor projected = LinearProjection(patchify(images, patch_size));
    const Tensor token = class_token->expand({images.size(0), -1, -1});
    return cat({token, projected}, 1) + pos_embedding;
  }
};

struct EncoderBlock : Module {
  Child<LayerNorm> norm;
  Child<MultiheadAttention> attention;
  Child<Sequential> enc_MLP;

  EncoderBlock(int64_t latent_size, int64_t num_heads, double dropout)
      : norm(*this, "norm", latent_size),
        attention(*this, "attention", latent_size, num_heads,
                  {.dropout = dropout, .batch_first = true}),
        enc_MLP(*this, "enc_MLP", Linear(latent_size, latent_size * 4), GELU(), Dropout(dropout),
                Linear(latent_size * 4, latent_size), Dropout(dropout)) {}
  Tensor forward(const Tensor& emb_patches) override {
    const Tensor first_norm = norm(emb_patches);
    const Tensor attention_out = attention(first_norm, first_norm, first_norm).output;
    const Tensor first_added = attention_out + emb_patches;
    return enc_MLP(norm(first_added)) + first_added;
  }
};

struct ViT : Module {
  Child<InputEmbedding> embedding;
  Child<Sequential> encoders;
  Child<Sequential> MLPHead;

  // Creates a network for images of 28x28 pixels in patches of 7x7.
  ViT(int64_t latent_size, int64_t num_heads, int64_t num_encoders, int64_t num_classes,
      double dropout)
      : embedding(*this, "embedding", 1, 7, 16, latent_size),
        encoders(*this, "encoders"),
        MLPHead(*this, "MLPHead", LayerNorm(latent_size), Linear(latent_size, latent_size),
                Linear(latent_size, num_classes)) {
    for (int64_t i = 0; i < num_encoders; ++i) {
      encoders->add<EncoderBlock>(latent_size, num_heads, dropout);
    }
  }
  Tensor forward(const Tensor& images) override {
    const Tensor enc_output = encoders(embedding(images));
    return MLPHead(enc_output.select(1, 0));
  }
};

Tensor train_step(ViT& model, optim::Optimizer& optimizer, const Tensor& images,
                  const Tensor& labels) {
  optimizer.zero_grad();
  const Tensor loss = cross_entropy(model(images), labels);
  loss.backward();
  optimizer.step();
  return loss;
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 100;  // per epoch
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);
  const data::Splits sets = data::Digits{}.load(1);
  data::DataLoader train_loader(sets.train, {.batch_size = 64, .shuffle = true, .batches = steps},
                                device, 1);
  data::DataLoader test_loader(sets.test, {.batch_size = 500, .batches = steps}, device, 1);

  ViT model(64, 4, 3, 10, 0.1);
  model.to(device);
  optim::Adam optimizer(model.parameters(), {.lr = 1e-3});
  for (int64_t epoch = 1; epoch <= 2; ++epoch) {
    model.train();
    int64_t step = 0;
    for (const data::Batch& batch : train_loader.epoch(epoch)) {
      const Tensor loss = train_step(model, optimizer, batch.inputs, batch.targets);
      if (step++ % 10 != 0) continue;
      std::cout << "epoch " << epoch << " step " << step << ": loss " << loss.item<double>()
                << "\n";
    }
    model.eval();
    const NoGradGuard no_grad;
    double correct = 0;
    for (const data::Batch& batch : test_loader.epoch(0)) {
      correct += (model(batch.inputs).argmax(1) == batch.targets).sum().item<double>();
    }
    std::cout << "test: accuracy " << correct / double(test_loader.samples_per_epoch()) << "\n";
  }
}
