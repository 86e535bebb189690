// A graph whose nodes belong to communities: most neighbors are in the same community, and some of
// the words (as in Cora's documents) are specific to it.
#pragma once

#include <cstdint>

#include <taper/taper.h>

struct Graph {
  taper::Tensor features;   // [nodes, words], rows that sum to 1
  taper::Tensor labels;     // [nodes] int64: communities
  taper::Tensor adjacency;  // [nodes, nodes] of 0 and 1, symmetric, with 1 on the diagonal
};

inline Graph communities(int64_t nodes, int64_t classes, int64_t words, taper::Device device) {
  using namespace taper;
  const TensorOptions there{.device = device};
  const Tensor labels = arange(nodes, there).remainder(classes);
  const Tensor is_near = (labels.unsqueeze(1) == labels).to(kFloat32);
  const Tensor edges = triu(bernoulli((is_near * 10 + 2) / nodes), 1);
  const Tensor owner = arange(words, there).remainder(classes);
  const Tensor is_own = (labels.unsqueeze(1) == owner).to(kFloat32);
  const Tensor used = bernoulli(is_own * 0.1 + 0.05) + 1e-3;
  return {used / used.sum(1, true), labels, edges + edges.t() + eye(nodes, there)};
}
