// A GPT with rotary embeddings (https://arxiv.org/abs/2104.09864) that learns to add two numbers,
// and then generates with a key-value cache: each new token attends to the stored keys and values,
// so that only one token passes through the network. Argument: steps.
#include <chrono>
#include <cmath>
#include <iostream>
#include <string_view>
#include <vector>

#include <taper/data/loader.h>
#include <taper/taper.h>

using namespace taper;

constexpr int64_t kChannels = 64, kHeads = 4, kLayers = 2, kContext = 48;
constexpr std::string_view kLetters = "0123456789+=\n";

// The keys and values of all tokens so far, [B, heads, tokens, kChannels / heads].
struct Cache {
  Tensor k, v;
  int64_t size() const { return k.defined() ? k.size(2) : 0; }
};

struct Attention : ModuleOf<Attention> {
  Child<Linear> qkv{*this, "qkv", kChannels, 3 * kChannels},
      proj{*this, "proj", kChannels, kChannels};
  // The angles [kContext, kChannels / heads] follow from the constants, so they need not be saved.
  Buffer angles{*this, "angles", angles_of(kChannels / kHeads), {.persistent = false}};

  static Tensor angles_of(int64_t size) {
    const Tensor rates = pow(10000.0, arange(0, size, 2) * (-1.0 / double(size)));
    const Tensor half = arange(kContext).unsqueeze(1) * rates;
    return cat({half, half}, 1);
  }
  // Rotates the pairs (i, i + size / 2) of x [B, heads, T, size], whose first token is at `from`.
  Tensor rotated(const Tensor& x, int64_t from) const {
    const Tensor angle = angles->narrow(0, from, x.size(2));
    const std::vector<Tensor> halves = x.chunk(2, -1);
    return x * cos(angle) + cat({-halves[1], halves[0]}, -1) * sin(angle);
  }
  // Maps x [B, T, kChannels] to the same shape. Tokens after the first call come one at a time.
  Tensor forward(const Tensor& x, Cache* cache) {
    const int64_t B = x.size(0), T = x.size(1), from = cache ? cache->size() : 0;
    const Tensor parts = qkv(x).view({B, T, 3, kHeads, -1}).permute({2, 3, 0, 1, 4});
    const auto heads = [&](int64_t i) { return parts[i].transpose(0, 1); };
    const Tensor q = rotated(heads(0), from);
    Tensor k = rotated(heads(1), from), v = heads(2);
    if (from > 0) k = cat({cache->k, k}, 2), v = cat({cache->v, v}, 2);
    if (cache) *cache = {k, v};
    const Tensor y = scaled_dot_product_attention(q, k, v, {.is_causal = from == 0});
    return proj(y.transpose(1, 2).reshape({B, T, kChannels}));
  }
};

struct Block : ModuleOf<Block> {
  Child<LayerNorm> norm1{*this, "norm1", kChannels}, norm2{*this, "norm2", kChannels};
  Child<Attention> attention{*this, "attention"};
  Child<Sequential> mlp{*this, "mlp", Linear(kChannels, 4 * kChannels), GELU(),
                        Linear(4 * kChannels, kChannels)};

  Tensor forward(const Tensor& x, Cache* cache) {
    const Tensor y = x + attention(norm1(x), cache);
    return y + mlp(norm2(y));
  }
};

struct Model : ModuleOf<Model> {
  Child<Embedding> embedding{*this, "embedding", std::ssize(kLetters), kChannels};
  Child<ListOf<Block>> blocks{*this, "blocks", kLayers};
  Child<LayerNorm> norm{*this, "norm", kChannels};
  Child<Linear> head{*this, "head", kChannels, std::ssize(kLetters)};

  // Maps tokens [B, T] to logits [B, T, letters]. `caches`: one for each block, or null.
  Tensor forward(const Tensor& tokens, std::vector<Cache>* caches = nullptr) {
    Tensor x = embedding(tokens);
    for (size_t i = 0; Block & block : blocks) x = block(x, caches ? &(*caches)[i++] : nullptr);
    return head(norm(x));
  }
};

Tensor encoded(const std::string& text) {
  std::vector<int64_t> ids;
  for (const char c : text) ids.push_back(int64_t(kLetters.find(c)));
  return tensor(ids);
}

// Returns lines such as "7+5=12".
std::string sums(int64_t count) {
  std::string text;
  const std::vector<int64_t> drawn = randint(0, 20, {2 * count}).to_vector<int64_t>();
  for (size_t i = 0; i < drawn.size(); i += 2) {
    text += concat_to_string(drawn[i], "+", drawn[i + 1], "=", drawn[i] + drawn[i + 1], "\n");
  }
  return text;
}

// Continues the text by the likeliest letters up to kContext tokens.
std::string generate(Model& model, const std::string& prompt, bool with_cache, Device device) {
  const NoGradGuard no_grad;
  std::vector<Cache> caches(kLayers);
  Tensor tokens = encoded(prompt).unsqueeze(0).to(device), input = tokens;
  while (tokens.size(1) < kContext) {
    const Tensor next = model(input, with_cache ? &caches : nullptr).select(1, -1).argmax(-1, true);
    tokens = cat({tokens, next}, 1);
    input = with_cache ? next : tokens;
  }
  std::string text;
  for (const int64_t id : tokens[0].cpu().to_vector<int64_t>()) text += kLetters[size_t(id)];
  return text;
}

// Returns by how much the cache changes the logits of a text.
double cache_error(Model& model, const std::string& text, Device device) {
  const NoGradGuard no_grad;
  const Tensor tokens = encoded(text).unsqueeze(0).to(device);
  std::vector<Cache> caches(kLayers);
  std::vector<Tensor> logits;
  for (const Tensor& token : tokens.split(1, 1)) logits.push_back(model(token, &caches));
  return (cat(logits, 1) - model(tokens)).abs().max().item<double>();
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 1500;
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1);
  data::DataLoader loader(data::WindowDataset(encoded(sums(5000)), kContext),
                          {.batch_size = 32, .shuffle = true, .batches = steps}, device, 1);
  Model model;
  model.to(device);
  optim::AdamW optimizer(model.named_parameters(), {.lr = 3e-3}, {optim::no_decay()});
  for (int64_t step = 0; const data::Batch& batch : loader.epoch(0)) {
    const Tensor loss = cross_entropy(model(batch.inputs).flatten(0, 1), batch.targets.flatten());
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step++ % 10 == 0)
      std::cout << "step " << step - 1 << ": loss " << loss.item<double>() << "\n";
  }
  std::string text;
  for (const bool with_cache : {false, true}) {
    const auto start = std::chrono::steady_clock::now();
    text = generate(model, "7+14=", with_cache, device);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << (with_cache ? "with" : "without") << " the cache: " << seconds.count() << " s\n";
  }
  const double error = cache_error(model, text, device);
  std::cout << text << "\nlogits with the cache differ by at most " << error << "\n";
  return error < 1e-3 ? 0 : 1;
}
