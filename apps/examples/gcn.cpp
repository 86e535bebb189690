// A graph convolutional network (https://arxiv.org/abs/1609.02907) classifies the nodes of a graph
// by community, like pytorch/examples' gcn. It multiplies a sparse matrix by dense ones and
// differentiates the products.
#include <iostream>

#include <taper/taper.h>

#include "apps/examples/graph.h"

using namespace taper;

struct GraphConv : ModuleOf<GraphConv> {
  Parameter kernel, bias;

  GraphConv(int64_t input_dim, int64_t output_dim)
      : kernel(*this, "kernel", init::xavier_normal_(empty({input_dim, output_dim}))),
        bias(*this, "bias", zeros({output_dim})) {}
  Tensor forward(const Tensor& input, const SparseTensor& adj) {
    const Tensor support = mm(input, kernel);
    return mm(adj, support) + bias;
  }
};

struct GCN : ModuleOf<GCN> {
  Child<GraphConv> gc1, gc2;
  Child<Dropout> dropout;

  GCN(int64_t input_dim, int64_t hidden_dim, int64_t output_dim, double dropout_p)
      : gc1(*this, "gc1", input_dim, hidden_dim),
        gc2(*this, "gc2", hidden_dim, output_dim),
        dropout(*this, "dropout", dropout_p) {}
  Tensor forward(const Tensor& input, const SparseTensor& adj) {
    Tensor x = relu(gc1(input, adj));
    x = dropout(x);
    return log_softmax(gc2(x, adj), 1);
  }
};

// Returns the nonzero elements of D^-1/2 A D^-1/2.
SparseTensor normalized(const Tensor& adjacency) {
  const Tensor d = rsqrt(adjacency.sum(1));
  const Tensor a = d.unsqueeze(1) * adjacency * d;
  const Tensor edges = nonzero(a).t();
  return sparse_coo_tensor(edges, index(a, {edges[0], edges[1]}), a.shape());
}

Tensor train_step(GCN& model, optim::Optimizer& optimizer, const Tensor& features,
                  const SparseTensor& adj, const Tensor& labels, const Tensor& nodes) {
  optimizer.zero_grad();
  const Tensor output = model(features, adj);
  const Tensor loss = nll_loss(output[nodes], labels[nodes]);
  loss.backward();
  optimizer.step();
  return loss;
}

double accuracy(GCN& model, const Tensor& features, const SparseTensor& adj, const Tensor& labels,
                const Tensor& nodes) {
  model.eval();
  const NoGradGuard no_grad;
  const Tensor predicted = model(features, adj)[nodes].argmax(1);
  return (predicted == labels[nodes]).to(kFloat32).mean().item<double>();
}

int main(int argc, char** argv) {
  const int64_t epochs = argc > 1 ? std::stoll(argv[1]) : 200;
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(42);
  const Graph graph = communities(1000, 5, 200, device);
  const SparseTensor adj = normalized(graph.adjacency);
  const Tensor idx = randperm(1000, {.device = device});
  const Tensor idx_test = idx.slice(0, 0, 500), idx_train = idx.slice(0, 500);

  GCN gcn(200, 16, 5, 0.5);
  gcn.to(device);
  optim::Adam optimizer(gcn.parameters(), {.lr = 0.01, .weight_decay = 5e-4});
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    gcn.train();
    const Tensor loss = train_step(gcn, optimizer, graph.features, adj, graph.labels, idx_train);
    if (epoch % 20 == 0) {
      std::cout << "epoch " << epoch << ": loss " << loss.item<double>() << ", accuracy "
                << accuracy(gcn, graph.features, adj, graph.labels, idx_train) << "\n";
    }
  }
  std::cout << "test: accuracy " << accuracy(gcn, graph.features, adj, graph.labels, idx_test)
            << "\n";
}
