#include "modules/models/gpt_decoder.h"

#include <algorithm>
#include <typeinfo>

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/attention_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"

namespace taper::v0 {
namespace {

// Returns whether a module is exactly of class M, whose forward pass is known.
template <class M> bool is_exactly(const Module& module) { return typeid(module) == typeid(M); }

bool is_known(const Module& module) {
  if (!is_exactly<GPTBlock>(module)) return false;
  const auto& block = static_cast<const GPTBlock&>(module);
  return is_exactly<CausalSelfAttention>(*block.attn) && is_exactly<GPTMLP>(*block.mlp);
}

}  // namespace

std::string GPTDecoder::reason_against(const GPT& model) {
  if (model.is_training()) return "the model is in training mode; call eval() first";
  if (model.has_hooks() || detail::has_hooks_below(model)) return "a module has hooks";
  const bool all_known = is_exactly<GPT>(model) && is_exactly<GPTTransformer>(*model.transformer) &&
                         std::ranges::all_of(model.transformer->h->children(),
                                             [](const auto& c) { return is_known(*c.second); });
  if (!all_known) return "it has layers that GPT does not create";
  const Device device = model.lm_head->weight->device();
  for (const auto& [name, p] : model.named_parameters()) {
    if (p.device() != device) {
      return concat_to_string("'", name, "' is on ", p.device(), ", but lm_head is on ", device);
    }
  }
  return {};
}

GPTDecoder::GPTDecoder(GPT& model) : model_(model) {
  const std::string reason = reason_against(model);
  require<ValueError>(reason.empty(), "GPTDecoder: ", reason);
  const Device device = model.lm_head->weight->device();
  slots_ = arange(model.options.block_size, {.device = device});
  next_ = zeros({1}, {.dtype = kInt64, .device = device});
}

GPTDecoder::~GPTDecoder() = default;

void GPTDecoder::clear() {
  const NoGradGuard no_grad;
  next_.zero_();
  size_ = 0;
}

Tensor GPTDecoder::operator()(const Tensor& tokens) {
  if (tokens.dim() != 2)
    throw ValueError("GPTDecoder: expected tokens [B, T], got ", tokens.shape());
  const int64_t B = tokens.size(0), T = tokens.size(1), most = model_.options.block_size;
  require<ValueError>(T > 0, "GPTDecoder: expected at least one token");
  require<ValueError>(size_ + T <= most, "GPTDecoder: ", size_ + T,
                      " tokens are more than the model's block_size, ", most,
                      "; clear() begins other texts");
  require<ValueError>(size_ == 0 || B == batch_, "GPTDecoder: expected ", batch_,
                      " texts as before, got ", B);
  const NoGradGuard no_grad;
  if (B != batch_) begin_batch(B);
  const Tensor logits = graph_ && T == 1 ? (*graph_)({tokens})[0] : pass(tokens);
  size_ += T;
  return logits;
}

// A graph contains the addresses of the cache, so it is captured again.
void GPTDecoder::begin_batch(int64_t batch) {
  blocks_.assign(size_t(model_.transformer->h->size()), {});
  batch_ = batch;
  graph_.reset();
  if (!slots_.is_cuda()) return;
  graph_ = std::make_unique<StepGraph>(
      [this](const std::vector<Tensor>& in) { return std::vector<Tensor>{pass(in[0])}; });
}

// Does only work on the device, so that a graph can replay it: the position is a tensor, and
// queries see all slots of the cache but those that the mask excludes.
Tensor GPTDecoder::pass(const Tensor& tokens) {
  GPTTransformer& net = *model_.transformer;
  const int64_t T = tokens.size(1);
  const Tensor positions = next_ + arange(T, {.device = tokens.device()});
  const Tensor mask = le(slots_, positions.unsqueeze(1));  // [T, block_size]
  Tensor x = net.wte(tokens) + net.wpe(positions);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    auto& block = net.h->at<GPTBlock>(int64_t(i));
    x = x + attend(*block.attn, block.ln_1(x), blocks_[i], positions, mask);
    x = x + block.mlp(block.ln_2(x));
  }
  next_.add_(T);
  return model_.lm_head(net.ln_f(x.select(1, T - 1)));
}

// Adds the keys and values of x [B, T, n_embd] to the cache and returns the result of attention.
Tensor GPTDecoder::attend(CausalSelfAttention& attention, const Tensor& x, KeyValues& cache,
                          const Tensor& positions, const Tensor& mask) const {
  const int64_t B = x.size(0), T = x.size(1), heads = attention.n_head;
  const Tensor packed = attention.c_attn(x).view({B, T, 3, heads, x.size(2) / heads});
  const auto part = [&](int64_t i) { return packed.select(2, i).transpose(1, 2); };
  const Tensor q = part(0);
  if (!cache.k.defined()) {
    const Shape shape{B, heads, model_.options.block_size, q.size(3)};
    for (Tensor* t : {&cache.k, &cache.v}) {
      *t = zeros(shape, {.dtype = q.dtype(), .device = q.device()});
    }
  }
  cache.k.index_copy_(2, positions, part(1));
  cache.v.index_copy_(2, positions, part(2));
  const Tensor y = scaled_dot_product_attention(q, cache.k, cache.v, {.attn_mask = mask});
  return attention.c_proj(y.transpose(1, 2).reshape({B, T, heads * q.size(3)}));
}

}  // namespace taper::v0
