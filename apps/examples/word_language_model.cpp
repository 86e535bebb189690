// A word-level language model by an LSTM or a Transformer, whose embedding is tied to the last
// layer, like pytorch/examples' word_language_model. Arguments: steps, LSTM or Transformer, a text
// file.
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include <taper/taper.h>

using namespace taper;

struct RNNModel : Module {
  Child<Dropout> drop;
  Child<Embedding> encoder;
  Child<LSTM> rnn;
  Child<Linear> decoder;
  RnnState hidden;  // state at the end of the last batch, detached; undefined: zeros

  RNNModel(int64_t ntoken, int64_t nhid, int64_t nlayers, double dropout)
      : drop(*this, "drop", dropout),
        encoder(*this, "encoder", ntoken, nhid),
        rnn(*this, "rnn", nhid, nhid, {.num_layers = nlayers, .dropout = dropout}),
        decoder(*this, "decoder", nhid, ntoken) {
    decoder->weight.share(encoder->weight);
    init::uniform_(encoder->weight, -0.1, 0.1);
    init::zeros_(decoder->bias);
  }
  // Maps words [T, B] to log probabilities of the next words [T, B, ntoken].
  Tensor forward(const Tensor& input) override {
    const auto [output, h_n, c_n] = rnn(drop(encoder(input)), hidden);
    hidden = {h_n.detach(), c_n.detach()};
    return log_softmax(decoder(drop(output)), -1);
  }
};

struct PositionalEncoding : Module {
  Child<Dropout> dropout;
  Buffer pe;

  PositionalEncoding(int64_t d_model, double p, int64_t max_len = 5000)
      : dropout(*this, "dropout", p), pe(*this, "pe", zeros({max_len, 1, d_model})) {
    const TensorOptions exact{.dtype = kFloat64};
    const Tensor position = arange(max_len, exact).view({-1, 1, 1});
    const Tensor div_term =
        exp(arange(0, d_model, 2, exact) * (-std::log(10000.0) / double(d_model)));
    pe->slice(2, 0, {}, 2) = sin(position * div_term);
    pe->slice(2, 1, {}, 2) = cos(position * div_term);
  }
  Tensor forward(const Tensor& x) override { return dropout(x + pe->slice(0, 0, x.size(0))); }
};

struct TransformerModel : Module {
  Child<PositionalEncoding> pos_encoder;
  Child<Embedding> input_emb;
  Child<TransformerEncoder> encoder;
  Child<Linear> decoder;

  TransformerModel(int64_t ntoken, int64_t ninp, int64_t nhead, int64_t nhid, int64_t nlayers,
                   double dropout)
      : pos_encoder(*this, "pos_encoder", ninp, dropout),
        input_emb(*this, "input_emb", ntoken, ninp),
        encoder(
            *this, "encoder",
            [&] {
              return TransformerEncoderLayer(ninp, nhead,
                                             {.dim_feedforward = nhid, .dropout = dropout});
            },
            nlayers),
        decoder(*this, "decoder", ninp, ntoken) {
    decoder->weight.share(input_emb->weight);
    init::uniform_(input_emb->weight, -0.1, 0.1);
    init::zeros_(decoder->bias);
  }
  Tensor forward(const Tensor& src) override {
    const Tensor x = pos_encoder(input_emb(src) * std::sqrt(double(input_emb->embedding_dim)));
    return log_softmax(decoder(encoder(x, EncodeOptions{.is_causal = true})), -1);
  }
};

// Numbers the words in the order of their first occurrence.
struct Corpus {
  std::map<std::string, int64_t> word2idx;
  std::vector<int64_t> ids;

  explicit Corpus(std::istream& text) {
    for (std::string line, word; std::getline(text, line);) {
      for (std::istringstream words(line + " <eos>"); words >> word;) {
        ids.push_back(word2idx.try_emplace(word, int64_t(word2idx.size())).first->second);
      }
    }
  }
};

// Returns the text that is used if the user names no file: sums such as "seven and five is twelve".
std::string sums() {
  const char* names[] = {"none",  "one",   "two",  "three", "four",   "five",  "six",
                         "seven", "eight", "nine", "ten",   "eleven", "twelve"};
  std::string text;
  for (const int64_t pair : randint(0, 49, {4000}).to_vector<int64_t>()) {
    const int64_t a = pair / 7, b = pair % 7;
    text += concat_to_string(names[a], " and ", names[b], " is ", names[a + b], "\n");
  }
  return text;
}

// Arranges [rows * bsz] as [rows, bsz], column by column.
Tensor batchify(const Tensor& data, int64_t bsz) {
  const int64_t nbatch = data.size(0) / bsz;
  return data.narrow(0, 0, nbatch * bsz).view({bsz, -1}).t().contiguous();
}

// Takes one step of plain gradient descent.
Tensor train_step(Module& model, const Tensor& data, const Tensor& targets, double lr) {
  model.zero_grad();
  const Tensor output = model(data);
  const Tensor loss = nll_loss(output.flatten(0, 1), targets.flatten());
  loss.backward();
  (void)optim::clip_grad_norm_(model.parameters(), 0.25);
  const NoGradGuard no_grad;
  for (const Tensor& p : model.parameters()) p.add_(p.grad(), -lr);
  return loss;
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 200;
  const bool is_transformer = argc > 2 && std::string(argv[2]) == "Transformer";
  const Device device = cuda::is_available() ? "cuda" : "cpu";
  manual_seed(1111);
  std::ifstream file(argc > 3 ? argv[3] : "");
  std::istringstream drawn(sums());
  const Corpus corpus(file.is_open() ? static_cast<std::istream&>(file) : drawn);
  const Tensor train_data = batchify(tensor(corpus.ids), 20).to(device);
  const int64_t ntoken = int64_t(corpus.word2idx.size());

  std::unique_ptr<Module> model = std::make_unique<RNNModel>(ntoken, 200, 2, 0.2);
  if (is_transformer) model = std::make_unique<TransformerModel>(ntoken, 200, 2, 200, 2, 0.2);
  model->to(device);
  constexpr int64_t bptt = 35;
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t i = step * bptt % (train_data.size(0) - bptt);
    const Tensor data = train_data.narrow(0, i, bptt), targets = train_data.narrow(0, i + 1, bptt);
    const double loss = train_step(*model, data, targets, is_transformer ? 5 : 20).item<double>();
    if (step % 10 != 0) continue;
    std::cout << "step " << step << ": loss " << loss << ", ppl " << std::exp(loss) << "\n";
  }
}
