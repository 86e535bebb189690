#include "apps/runner/components/model_config.h"

#include <algorithm>
#include <set>
#include <system_error>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/components/components.h"
#include "framework/base/log.h"
#include "framework/base/name_pattern.h"
#include "framework/io/pt.h"
#include "modules/models/gpt.h"
#include "modules/models/pretrained.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

// Calls f. Converts a ValueError into a ConfigError about the key of the model.
template <class F> auto about_key(const ModelConfig& config, const char* key, F f) try {
  return f();
} catch (const ValueError& error) {
  throw ConfigError(located(config.place, concat_to_string("model.", key, ": ", error.what())));
}

int64_t epoch_of(const std::string& text) {
  int64_t epoch = 0;
  (void)parse_number(text, epoch);
  return epoch;
}

std::vector<std::string> patterns_of(const std::map<std::string, std::string>& map) {
  std::vector<std::string> out;
  for (const auto& [pattern, value] : map) out.push_back(pattern);
  return out;
}

// Returns the names of the parameters for which `pattern` is the longest match in `unfreeze`.
std::vector<std::string> names_thawed_by(const std::string& pattern, const ModelConfig& config,
                                         const std::vector<std::string>& frozen) {
  const std::vector<std::string> patterns = patterns_of(config.unfreeze);
  std::vector<std::string> out;
  for (const std::string& name : frozen) {
    const auto match = longest_match(patterns, name);
    if (match && patterns[*match] == pattern) out.push_back(name);
  }
  return out;
}

std::vector<std::string> frozen_names(const Module& model, const ModelConfig& config) {
  std::vector<std::string> out;
  for (const NamedTensor& p : model.named_parameters()) {
    if (longest_match(config.freeze, p.name)) out.push_back(p.name);
  }
  return out;
}

// Throws ConfigError if a pattern of `unfreeze` names no frozen parameter, or if no epoch trains
// anything. Returns the names of the parameters that stay frozen.
std::vector<std::string> checked_frozen(Module& model, const ModelConfig& config) {
  const std::vector<std::string> frozen = frozen_names(model, config);
  std::vector<std::string> forever = frozen;
  for (const auto& [pattern, epoch] : config.unfreeze) {
    const std::vector<std::string> names = names_thawed_by(pattern, config, frozen);
    require<ConfigError>(
        !names.empty(),
        located(config.place, concat_to_string("model.unfreeze: the pattern \"", pattern,
                                               "\" names no parameter that is frozen and that no "
                                               "longer pattern names; frozen are ",
                                               names_by_module(frozen, frozen))));
    std::erase_if(forever, [&](const std::string& n) { return std::ranges::count(names, n) > 0; });
  }
  const bool trains_at_first = frozen.size() < model.named_parameters().size() ||
                               std::ranges::any_of(config.unfreeze, [](const auto& entry) {
                                 return epoch_of(entry.second) <= 1;
                               });
  require<ConfigError>(trains_at_first,
                       located(config.place,
                               "model.freeze: the first epoch would train nothing, because all "
                               "parameters are frozen; leave out the last layer"));
  return forever;
}

}  // namespace

bool is_epoch(const std::string& text) {
  int64_t epoch = 0;
  return parse_number(text, epoch) == std::errc() && epoch >= 1 && epoch <= 1'000'000'000;
}

bool is_device_name(const std::string& text) try {
  return !to_string(Device(text)).empty();
} catch (const Error&) {
  return false;
}

bool is_rate(const std::string& text) {
  double rate = 0;
  return parse_number(text, rate) == std::errc() && rate > 0 && rate < 1e9;
}

std::unique_ptr<Module> build_model(const ModelConfig& config, const DataInfo& data,
                                    Device device) {
  std::unique_ptr<Module> model = build_model(static_cast<const Component&>(config), data, device);
  if (config.freeze.empty()) return model;
  about_key(config, "freeze", [&] {
    // Checks the patterns, including those that an epoch reverts.
    (void)freeze(*model, config.freeze);
    const std::vector<std::string> forever = checked_frozen(*model, config);
    (void)unfreeze(*model, config.freeze);
    if (!forever.empty()) (void)freeze(*model, forever);
  });
  return model;
}

fs::path init_file(const ModelConfig& config, const fs::path& base) {
  const fs::path path = config.init.value_or("");
  std::error_code none;
  return !base.empty() && fs::exists(base / path, none) ? (base / path).lexically_normal() : path;
}

void load_init(Module& model, const ModelConfig& config, const fs::path& base) {
  if (!config.init) return;
  const fs::path file = init_file(config, base);
  std::error_code none;
  require<InputError>(
      fs::is_regular_file(file, none),
      located(config.place, concat_to_string("model.init: there is no file '", file.string(),
                                             "'; expected a file of weights (.pt, .pth or "
                                             ".safetensors)")));
  const LoadedTensors given = failing_as<InputError>("", [&] { return load_weights(file); });
  const PretrainedReport report =
      about_key(config, "map", [&] { return load_pretrained(model, given, {config.map}); });
  log_info(concat_to_string("init: ", file.string(), ": ", report.summary()));
  const auto* gpt = config.get_if<GPTOptions>();
  const bool has_other_formula = gpt != nullptr && gpt->gelu == GeluApproximate::kNone;
  if (has_other_formula && !report.layout.empty()) {
    warn("model.gelu is none, but the weights of GPT-2 were trained with `gelu: tanh`");
  }
}

Thawing::Thawing(Module& model, const ModelConfig& config) : model_(model) {
  const std::vector<std::string> frozen = frozen_names(model, config);
  for (const auto& [pattern, epoch] : config.unfreeze) {
    parts_.push_back({pattern, names_thawed_by(pattern, config, frozen), epoch_of(epoch)});
  }
}

bool Thawing::go_to(int64_t epoch) {
  bool changed = false;
  for (Part& part : parts_) {
    const bool is_frozen = epoch < part.epoch;
    if (std::exchange(part.is_frozen, is_frozen) == is_frozen) continue;
    (void)(is_frozen ? freeze(model_, part.names) : unfreeze(model_, part.names));
    changed = true;
  }
  return changed;
}

std::string Thawing::thawed_in(int64_t epoch) const {
  std::vector<std::string> patterns;
  for (const Part& part : parts_) {
    if (part.epoch == epoch && epoch > 1) patterns.push_back(part.pattern);
  }
  return joined(patterns);
}

std::string frozen_text(Module& model) {
  std::vector<std::string> all, frozen;
  int64_t elements = 0;
  for (const auto& [name, param] : model.named_parameters()) {
    all.push_back(name);
    if (param.requires_grad()) continue;
    frozen.push_back(name);
    elements += param.numel();
  }
  if (frozen.empty()) return "";
  return concat_to_string("frozen: ", names_by_module(frozen, all), " (", frozen.size(), " of ",
                          all.size(), " parameters, ", elements, " of ", model.num_parameters(),
                          " elements)");
}

}  // namespace taper::v0::runner
