// A graph attention network (https://arxiv.org/abs/1710.10903) classifies the nodes of a graph by
// community, like pytorch/examples' gat: each node attends to its neighbors with several heads.
#include <iostream>

#include <taper/taper.h>

#include "apps/examples/graph.h"

using namespace taper;

struct GraphAttentionLayer : ModuleOf<GraphAttentionLayer> {
  const int64_t n_heads, n_hidden;
  const double dropout_p;
  Parameter W, a;

  GraphAttentionLayer(int64_t in_features, int64_t out_features, int64_t heads, double p)
      : n_heads(heads),
        n_hidden(out_features),
        dropout_p(p),
        W(*this, "W", init::xavier_normal_(empty({in_features, n_hidden * heads}))),
        a(*this, "a", init::xavier_normal_(empty({heads, 2 * n_hidden, 1}))) {}

  // Maps h [nodes, in_features] and adj_mat [nodes, nodes] to the mean over heads [nodes,
  // out_features].
  Tensor forward(const Tensor& h, const Tensor& adj_mat) {
    Tensor x = dropout(mm(h, W), dropout_p, is_training());
    x = x.view({-1, n_heads, n_hidden}).permute({1, 0, 2});  // [heads, nodes, hidden]
    const Tensor source_scores = matmul(x, a->narrow(1, 0, n_hidden));
    const Tensor target_scores = matmul(x, a->narrow(1, n_hidden, n_hidden));
    const Tensor e = leaky_relu(source_scores + target_scores.transpose(1, 2), 0.2);
    const Tensor attention = softmax(where(adj_mat > 0, e, -9e15), -1);
    return matmul(dropout(attention, dropout_p, is_training()), x).mean(0);
  }
};

struct GAT : ModuleOf<GAT> {
  Child<GraphAttentionLayer> gat1, gat2;

  GAT(int64_t in_features, int64_t n_hidden, int64_t n_heads, int64_t num_classes, double dropout)
      : gat1(*this, "gat1", in_features, n_hidden, n_heads, dropout),
        gat2(*this, "gat2", n_hidden, num_classes, 1, dropout) {}
  Tensor forward(const Tensor& input, const Tensor& adj_mat) {
    const Tensor x = elu(gat1(input, adj_mat));
    return log_softmax(gat2(x, adj_mat), 1);
  }
};

double accuracy(GAT& model, const Graph& graph, const Tensor& nodes) {
  model.eval();
  const NoGradGuard no_grad;
  const Tensor predicted = model(graph.features, graph.adjacency)[nodes].argmax(1);
  return (predicted == graph.labels[nodes]).to(kFloat32).mean().item<double>();
}

int main(int argc, char** argv) {
  const int64_t epochs = argc > 1 ? std::stoll(argv[1]) : 100;
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(13);
  const Graph graph = communities(500, 5, 200, device);
  const Tensor idx = randperm(500, {.device = device});
  const Tensor idx_test = idx.slice(0, 0, 250), idx_train = idx.slice(0, 250);

  GAT gat(200, 16, 4, 5, 0.4);
  gat.to(device);
  optim::Adam optimizer(gat.parameters(), {.lr = 0.005, .weight_decay = 5e-4});
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    gat.train();
    optimizer.zero_grad();
    const Tensor output = gat(graph.features, graph.adjacency);
    const Tensor loss = nll_loss(output[idx_train], graph.labels[idx_train]);
    loss.backward();
    optimizer.step();
    if (epoch % 10 == 0) {
      std::cout << "epoch " << epoch << ": loss " << loss.item<double>() << ", accuracy "
                << accuracy(gat, graph, idx_train) << "\n";
    }
  }
  std::cout << "test: accuracy " << accuracy(gat, graph, idx_test) << "\n";
}
