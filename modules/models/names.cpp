#include "modules/models/names.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "framework/io/loaded_tensors.h"
#include "framework/io/text_utils.h"

namespace taper::v0 {
namespace {

constexpr NameRule kGpt2Rules[] = {
    {"transformer.wte.weight", "transformer.wte.weight"},
    {"transformer.wpe.weight", "transformer.wpe.weight"},
    {"transformer.h.*.ln_*.*", "transformer.h.*.ln_*.*"},
    // GPT-2's Conv1D is a Linear with a transposed weight.
    {"transformer.h.*.attn.c_*.weight", "transformer.h.*.attn.c_*.weight", true},
    {"transformer.h.*.attn.c_*.bias", "transformer.h.*.attn.c_*.bias"},
    {"transformer.h.*.mlp.c_*.weight", "transformer.h.*.mlp.c_*.weight", true},
    {"transformer.h.*.mlp.c_*.bias", "transformer.h.*.mlp.c_*.bias"},
    // Files of earlier versions contain causal masks.
    {"transformer.h.*.attn.bias", nullptr},
    {"transformer.h.*.attn.masked_bias", nullptr},
    {"transformer.ln_f.*", "transformer.ln_f.*"},
    {"lm_head.weight", "lm_head.weight"},
};

constexpr NameRule kResNetRules[] = {
    {"conv1.weight", "conv1.weight"},
    {"bn1.*", "bn1.*"},
    {"layer*.*.conv*.weight", "layer*.*.conv*.weight"},
    {"layer*.*.bn*.*", "layer*.*.bn*.*"},
    {"layer*.*.downsample.0.weight", "layer*.*.downsample.0.weight"},
    {"layer*.*.downsample.1.*", "layer*.*.downsample.1.*"},
    {"fc.*", "fc.*"},
};

// Returns the texts that match the stars of a pattern, or std::nullopt if the name does not match.
std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view name) {
  std::vector<std::string> stars;
  while (!pattern.empty()) {
    if (pattern[0] != '*') {
      if (name.empty() || name[0] != pattern[0]) return std::nullopt;
      pattern.remove_prefix(1);
      name.remove_prefix(1);
      continue;
    }
    // A star is followed by a dot, by the end, or by text that the star itself cannot match.
    const char next = pattern.size() > 1 ? pattern[1] : '\0';
    size_t length = 0;
    while (length < name.size() && name[length] != '.' && name[length] != next) ++length;
    if (length == 0) return std::nullopt;
    stars.emplace_back(name.substr(0, length));
    pattern.remove_prefix(1);
    name.remove_prefix(length);
  }
  return name.empty() ? std::optional(stars) : std::nullopt;
}

std::string filled(const char* pattern, const std::vector<std::string>& stars) {
  std::string out;
  auto star = stars.begin();
  for (const char* c = pattern; *c != '\0'; ++c) out += *c == '*' ? *star++ : std::string(1, *c);
  return out;
}

Tensor laid_out(const NameRule& rule, const NamedTensor& t) {
  if (!rule.transposed) return t.tensor;
  if (t.tensor.dim() == 2) return transpose(t.tensor, 0, 1);
  throw ValueError("tensor ", detail::in_quotes(t.name), ": expected a matrix, got shape ",
                   t.tensor.shape());
}

using Side = const char* NameRule::*;
// Returns the new name by the first rule that matches; std::nullopt if none matches or the entry is
// ignored.
std::optional<std::string> renamed(const std::string& name, std::span<const NameRule> rules,
                                   Side from, Side to) {
  for (const NameRule& rule : rules) {
    const auto stars = rule.*from ? match(rule.*from, name) : std::nullopt;
    if (stars) return rule.*to ? std::optional(filled(rule.*to, *stars)) : std::nullopt;
  }
  return std::nullopt;
}

// Returns the first rule that matches a name of the other library; nullptr if none does.
const NameRule* rule_for(const std::string& name, const WeightNames& names) {
  for (const std::string& full : {name, names.may_lack + name}) {
    for (const NameRule& rule : names.rules) {
      if (match(rule.theirs, full)) return &rule;
    }
  }
  return nullptr;
}

// Adds t under the name of the first rule that matches. Returns false if none does.
bool add(std::vector<NamedTensor>& out, const NamedTensor& t, const std::string& name,
         std::span<const NameRule> rules, Side from, Side to) {
  for (const NameRule& rule : rules) {
    const auto stars = rule.*from ? match(rule.*from, name) : std::nullopt;
    if (!stars) continue;
    if (rule.*to) out.push_back({filled(rule.*to, *stars), laid_out(rule, t)});
    return true;
  }
  return false;
}

// Adds the counters num_batches_tracked to batch norms that have none.
void add_counters(std::vector<NamedTensor>& state) {
  constexpr std::string_view kMean = "running_mean", kCounter = "num_batches_tracked";
  std::set<std::string> names;
  for (const NamedTensor& t : state) names.insert(t.name);
  for (std::string name : names) {
    if (!name.ends_with(kMean)) continue;
    name.replace(name.size() - kMean.size(), kMean.size(), kCounter);
    if (!names.contains(name)) state.push_back({name, zeros({}, {.dtype = kInt64})});
  }
}

}  // namespace

constinit const WeightNames kHuggingFaceGpt2{"GPT-2 of Hugging Face's transformers", "transformer.",
                                             kGpt2Rules};
constinit const WeightNames kTorchvisionResNet{"torchvision's ResNet", "", kResNetRules};

std::vector<NamedTensor> WeightNames::to_taper(const std::vector<NamedTensor>& state) const {
  std::vector<NamedTensor> out;
  for (const NamedTensor& t : state) {
    const bool known = add(out, t, t.name, rules, &NameRule::theirs, &NameRule::ours) ||
                       add(out, t, may_lack + t.name, rules, &NameRule::theirs, &NameRule::ours);
    if (!known) throw ValueError("tensor ", detail::in_quotes(t.name), " is none of ", of);
  }
  add_counters(out);
  return out;
}

LoadedTensors WeightNames::to_taper(const LoadedTensors& state) const {
  LoadedTensors out(state.path);
  const std::vector<NamedTensor>& tensors = state;
  static_cast<std::vector<NamedTensor>&>(out) = to_taper(tensors);
  for (const auto& [name, why] : state.unreadable) {
    for (const std::string& full : {name, may_lack + name}) {
      const auto ours = renamed(full, rules, &NameRule::theirs, &NameRule::ours);
      if (ours) out.unreadable.emplace(*ours, why);
    }
  }
  return out;
}

LoadedTensors WeightNames::in_taper_layout(const LoadedTensors& file, size_t& transposed) const {
  LoadedTensors out(file.path);
  out.unreadable = file.unreadable;
  for (const NamedTensor& t : file) {
    const NameRule* rule = rule_for(t.name, *this);
    const bool is_ignored = rule && rule->ours == nullptr;
    if (is_ignored) continue;
    const bool is_transposed = rule && rule->transposed && t.tensor.dim() == 2;
    out.push_back({t.name, is_transposed ? transpose(t.tensor, 0, 1) : t.tensor});
    transposed += is_transposed ? 1 : 0;
  }
  return out;
}

bool has_layout_of_gpt2(const std::vector<NamedTensor>& state) {
  return std::ranges::any_of(state, [](const NamedTensor& t) {
    if (!t.name.ends_with("attn.c_attn.weight") || t.tensor.numel() == 0) return false;
    // Divides, because three times a size of a file could overflow.
    const Shape& shape = t.tensor.shape();
    return shape.size() == 2 && shape[1] % 3 == 0 && shape[1] / 3 == shape[0];
  });
}

std::vector<NamedTensor> WeightNames::from_taper(const std::vector<NamedTensor>& state) const {
  std::vector<NamedTensor> out;
  for (const NamedTensor& t : state) {
    require<ValueError>(add(out, t, t.name, rules, &NameRule::ours, &NameRule::theirs), "tensor ",
                        detail::in_quotes(t.name), " has no name in ", of);
  }
  return out;
}

}  // namespace taper::v0
