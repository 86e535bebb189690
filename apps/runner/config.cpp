#include "apps/runner/config.h"

#include <algorithm>
#include <cctype>
#include <ranges>

#include "apps/runner/errors.h"
#include "apps/runner/schema.h"
#include "apps/runner/text.h"
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

// For a text of any form but none.
bool is_given(const std::string& text) { return !text.empty(); }
constexpr const char* kPath = "a path that is not empty";

Schema describe(MnistConfig& c) {
  Schema s;
  s.field("root", &c.root, "directory of the four IDX files").required().of_form(kPath, is_given);
  return s;
}

bool is_delimiter(const std::string& text) {
  return text.size() == 1 && !std::isalnum(static_cast<unsigned char>(text[0])) &&
         std::string_view("\"\n\r.+-_").find(text) == std::string_view::npos;
}

Schema describe(CsvConfig& c) {
  Schema s;
  s.field("path", &c.path, "file with the rows").required().of_form(kPath, is_given);
  s.field("test_path", &c.test_path, "file with the test rows").of_form(kPath, is_given);
  s.field("test_fraction", &c.test_fraction, "part of the rows that is kept for the test")
      .within(kBetweenZeroAndOne)
      .idle_when("test_path is given", [&c] { return c.test_path.has_value(); });
  s.field("label", &c.label, "name or index of the column to predict; -1 is the last")
      .of_form("a column", is_given);
  s.field("header", choice(c.header, {"auto", "present", "absent"}),
          "whether the first line holds names");
  s.field("delimiter", &c.delimiter, "what stands between two cells")
      .of_form("one character such as ',' or ';' or \"\\t\"", is_delimiter);
  s.field("standardize", &c.standardize, "scale features to mean 0 and deviation 1");
  s.field("task", choice(c.task, {"classification", "regression"}), "what the label column is");
  return s;
}

Union describe(DataConfig& c) {
  return {.tag = choice(c.type, {"digits", "mnist", "csv"}),
          .alternatives = {describe(c.digits), describe(c.mnist), describe(c.csv)}};
}

const std::vector<std::string> kActivations = {"relu",    "gelu", "tanh",
                                               "sigmoid", "silu", "leaky_relu"};

Schema describe(MlpConfig& c) {
  Schema s;
  s.field("hidden", &c.hidden, "widths of the hidden layers").within(kWidth);
  s.field("activation", choice(c.activation, kActivations, LayerType::kRelu),
          "after every hidden layer");
  s.field("dropout", &c.dropout, "chance of a zero after every activation").within(kBelowOne);
  return s;
}

Union describe(LayerConfig& c) {
  Schema linear, leaky_relu, dropout;
  linear.field("out_features", &c.linear.out_features, "width of the output")
      .required()
      .within(kWidth);
  linear.field("bias", &c.linear.bias, "whether a bias is added");
  leaky_relu.field("negative_slope", &c.leaky_relu.negative_slope, "slope below 0")
      .within(kNonNegative);
  dropout.field("p", &c.dropout.p, "chance of a zero").within(kBelowOne);
  return {.tag = choice(c.type, {"linear", "relu", "gelu", "tanh", "sigmoid", "silu", "leaky_relu",
                                 "dropout", "flatten"}),
          .alternatives = {linear, {}, {}, {}, {}, {}, leaky_relu, dropout, {}},
          .place = &c.place};
}

Schema describe(SequentialConfig& c) {
  Schema s;
  const UnionList layers{.resize = [&c](std::size_t n) { c.layers.assign(n, {}); },
                         .items =
                             [&c] {
                               std::vector<Union> items;
                               for (LayerConfig& layer : c.layers) items.push_back(describe(layer));
                               return items;
                             }};
  s.field("layers", layers, "the layers in order; input sizes are inferred").required();
  return s;
}

Union describe(ModelConfig& c) {
  return {.tag = choice(c.type, {"mlp", "sequential"}),
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
  s.rules = {{"nesterov", "needs a momentum above 0, as in 'momentum: 0.9'",
              [&c] { return !c.nesterov || c.momentum > 0; }}};
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
  return {.tag = choice(c.type, {"sgd", "adam", "adamw"}),
          .alternatives = {describe(c.sgd), describe(c.adam), describe(c.adamw)}};
}

Schema describe(TrainConfig& c) {
  Schema s;
  s.field("epochs", &c.epochs, "passes over the training set").within(kSteps);
  s.field("batch_size", &c.batch_size, "samples a step").within(kSamples);
  s.field("schedule", choice(c.schedule, {"constant", "linear", "cosine"}),
          "the learning rate over the run: as given, or falling to 0");
  s.field("shuffle", &c.shuffle, "a new order of the samples in every epoch");
  s.field("log_every", &c.log_every, "steps between two lines of metrics").within(kSteps);
  s.field("eval_batch_size", &c.eval_batch_size, "samples a step of evaluation").within(kSamples);
  return s;
}

bool is_file_name(const std::string& text) {
  return !text.empty() && text != "." && text != ".." && text.size() <= 100 &&
         text.find('/') == std::string::npos;
}

bool is_device(const std::string& text) try {
  return text == "auto" || !to_string(Device(text)).empty();
} catch (const Error&) {
  return false;
}

// The child that a part of an override's path names; made when a map has none. Null when `node`
// has no children by that name to give.
Node* child_of(Node& node, const std::string& part, const Place& place) {
  if (node.kind == Node::Kind::kSequence) {
    std::size_t i = 0;
    const bool is_index = parse_number(part, i) == std::errc() && i < node.children.size();
    return is_index ? &node.children[i] : nullptr;
  }
  if (node.kind == Node::Kind::kScalar) return nullptr;
  node.kind = Node::Kind::kMap;
  const auto found = std::ranges::find(node.children, part, &Node::key);
  if (found != node.children.end()) return &*found;
  return &node.children.emplace_back(Node{.place = place, .key = part, .key_place = place});
}

// Puts the value into the tree, under "a.b". Returns what is wrong, or nothing.
std::string put(Node& root, std::string_view keys, Node value) {
  Node* at = &root;
  for (const auto key : keys | std::views::split('.')) {
    const std::string part(key.begin(), key.end());
    if (part.empty()) return "expected a path of keys joined by single dots";
    Node* child = child_of(*at, part, value.key_place);
    if (child == nullptr) {
      const bool is_list = at->kind == Node::Kind::kSequence;
      return cat("'", std::string_view(keys.begin(), key.begin() - 1), "' is ",
                 is_list ? cat("a list of ", at->children.size(), " entries, from 0")
                         : cat(seen(*at), ", not a map"),
                 ": there is no '", part, "' in it");
    }
    at = child;
  }
  value.key = at->key;
  *at = std::move(value);
  return "";
}

// Applies the override of that number. Returns what is wrong.
std::vector<Problem> apply(Node& root, const std::string& text, int number) {
  const std::size_t equals = text.find('=');
  const bool has_key = equals != std::string::npos && equals > 0;
  Document value = parse_yaml(has_key ? std::string_view(text).substr(equals + 1) : "",
                              {.name = cat("command line: ", text), .number = number});
  if (!value.root) return value.problems;
  Place& place = value.root->key_place;
  place.line = 0;
  const std::string wrong = has_key ? put(root, text.substr(0, equals), *value.root)
                                    : "expected key=value, as in train.epochs=3";
  if (!wrong.empty()) value.problems.push_back({place, wrong});
  return value.problems;
}

std::string read_config(const std::filesystem::path& path) try {
  const std::string text = read_file(path, "YAML file", kMaxYamlBytes + 1);
  if (text.size() <= kMaxYamlBytes) return text;
  throw ConfigError(cat(path.string(), ": over ", kMaxYamlBytes, " bytes: not a configuration"));
} catch (const InputError& error) {
  throw ConfigError(error.what());
}

}  // namespace

Schema describe(RunConfig& c) {
  Schema s;
  s.field("name", &c.name, "names the run and its directory")
      .of_form("a name fit for a directory, without '/'", is_file_name);
  s.field("seed", &c.seed, "what initial weights, orders and dropout are drawn from");
  s.field("device", &c.device, "auto, cpu, cuda or cuda:N")
      .of_form(cat("auto, cpu, cuda or cuda:N with N from 0 to ", Device::kMaxIndex), is_device);
  s.field("visible_devices", &c.visible_devices, "GPUs that the run may see, as \"0\" or \"1,2\"")
      .of_form(
          "GPU numbers joined by commas, such as \"0\" or \"1,2\", each once and without spaces",
          cuda::is_visible_devices);
  s.field("threads", &c.threads, "CPU threads; 0 takes all").within(kThreads);
  s.field("data", describe(c.data), "what is learned from").required();
  s.field("model", describe(c.model), "what learns").required();
  s.field("optimizer", describe(c.optimizer), "how it learns").required();
  s.field("train", describe(c.train), "how long it learns");
  return s;
}

RunConfig load_config(const std::filesystem::path& path,
                      const std::vector<std::string>& overrides) {
  Document file = parse_yaml(read_config(path), {.name = path.string()});
  // With a tree in pieces, what else could be said of it would mislead.
  if (!file.root) throw ConfigError(report(file.problems));
  std::vector<Problem> problems = std::move(file.problems);
  const auto collect = [&](const std::vector<Problem>& more) {
    problems.insert(problems.end(), more.begin(), more.end());
  };
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    collect(apply(*file.root, overrides[i], int(i) + 1));
  }
  RunConfig config;
  config.name = path.stem().string();
  ReadResult result = read(describe(config), *file.root);
  collect(result.problems);
  if (!problems.empty()) throw ConfigError(report(std::move(problems)));
  config.places = std::move(result.places);
  return config;
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

}  // namespace taper::runner
