#include "apps/runner/config.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "apps/runner/errors.h"
#include "apps/runner/schema.h"
#include "framework/cuda.h"
#include "framework/device.h"

namespace taper::runner {
namespace {

// Beyond these a number is a slip of the finger, not a wish.
constexpr double kMaxWidth = 1 << 24;
constexpr double kMaxSamples = 10'000'000;
constexpr double kMaxSteps = 1'000'000'000;
constexpr Range kWidth{1, kMaxWidth};
constexpr Range kSamples{1, kMaxSamples};
constexpr Range kSteps{1, kMaxSteps};
constexpr Range kThreads{0, 4096};

Schema describe(DigitsConfig& c) {
  Schema s;
  s.field("train_size", &c.train_size, "number of training images").within(kSamples);
  s.field("test_size", &c.test_size, "number of test images").within(kSamples);
  s.field("seed", &c.seed, "what the images are drawn from; not the run's seed");
  return s;
}

std::string path_wrong(const std::string& text) {
  return text.empty() ? "a path that is not empty" : "";
}

Schema describe(MnistConfig& c) {
  Schema s;
  s.field("root", &c.root, "directory of the four IDX files").required().verify(path_wrong);
  return s;
}

std::string delimiter_wrong(const std::string& text) {
  constexpr const char* kExpected = "one character such as ',' or ';' or \"\\t\"";
  if (text.size() != 1) return kExpected;
  const std::string never = "\"\n\r.+-_";
  const bool is_word = std::isalnum(static_cast<unsigned char>(text[0]));
  return is_word || never.find(text) != std::string::npos ? kExpected : "";
}

Schema describe(CsvConfig& c) {
  Schema s;
  s.field("path", &c.path, "file with the rows").required().verify(path_wrong);
  s.field("test_path", &c.test_path, "file with the test rows").verify(path_wrong);
  s.field("test_fraction", &c.test_fraction, "part of the rows that is kept for the test")
      .within(kBetweenZeroAndOne)
      .idle_when([&c] { return std::string(c.test_path ? "test_path is given" : ""); });
  s.field("label", &c.label, "name or index of the column to predict; -1 is the last")
      .verify([](const std::string& text) { return text.empty() ? "a column" : ""; });
  s.field("header",
          choice(c.header, {{"auto", CsvHeader::kAuto},
                            {"present", CsvHeader::kPresent},
                            {"absent", CsvHeader::kAbsent}}),
          "whether the first line holds names");
  s.field("delimiter", &c.delimiter, "what stands between two cells").verify(delimiter_wrong);
  s.field("standardize", &c.standardize, "scale features to mean 0 and deviation 1");
  s.field("task",
          choice(c.task,
                 {{"classification", Task::kClassification}, {"regression", Task::kRegression}}),
          "what the label column is");
  return s;
}

Union describe(DataConfig& c) {
  return {.tag = choice(c.type, {{"digits", DataType::kDigits},
                                 {"mnist", DataType::kMnist},
                                 {"csv", DataType::kCsv}}),
          .alternatives = {describe(c.digits), describe(c.mnist), describe(c.csv)}};
}

Choice describe(Activation& a) {
  return choice(a, {{"relu", Activation::kRelu},
                    {"gelu", Activation::kGelu},
                    {"tanh", Activation::kTanh},
                    {"sigmoid", Activation::kSigmoid},
                    {"silu", Activation::kSilu},
                    {"leaky_relu", Activation::kLeakyRelu}});
}

Schema describe(MlpConfig& c) {
  Schema s;
  s.field("hidden", &c.hidden, "widths of the hidden layers").within(kWidth);
  s.field("activation", describe(c.activation), "after every hidden layer");
  s.field("dropout", &c.dropout, "chance of a zero after every activation").within(kBelowOne);
  return s;
}

Schema describe(LinearConfig& c) {
  Schema s;
  s.field("out_features", &c.out_features, "width of the output").required().within(kWidth);
  s.field("bias", &c.bias, "whether a bias is added");
  return s;
}

Schema describe(LeakyReluConfig& c) {
  Schema s;
  s.field("negative_slope", &c.negative_slope, "slope below 0").within(kNonNegative);
  return s;
}

Schema describe(DropoutConfig& c) {
  Schema s;
  s.field("p", &c.p, "chance of a zero").within(kBelowOne);
  return s;
}

Choice describe(LayerType& type) {
  return choice(type, {{"linear", LayerType::kLinear},
                       {"relu", LayerType::kRelu},
                       {"gelu", LayerType::kGelu},
                       {"tanh", LayerType::kTanh},
                       {"sigmoid", LayerType::kSigmoid},
                       {"silu", LayerType::kSilu},
                       {"leaky_relu", LayerType::kLeakyRelu},
                       {"dropout", LayerType::kDropout},
                       {"flatten", LayerType::kFlatten}});
}

// The arguments of a layer; a type not named here takes none.
Schema describe_arguments(LayerConfig& c, LayerType type) {
  switch (type) {
    case LayerType::kLinear: return describe(c.linear);
    case LayerType::kLeakyRelu: return describe(c.leaky_relu);
    case LayerType::kDropout: return describe(c.dropout);
    default: return {};
  }
}

Union describe(LayerConfig& c) {
  Union u{.tag = describe(c.type), .alternatives = {}, .place = &c.place};
  LayerType type{};
  const Choice each = describe(type);
  for (std::size_t i = 0; i < each.names.size(); ++i) {
    each.set(i);
    u.alternatives.push_back(describe_arguments(c, type));
  }
  return u;
}

Schema describe(SequentialConfig& c) {
  Schema s;
  const UnionList layers{.size = [&c] { return c.layers.size(); },
                         .resize = [&c](std::size_t n) { c.layers.assign(n, {}); },
                         .item = [&c](std::size_t i) { return describe(c.layers[i]); }};
  s.field("layers", layers, "the layers in order; input sizes are inferred").required();
  return s;
}

Union describe(ModelConfig& c) {
  return {.tag = choice(c.type, {{"mlp", ModelType::kMlp}, {"sequential", ModelType::kSequential}}),
          .alternatives = {describe(c.mlp), describe(c.sequential)},
          .place = &c.place};
}

Schema describe(SgdConfig& c) {
  Schema s;
  s.field("lr", &c.lr, "learning rate").within(kPositive).often_called("learning_rate");
  s.field("momentum", &c.momentum, "part of the last step that is kept").within(kBelowOne);
  s.field("nesterov", &c.nesterov, "look ahead along the momentum");
  s.field("weight_decay", &c.weight_decay, "L2 penalty, added to the gradient")
      .within(kNonNegative);
  s.rule("nesterov", [&c] {
    const bool broken = c.nesterov && c.momentum == 0;
    return std::string(broken ? "needs a momentum above 0, as in 'momentum: 0.9'" : "");
  });
  return s;
}

Schema describe(AdamConfig& c) {
  Schema s;
  s.field("lr", &c.lr, "learning rate").within(kPositive).often_called("learning_rate");
  s.field("betas", std::span<double>(c.betas), "decay of the two running means").within(kBelowOne);
  s.field("eps", &c.eps, "keeps the division finite").within(kPositive);
  s.field("weight_decay", &c.weight_decay,
          "adam: L2 penalty; adamw: part of the weight that is "
          "taken off, times lr")
      .within(kNonNegative);
  return s;
}

Union describe(OptimizerConfig& c) {
  return {.tag = choice(c.type, {{"sgd", OptimizerType::kSgd},
                                 {"adam", OptimizerType::kAdam},
                                 {"adamw", OptimizerType::kAdamW}}),
          .alternatives = {describe(c.sgd), describe(c.adam), describe(c.adamw)}};
}

Schema describe(TrainConfig& c) {
  Schema s;
  s.field("epochs", &c.epochs, "passes over the training set").within(kSteps);
  s.field("batch_size", &c.batch_size, "samples a step").within(kSamples);
  s.field("schedule",
          choice(c.schedule, {{"constant", Schedule::kConstant},
                              {"linear", Schedule::kLinear},
                              {"cosine", Schedule::kCosine}}),
          "the learning rate over the run: as given, or falling to 0");
  s.field("shuffle", &c.shuffle, "a new order of the samples in every epoch");
  s.field("log_every", &c.log_every, "steps between two lines of metrics").within(kSteps);
  s.field("eval_batch_size", &c.eval_batch_size, "samples a step of evaluation").within(kSamples);
  return s;
}

std::string name_wrong(const std::string& text) {
  const bool is_file_name = !text.empty() && text != "." && text != ".." && text.size() <= 100 &&
                            text.find('/') == std::string::npos;
  return is_file_name ? "" : "a name fit for a directory, without '/'";
}

std::string device_wrong(const std::string& text) {
  if (text == "auto") return "";
  try {
    static_cast<void>(Device(text));
    return "";
  } catch (const Error&) {
    return cat("auto, cpu, cuda or cuda:N with N from 0 to ", Device::kMaxIndex);
  }
}

std::string visible_devices_wrong(const std::string& text) {
  if (cuda::is_visible_devices(text)) return "";
  return "GPU numbers joined by commas, such as \"0\" or \"1,2\", each once and without spaces";
}

// One "a.b=v" of the command line, taken apart.
struct Override {
  std::vector<std::string> path;
  Node value;
};

std::vector<std::string> split_path(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// The child that a part of an override's path names; made when a map has none. Null when `node`
// has no children by that name to give.
Node* child_of(Node& node, const std::string& part, Mark mark) {
  if (node.kind == Node::Kind::kSequence) {
    std::size_t i = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), i);
    const bool is_index = error == std::errc() && end == part.data() + part.size();
    return is_index && i < node.children.size() ? &node.children[i] : nullptr;
  }
  if (node.kind == Node::Kind::kScalar) return nullptr;
  node.kind = Node::Kind::kMap;
  for (Node& child : node.children) {
    if (child.key == part) return &child;
  }
  Node& made = node.children.emplace_back();
  made.key = part;
  made.mark = made.key_mark = mark;
  return &made;
}

// Puts the value into the tree. Returns what is wrong, or nothing.
std::string apply(Node& root, const Override& change) {
  const Mark mark = change.value.key_mark;
  Node* at = &root;
  std::string path;
  for (const std::string& part : change.path) {
    if (part.empty()) return "expected a path of keys joined by single dots";
    Node* child = child_of(*at, part, mark);
    if (child == nullptr) {
      const std::string what = at->kind == Node::Kind::kSequence
                                   ? cat("a list of ", at->children.size(), " entries, from 0")
                                   : cat(seen(*at), ", not a map");
      return cat("'", path, "' is ", what, ": there is no '", part, "' in it");
    }
    path += path.empty() ? part : cat(".", part);
    at = child;
  }
  std::string key = at->key;
  *at = change.value;
  at->key = std::move(key);
  return "";
}

// Reads the sources one after another and collects what is wrong with any of them.
class Loader {
 public:
  void read_file(const std::filesystem::path& path) {
    const std::string text = read_config_text(path);
    take(parse_yaml(text, {.name = path.string()}, 0));
    // With a tree in pieces, what else could be said of it would mislead.
    if (is_broken_) throw ConfigError(report(sources_, problems_));
    root_ = std::move(tree_);
  }

  void apply_override(const std::string& text) {
    const std::size_t equals = text.find('=');
    const int index = int(sources_.size());
    const Mark mark{.source = index};
    const bool has_key = equals != std::string::npos && equals > 0;
    take(parse_yaml(has_key ? std::string_view(text).substr(equals + 1) : "",
                    {.name = cat("command line: ", text), .is_command_line = true}, index));
    if (is_broken_) return;
    if (!has_key) {
      problems_.push_back({mark, "expected key=value, as in train.epochs=3"});
      return;
    }
    tree_.key_mark = mark;
    const std::string wrong = apply(root_, {split_path(text.substr(0, equals)), tree_});
    if (!wrong.empty()) problems_.push_back({mark, wrong});
  }

  RunConfig finish(RunConfig config) {
    ReadResult result = read(describe(config), root_, sources_);
    problems_.insert(problems_.end(), result.problems.begin(), result.problems.end());
    if (!problems_.empty()) throw ConfigError(report(sources_, problems_));
    config.places = std::move(result.places);
    return config;
  }

 private:
  void take(Document document) {
    sources_.push_back(std::move(document.source));
    problems_.insert(problems_.end(), document.problems.begin(), document.problems.end());
    is_broken_ = document.broken;
    tree_ = std::move(document.root);
  }

  std::vector<Source> sources_;
  std::vector<Problem> problems_;
  Node root_;
  Node tree_;  // of the text read last
  bool is_broken_ = false;
};

}  // namespace

Schema describe(RunConfig& c) {
  Schema s;
  s.field("name", &c.name, "names the run and its directory").verify(name_wrong);
  s.field("seed", &c.seed, "what initial weights, orders and dropout are drawn from");
  s.field("device", &c.device, "auto, cpu, cuda or cuda:N").verify(device_wrong);
  s.field("visible_devices", &c.visible_devices, "GPUs that the run may see, as \"0\" or \"1,2\"")
      .verify(visible_devices_wrong);
  s.field("threads", &c.threads, "CPU threads; 0 takes all").within(kThreads);
  s.field("data", describe(c.data), "what is learned from").required();
  s.field("model", describe(c.model), "what learns").required();
  s.field("optimizer", describe(c.optimizer), "how it learns").required();
  s.field("train", describe(c.train), "how long it learns");
  return s;
}

RunConfig load_config(const std::filesystem::path& path,
                      const std::vector<std::string>& overrides) {
  Loader loader;
  loader.read_file(path);
  for (const std::string& text : overrides) loader.apply_override(text);
  RunConfig config;
  config.name = path.stem().string();
  return loader.finish(std::move(config));
}

std::string to_yaml(const RunConfig& config) {
  RunConfig copy = config;
  return write(describe(copy));
}

std::string to_yaml_with_origins(const RunConfig& config) {
  RunConfig copy = config;
  return write(describe(copy), [&](const std::string& path) {
    const auto found = config.places.find(path);
    return found == config.places.end() ? std::string("default") : to_string(found->second);
  });
}

std::string to_string(Activation activation) {
  const Choice names = describe(activation);
  return names.names[names.get()];
}

std::string to_string(LayerType type) {
  const Choice names = describe(type);
  return names.names[names.get()];
}

}  // namespace taper::runner
