#include "modules/models/pretrained.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "framework/base/name_pattern.h"
#include "framework/io/text_utils.h"
#include "modules/layers/norm_layers.h"
#include "modules/models/names.h"

namespace taper::v0 {
namespace {

using Names = std::vector<std::string>;

// What a message shows of names, which a file may make as many and as long as it likes.
constexpr size_t kMostNames = 20, kMostBytes = 100;
// Deeper names are listed one by one, so that the depth of the recursion is bounded.
constexpr int kDeepest = 100;

std::string shown(const std::string& name) { return detail::escaped_for_display(name, kMostBytes); }

std::string layer_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == name.npos ? "" : name.substr(0, dot);
}

Names names_of_tensors(const std::vector<NamedTensor>& tensors) {
  Names names;
  for (const NamedTensor& t : tensors) names.push_back(t.name);
  return names;
}

// Appends to `out` the path, if all names below it are in `chosen`, or else what describes those
// that are. `all` are the names below the path, and `depth` is the number of its parts.
void add_paths(const Names& all, const std::set<std::string>& chosen, const std::string& path,
               int depth, Names& out) {
  const auto is_chosen = [&](const std::string& name) { return chosen.contains(name); };
  if (std::ranges::none_of(all, is_chosen)) return;
  if (!path.empty() && std::ranges::all_of(all, is_chosen)) return out.push_back(path);
  if (depth == kDeepest) {
    std::ranges::copy_if(all, std::back_inserter(out), is_chosen);
    return;
  }
  const size_t begin = path.empty() ? 0 : path.size() + 1;
  std::vector<std::pair<std::string, Names>> parts;  // in the order of the names
  std::map<std::string, size_t> places;              // in `parts`
  for (const std::string& name : all) {
    const std::string part = name.substr(0, name.find('.', begin));
    const auto [place, is_new] = places.try_emplace(part, parts.size());
    if (is_new) parts.push_back({part, {}});
    parts[place->second].second.push_back(name);
  }
  for (const auto& [part, names] : parts) add_paths(names, chosen, part, depth + 1, out);
}

// Returns a prefix, with its dot, that a name of the file has in addition to a name of the model:
// the one with the most such names. Returns "" if there is none.
std::string common_prefix(const Names& own, const Names& given) {
  std::map<std::string, size_t> counts;
  const std::set<std::string_view> known(own.begin(), own.end());
  for (const std::string& name : given) {
    const std::string_view view = name;
    for (size_t dot = view.find('.'); dot != view.npos; dot = view.find('.', dot + 1)) {
      if (known.contains(view.substr(dot + 1))) ++counts[name.substr(0, dot + 1)];
    }
  }
  const auto best =
      std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  return best == counts.end() ? "" : best->first;
}

// Returns the name after the longest matching pattern was applied. Notes that pattern in `used`.
std::string new_name(const std::string& name, const Names& patterns,
                     const PretrainedOptions& options, std::set<std::string>& used) {
  const auto i = longest_match(patterns, name);
  if (!i) return name;
  const std::string& pattern = patterns[*i];
  const std::string& replacement = options.rename.at(pattern);
  used.insert(pattern);
  return replacement.empty() ? "" : *rename_matched(pattern, replacement, name);
}

// Returns the names of the file after renaming; empty for those that are left out. Throws
// ValueError for a pattern that matches no name.
Names new_names(const Names& given, const PretrainedOptions& options) {
  Names patterns, out;
  for (const auto& [pattern, replacement] : options.rename) patterns.push_back(pattern);
  std::set<std::string> used;
  for (const std::string& name : given) out.push_back(new_name(name, patterns, options, used));
  for (const std::string& pattern : patterns) {
    if (used.contains(pattern)) continue;
    throw ValueError("no name in the file that a longer pattern does not match too matches \"",
                     pattern, "\"; the file has ", names_by_module(given, given));
  }
  return out;
}

bool any_known(const std::set<std::string>& known, const Names& given) {
  return std::ranges::any_of(given, [&](const std::string& n) { return known.contains(n); });
}

// The readable tensors of a file by their new names, and why the others cannot be read.
struct Given {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> unreadable;
  std::string prefix;
};

// Adds a prefix, which the file may lack, to names that are the model's with it.
void add_missing_prefix(const Names& own, const std::string& prefix, Names& names) {
  const std::set<std::string> known(own.begin(), own.end());
  for (std::string& name : names) {
    if (!known.contains(name) && known.contains(prefix + name)) name.insert(0, prefix);
  }
}

Given given_of(const Names& own, const LoadedTensors& file, const PretrainedOptions& options,
               const WeightNames* layout) {
  Names all = names_of_tensors(file);
  for (const auto& [name, why] : file.unreadable) all.push_back(name);
  Names names = new_names(all, options);
  if (layout != nullptr) add_missing_prefix(own, layout->may_lack, names);
  Given out;
  const std::set<std::string> known(own.begin(), own.end());
  if (!any_known(known, names)) out.prefix = common_prefix(own, names);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    const bool has_prefix = !out.prefix.empty() && names[i].starts_with(out.prefix);
    const std::string name = has_prefix ? names[i].substr(out.prefix.size()) : names[i];
    if (i >= file.size()) {
      out.unreadable[name] = file.unreadable.at(all[i]);
      continue;
    }
    const bool is_new = out.tensors.emplace(name, file[i].tensor).second;
    if (is_new || !known.contains(name)) continue;
    const std::string why =
        concat_to_string(file.path, ": two tensors get the name \"", shown(name),
                         "\", one of them \"", shown(all[i]), "\"");
    if (options.rename.empty()) throw InputError(why);
    throw ValueError(why);
  }
  return out;
}

bool fits(const Tensor& own, const Tensor& given) {
  return own.shape() == given.shape() && own.is_floating_point() == given.is_floating_point();
}

// The memory of a tensor, which is the same under all names of a tied tensor.
using Memory = std::pair<const void*, int64_t>;
Memory memory_of(const Tensor& x) { return {x.storage().get(), x.storage_offset()}; }

// Fills the report and returns the tensors to load.
std::vector<NamedTensor> compare(const std::vector<NamedTensor>& own, const Given& given,
                                 PretrainedReport& report) {
  std::set<std::string> misfitting;  // layers
  std::set<Memory> found;
  for (const auto& [name, tensor] : own) {
    const auto value = given.tensors.find(name);
    if (value == given.tensors.end()) continue;
    found.insert(memory_of(tensor));
    if (fits(tensor, value->second)) continue;
    misfitting.insert(layer_of(name));
    report.misfits.push_back(
        {name, tensor.shape(), value->second.shape(), tensor.dtype(), value->second.dtype()});
  }
  std::vector<NamedTensor> out;
  for (const auto& [name, tensor] : own) {
    if (misfitting.contains(layer_of(name))) {
      report.kept.push_back(name);
    } else if (const auto value = given.tensors.find(name); value != given.tensors.end()) {
      out.push_back({name, value->second});
      report.loaded.push_back(name);
    } else if (!found.contains(memory_of(tensor)) && !name.ends_with("num_batches_tracked")) {
      // Files from before PyTorch 0.4.1 have no counters of batches.
      report.missing.push_back(name);
    }
  }
  return out;
}

// Cuts the embeddings of positions in the file to the number of those of a GPT that has fewer.
void shorten_positions(const std::vector<NamedTensor>& own, Given& given,
                       PretrainedReport& report) {
  constexpr const char* kPositions = "transformer.wpe.weight";
  const auto value = given.tensors.find(kPositions);
  const auto mine = std::ranges::find(own, kPositions, &NamedTensor::name);
  if (value == given.tensors.end() || mine == own.end()) return;
  Tensor& theirs = value->second;
  const bool fits = theirs.dim() == 2 && theirs.size(1) == mine->tensor.size(1);
  if (!fits || theirs.size(0) <= mine->tensor.size(0)) return;
  report.shortened.push_back(
      {kPositions, mine->tensor.shape(), theirs.shape(), mine->tensor.dtype(), theirs.dtype()});
  theirs = theirs.narrow(0, 0, mine->tensor.size(0));
}

void require_loaded(const PretrainedReport& report, const LoadedTensors& file) {
  if (!report.loaded.empty()) return;
  std::string why = "no name in the file is one of the model's";
  if (!report.misfits.empty()) {
    const PretrainedReport::Misfit& m = report.misfits[0];
    why = concat_to_string(report.misfits.size(), " names match, but no shape does: ", m.name,
                           " is ", m.given, " in the file and ", m.own, " in the model");
  }
  throw InputError(file.path, ": nothing could be loaded into the model: ", why, ". The file has ",
                   names_by_module(report.given_names, {}), "; the model has ",
                   names_by_module(report.own_names, {}));
}

// Throws ValueError for a pattern that matches no parameter.
void require_matches(const Module& model, const Names& patterns) {
  const Names names = names_of_tensors(model.named_parameters());
  for (const std::string& pattern : patterns) {
    const auto matches = [&](const std::string& name) { return matches_name(pattern, name); };
    require<ValueError>(std::ranges::any_of(names, matches), "no parameter matches the pattern \"",
                        pattern, "\"; the model has ", names_by_module(names, names));
  }
}

Names set_frozen(Module& model, const Names& patterns, bool is_frozen) {
  require_matches(model, patterns);
  Names names;
  std::set<std::string> layers;
  for (const auto& [name, param] : model.named_parameters()) {
    if (!longest_match(patterns, name)) continue;
    param.requires_grad_(!is_frozen);
    if (!is_frozen) param.set_grad({});
    names.push_back(name);
    layers.insert(layer_of(name));
  }
  for (const auto& [path, module] : model.named_modules()) {
    auto* norm = dynamic_cast<BatchNormBase*>(module);
    const bool is_named = layers.contains(path) || longest_match(patterns, path);
    if (norm == nullptr || !is_named) continue;
    const std::vector<Tensor> own = norm->parameters();
    const bool all_frozen =
        own.empty() ? is_frozen
                    : std::ranges::none_of(own, [](const Tensor& p) { return p.requires_grad(); });
    norm->is_frozen = all_frozen;
  }
  return names;
}

}  // namespace

std::string names_by_module(const Names& names, const Names& all) {
  Names paths;
  if (all.empty()) {
    paths = names;
  } else {
    add_paths(all, {names.begin(), names.end()}, "", 0, paths);
  }
  std::string out;
  for (size_t i = 0; i < std::min(paths.size(), kMostNames); ++i) {
    out += concat_to_string(out.empty() ? "" : ", ", shown(paths[i]));
  }
  if (paths.size() > kMostNames) {
    out += concat_to_string(" and ", paths.size() - kMostNames, " more");
  }
  return out;
}

std::string PretrainedReport::summary() const {
  std::string out =
      concat_to_string(loaded.size(), " of the model's ", in_model, " tensors loaded");
  if (!prefix.empty()) {
    out += concat_to_string("; the file's names begin with \"", shown(prefix),
                            "\", which was removed");
  }
  if (!layout.empty()) {
    out += concat_to_string("\nthe file has the layout of ", layout, ": ", transposed,
                            " matrices were transposed");
  }
  for (const Misfit& m : shortened) {
    out += concat_to_string("\n", m.name, " has ", m.given[0], " positions in the file, of which ",
                            "the first ", m.own[0], " are used");
  }
  if (!kept.empty()) {
    out += concat_to_string("\nnew weights for ", names_by_module(kept, own_names), ": ");
    for (size_t i = 0; i < std::min(misfits.size(), kMostNames); ++i) {
      const Misfit& m = misfits[i];
      const bool differs = m.own != m.given;
      out += concat_to_string(i == 0 ? "" : ", ", m.name, " is ");
      out += differs ? concat_to_string(m.given, " in the file and ", m.own, " in the model")
                     : concat_to_string(m.given_dtype, " in the file and ", m.own_dtype,
                                        " in the model");
    }
    if (misfits.size() > kMostNames) out += " and others";
  }
  if (!missing.empty()) {
    out += concat_to_string("\nnot in the file, so new weights: ",
                            names_by_module(missing, own_names));
  }
  if (!unexpected.empty()) {
    out += concat_to_string("\nnot in the model, so unused: ",
                            names_by_module(unexpected, given_names));
  }
  return out;
}

PretrainedReport load_pretrained(Module& model, const LoadedTensors& as_stored,
                                 const PretrainedOptions& options) {
  const std::vector<NamedTensor> own = model.state_dict();
  PretrainedReport report;
  report.own_names = names_of_tensors(own);
  report.in_model = own.size();
  const WeightNames* layout = has_layout_of_gpt2(as_stored) ? &kHuggingFaceGpt2 : nullptr;
  if (layout != nullptr) report.layout = layout->of;
  const LoadedTensors file =
      layout ? layout->in_taper_layout(as_stored, report.transposed) : as_stored;
  Given given = given_of(report.own_names, file, options, layout);
  shorten_positions(own, given, report);
  report.prefix = given.prefix;
  for (const auto& [name, tensor] : given.tensors) report.given_names.push_back(name);
  for (const auto& [name, why] : given.unreadable) {
    require<InputError>(!std::ranges::count(report.own_names, name), why);
    report.given_names.push_back(name);
  }
  const std::set<std::string> known(report.own_names.begin(), report.own_names.end());
  for (const std::string& name : report.given_names) {
    if (!known.contains(name)) report.unexpected.push_back(name);
  }
  const std::vector<NamedTensor> state = compare(own, given, report);
  require_loaded(report, file);
  (void)model.load_state_dict(state, {.strict = false});
  return report;
}

Names freeze(Module& model, const Names& patterns) { return set_frozen(model, patterns, true); }
Names unfreeze(Module& model, const Names& patterns) { return set_frozen(model, patterns, false); }

std::vector<NamedTensor> trainable_parameters(const Module& model) {
  std::vector<NamedTensor> out = model.named_parameters();
  std::erase_if(out, [](const NamedTensor& p) { return !p.tensor.requires_grad(); });
  return out;
}

}  // namespace taper::v0
