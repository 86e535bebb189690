// Generation with a GPT by a key-value cache
// (https://huggingface.co/docs/transformers/kv_cache describes the idea).
//
//   model.eval();
//   GPTDecoder decoder(model);
//   Tensor next = argmax(decoder(prompt), -1, true);  // [B, 1]
//   while (...) next = argmax(decoder(next), -1, true);
#pragma once

#include <memory>
#include <vector>

#include "autograd/step_graph.h"
#include "modules/models/gpt.h"

namespace taper::v0 {

// Keeps the keys and values of the tokens that a GPT has seen, so that only new tokens pass through
// the network. On a GPU, a pass of one token is replayed as a CUDA graph, if it can be captured.
// The decoder refers to the model, which must outlive it and must not be moved meanwhile. Weights
// may change: call clear() then. For block_size tokens the cache takes the memory of 2 * n_layer
// activations [B, block_size, n_embd].
class GPTDecoder {
 public:
  // Throws ValueError if the model cannot be decoded (see reason_against()).
  explicit GPTDecoder(GPT& model);
  ~GPTDecoder();
  GPTDecoder& operator=(GPTDecoder&&) = delete;  // neither copied nor moved

  // Returns why a model cannot be decoded, or an empty string. It must be in evaluation mode and
  // without hooks, its layers must be those that GPT creates, and all must be on one device.
  static std::string reason_against(const GPT& model);

  // Appends tokens [B, T] (int64 or int32, on the model's device) to B texts, and returns the
  // logits of the tokens that follow, [B, vocab_size]. They equal those of the whole texts but for
  // rounding. They require no grad, and the next call may overwrite them. All calls until clear()
  // need the same B. Throws ValueError if the texts become longer than block_size. Does not
  // synchronize.
  Tensor operator()(const Tensor& tokens);
  // Returns the number of tokens of each text.
  int64_t size() const { return size_; }
  // Forgets the texts.
  void clear();

 private:
  // The keys and values of a block, [B, n_head, block_size, n_embd / n_head].
  struct KeyValues {
    Tensor k, v;
  };
  void begin_batch(int64_t batch);
  Tensor pass(const Tensor& tokens);
  Tensor attend(CausalSelfAttention& attention, const Tensor& x, KeyValues& cache,
                const Tensor& positions, const Tensor& mask) const;

  GPT& model_;
  std::vector<KeyValues> blocks_;  // empty until the first call
  Tensor slots_;                   // 0 to block_size - 1
  Tensor next_;                    // [1]: the position of the next token
  int64_t size_ = 0, batch_ = 0;
  std::unique_ptr<StepGraph> graph_;  // of a pass of one token, on a GPU
};

}  // namespace taper::v0
