#include "apps/runner/settings/other_tools.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/config/schema.h"
#include "apps/runner/settings/placed_node.h"
#include "apps/runner/settings/run_config.h"
#include "apps/runner/settings/ultralytics_config.h"

namespace taper::v0::runner {
namespace {

using Kind = Node::Kind;

// A key or type of Ludwig without a counterpart of its own, and what Taper has in its place.
struct Refusal {
  std::string_view name, ours;
};
constexpr Refusal kRootKeys[] = {
    {"backend", "device, and `--ranks N` on the command line"},
    {"combiner", "model"},
    {"defaults", "data.columns and data.missing"},
    {"hyperopt", "`taper sweep`"},
    {"model_type", "model.type"},
    {"random_seed", "seed on the command line: seed=42"},
    {"training", "trainer, as newer versions of Ludwig, or train"},
};
constexpr Refusal kFeatureKeys[] = {
    {"column", "name, which is the name of the column"},
    {"decoder", "model"},
    {"encoder", "model"},
    {"loss", "loss"},
    {"preprocessing", "data.missing and data.columns"},
    {"tied", "model"},
};
constexpr Refusal kSplitKeys[] = {{"seed", "data.split.seed"}};
constexpr Refusal kTrainerKeys[] = {
    {"checkpoints_per_epoch", "checkpoint.every"},
    {"early_stop", "train.early_stopping.patience"},
    {"eval_batch_size", "train.eval_batch_size"},
    {"gradient_accumulation_steps", "train.accumulate"},
    {"gradient_clipping", "train.clip_norm"},
    {"learning_rate_scheduler", "schedule"},
    {"max_batch_size", "a number for train.batch_size"},
    {"optimizer", "optimizer"},
    {"regularization_lambda", "optimizer.weight_decay"},
    {"should_shuffle", "train.shuffle"},
    {"steps_per_checkpoint", "checkpoint.every"},
    {"train_steps", "train.steps"},
    {"use_mixed_precision", "train.precision"},
    {"validation_field", "train.best.metric"},
    {"validation_metric", "train.best.metric"},
};
// Types of features that no column of a table has.
constexpr Refusal kTypes[] = {
    {"audio", "no reader of sound"},
    {"bag", "words of text: type text"},
    {"h3", "numbers for the coordinates"},
    {"sequence", "words of text: type text"},
    {"set", "words of text: type text"},
    {"timeseries", "data.type: series"},
    {"vector", "a column for each number, or data.type: npy"},
};
constexpr std::string_view kInputTypes[] = {"number", "category", "binary",
                                            "text",   "date",     "image"};

std::string ours_for(std::span<const Refusal> rows, const std::string& name) {
  const auto found = std::ranges::find(rows, std::string_view(name), &Refusal::name);
  return found == rows.end() ? "" : concat_to_string("; Taper has ", found->ours);
}

bool is_text(const Node* node) {
  return node != nullptr && node->kind == Kind::kScalar && !node->text.empty();
}

Node renamed(Node node, std::string key) {
  node.key = std::move(key);
  return node;
}

class LudwigConverter {
 public:
  explicit LudwigConverter(std::vector<Problem>& problems) : problems_(problems) {}

  Node converted(const Node& root) {
    refuse_other_keys(root, {"input_features", "output_features", "preprocessing", "trainer"}, "",
                      kRootKeys);
    const Node* const inputs = root.find("input_features");
    const Node* const outputs = root.find("output_features");
    Node out = placed({.kind = Kind::kMap}, root);
    if (outputs == nullptr) {
      problem(root, "Ludwig's config has no 'output_features', the columns to predict");
    } else if (inputs == nullptr) {
      problem(root, "Ludwig's config has no 'input_features', the columns that predict");
    } else {
      out.children.push_back(data_of(*inputs, *outputs, root.find("preprocessing")));
    }
    if (const Node* trainer = root.find("trainer")) add_training(*trainer, out);
    return out;
  }

 private:
  struct Feature {
    std::string name, type;
    const Node* node;
  };

  void problem(const Node& at, std::string message) {
    problems_.push_back({at.place, std::move(message)});
  }
  void problem_at_key(const Node& at, std::string message) {
    problems_.push_back({at.key_place, std::move(message)});
  }

  void refuse_other_keys(const Node& map, const std::vector<std::string>& known,
                         const std::string& path, std::span<const Refusal> rows) {
    for (const Node& child : map.children) {
      if (std::ranges::count(known, child.key) > 0) continue;
      std::string all;
      for (const std::string& key : known) all += concat_to_string(all.empty() ? "" : ", ", key);
      problem_at_key(child, concat_to_string("Ludwig's key '", path, child.key,
                                             "' is not converted", ours_for(rows, child.key),
                                             "; remove it, or write the config with ",
                                             "Taper's keys (converted ",
                                             path.empty() ? "" : "here ", "are ", all, ")"));
    }
  }

  bool is_map(const Node& node, const std::string& name) {
    if (node.kind == Kind::kMap) return true;
    problem(node, concat_to_string(name, ": expected a map, got ", describe_node(node)));
    return false;
  }

  // Returns the features of a list. Reports entries without a name or a type.
  std::vector<Feature> features_of(const Node& list) {
    std::vector<Feature> out;
    if (list.kind != Kind::kSequence || list.children.empty()) {
      problem(list, concat_to_string(list.key, ": expected a list of {name: COLUMN, type: TYPE}, ",
                                     "got ", describe_node(list)));
      return out;
    }
    for (const Node& item : list.children) {
      if (!is_map(item, list.key)) continue;
      refuse_other_keys(item, {"name", "type"}, concat_to_string(list.key, "."), kFeatureKeys);
      const Node *const name = item.find("name"), *const type = item.find("type");
      if (!is_text(name) || !is_text(type)) {
        problem(item, concat_to_string(list.key, ": a feature needs a name and a type"));
        continue;
      }
      const std::string kind = type->text == "numerical" ? "number" : type->text;
      if (std::ranges::count(kInputTypes, std::string_view(kind)) == 0) {
        refuse_type(*type, list.key);
        continue;
      }
      out.push_back({name->text, kind, &item});
    }
    return out;
  }

  void refuse_type(const Node& type, const std::string& list) {
    problem(type,
            concat_to_string(list, ": Ludwig's type '", type.text, "' is not converted",
                             ours_for(kTypes, type.text), "; converted are ", joined(kInputTypes)));
  }

  // Returns the section `data`. Its path is not in a file of Ludwig: an override gives it.
  Node data_of(const Node& inputs, const Node& outputs, const Node* preprocessing) {
    const std::vector<Feature> in = features_of(inputs), out = features_of(outputs);
    const bool has_image = std::ranges::count(in, "image", &Feature::type) > 0;
    const bool is_text = in.size() == 1 && in[0].type == "text";
    if (has_image && in.size() > 1) {
      problem(inputs, "Taper's models take an image alone, without other input features");
    }
    const std::string type = has_image ? "images" : is_text ? "labeled_text" : "table";
    Node data = map_at("data", {word_at("type", type, inputs)}, outputs);
    std::vector<Node> target = {targets_of(out, outputs)};
    if (const char* task = task_of_all(out, outputs)) {
      target.push_back(word_at("task", task, outputs));
    }
    if (has_image) {
      target.insert(target.begin(), quoted_at("path", in[0].name, *in[0].node));
      data.children.push_back(map_at("labels", std::move(target), inputs));
    } else {
      std::ranges::move(target, std::back_inserter(data.children));
    }
    if (is_text) data.children.push_back(quoted_at("text", in[0].name, *in[0].node));
    if (type == "table") data.children.push_back(columns_of(in, inputs));
    if (preprocessing != nullptr) add_split(*preprocessing, out, has_image, data);
    return data;
  }

  static Node targets_of(const std::vector<Feature>& features, const Node& outputs) {
    std::vector<Node> names;
    for (const Feature& f : features) names.push_back(quoted_at("", f.name, *f.node));
    return list_at("target", std::move(names), outputs);
  }

  // Returns the task that the types of the outputs mean; null after a problem.
  const char* task_of_all(const std::vector<Feature>& features, const Node& outputs) {
    size_t values = 0, classes = 0;
    for (const Feature& f : features) {
      values += f.type == "number" ? 1 : 0;
      classes += f.type == "category" || f.type == "binary" ? 1 : 0;
      if (f.type == "number" || f.type == "category" || f.type == "binary") continue;
      problem(*f.node, concat_to_string("output_features: Ludwig's type '", f.type,
                                        "' is not converted as an output; converted are number, ",
                                        "category, binary"));
    }
    if (values > 0 && classes > 0) {
      problem(outputs,
              "output_features: Taper predicts values or classes, not both in one run; train a run "
              "for each");
      return nullptr;
    }
    return values > 0 ? "regression" : classes > 0 ? "classification" : nullptr;
  }

  // Ludwig reads the columns of the features only. The pattern after them is for all others.
  static Node columns_of(const std::vector<Feature>& features, const Node& inputs) {
    std::vector<Node> kinds;
    for (const Feature& f : features) {
      kinds.push_back(word_at(f.name, f.type == "binary" ? "category" : f.type, *f.node));
    }
    kinds.push_back(word_at("*", "ignore", inputs));
    return map_at("columns", std::move(kinds), inputs);
  }

  void add_split(const Node& preprocessing, const std::vector<Feature>& outputs, bool are_images,
                 Node& data) {
    if (!is_map(preprocessing, "preprocessing")) return;
    refuse_other_keys(preprocessing, {"split"}, "preprocessing.", kFeatureKeys);
    const Node* const split = preprocessing.find("split");
    if (split == nullptr || !is_map(*split, "preprocessing.split")) return;
    refuse_other_keys(*split, {"type", "probabilities", "column"}, "preprocessing.split.",
                      kSplitKeys);
    Node ours = map_at("split", {}, *split);
    if (const Node* parts = split->find("probabilities")) add_parts(*parts, ours);
    add_rule(*split, outputs, are_images, ours);
    data.children.push_back(std::move(ours));
  }

  // Adds the shares of the validation and the test part.
  void add_parts(const Node& parts, Node& ours) {
    double shares[3] = {}, sum = 0;
    bool are_shares = parts.kind == Kind::kSequence && parts.children.size() == 3;
    for (size_t i = 0; are_shares && i < 3; ++i) {
      const Reading<double> share = read_scalar<double>(parts.children[i]);
      are_shares = share.value && *share.value >= 0;
      if (are_shares) sum += shares[i] = *share.value;
    }
    if (!are_shares || sum < 0.999 || sum > 1.001 || shares[0] <= 0) {
      return problem(
          parts, concat_to_string("preprocessing.split.probabilities: expected three shares whose ",
                                  "sum is 1, as [0.7, 0.1, 0.2], got ", describe_node(parts)));
    }
    ours.children.push_back(renamed(parts.children[1], "validation"));
    ours.children.push_back(renamed(parts.children[2], "test"));
  }

  void add_rule(const Node& split, const std::vector<Feature>& outputs, bool are_images,
                Node& ours) {
    const Node *const type = split.find("type"), *const column = split.find("column");
    const std::string rule = is_text(type) ? type->text : "random";
    const Node& at = type == nullptr ? split : *type;
    if (rule == "random") return ours.children.push_back(word_at("by", "random", at));
    if (rule == "stratify") {
      const bool is_target =
          column == nullptr || std::ranges::count(outputs, column->text, &Feature::name) > 0;
      if (!is_target) problem(*column, "preprocessing.split: Taper stratifies by the target only");
      return ours.children.push_back(word_at("by", "stratify", at));
    }
    if (rule == "datetime" && is_text(column) && !are_images) {
      ours.children.push_back(word_at("by", "time", at));
      return ours.children.push_back(renamed(*column, "column"));
    }
    problem(at, concat_to_string(
                    "preprocessing.split: Ludwig's type '", rule, "' is not converted",
                    rule == "fixed" ? "; data.split: {by: column, column: NAME} reads the words "
                                      "train, validation and test from a column"
                    : rule == "datetime" ? "; it needs a table and the column with the times"
                                         : "; converted are random, stratify, datetime"));
  }

  void add_training(const Node& trainer, Node& out) {
    if (!is_map(trainer, "trainer")) return;
    refuse_other_keys(trainer, {"epochs", "batch_size", "learning_rate"}, "trainer.", kTrainerKeys);
    Node train = map_at("train", {}, trainer);
    for (const char* key : {"epochs", "batch_size"}) {
      if (const Node* value = trainer.find(key)) train.children.push_back(*value);
    }
    if (!train.children.empty()) out.children.push_back(std::move(train));
    const Node* const rate = trainer.find("learning_rate");
    if (rate == nullptr) return;
    if (rate->text == "auto") {
      return problem(*rate,
                     "trainer.learning_rate: expected a number; `taper lr-find` proposes one");
    }
    out.children.push_back(
        map_at("optimizer", {word_at("type", "adamw", *rate), renamed(*rate, "lr")}, *rate));
  }

  std::vector<Problem>& problems_;
};

// Reports the keys of Taper in a file of another tool. Returns whether there are any.
bool has_own_keys(const Node& root, const char* tool, const char* sign,
                  std::vector<Problem>& problems) {
  RunConfig scratch;
  const Schema schema = describe(scratch);
  for (const Node& child : root.children) {
    if (child.key == sign) continue;
    const bool is_include = child.key == "include";
    if (!is_include && std::ranges::count(schema.fields, child.key, &Field::name) == 0) continue;
    // Ultralytics has keys of the same names as Taper, with other values.
    if (child.key == "train" && child.kind != Kind::kMap) continue;
    problems.push_back(
        {child.key_place,
         concat_to_string("'", child.key, "' is a key of Taper, and '", sign, "' one of ", tool,
                          "; a file has the keys of one of them. A second file can add Taper's ",
                          "keys: include: THIS_FILE, and then ", child.key)});
    return true;
  }
  return false;
}

}  // namespace

void convert_other_tools(Node& root, std::vector<Problem>& problems) {
  if (root.kind != Kind::kMap) return;
  for (const char* sign : {"input_features", "output_features"}) {
    if (root.find(sign) == nullptr) continue;
    if (!has_own_keys(root, "Ludwig", sign, problems)) {
      root = LudwigConverter(problems).converted(root);
    }
    return;
  }
  const char* const sign = sign_of_ultralytics(root);
  if (sign == nullptr || has_own_keys(root, "Ultralytics", sign, problems)) return;
  root = converted_ultralytics(root, problems);
}

}  // namespace taper::v0::runner
