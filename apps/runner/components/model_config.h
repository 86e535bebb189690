// The model of a config: its type, the file from which its weights start, the parameters that are
// frozen (docs/pretrained.md), and the devices of its parts (docs/placement.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/components/tables.h"

namespace taper::v0::runner {

// An epoch as config maps contain it: "3".
bool is_epoch(const std::string& text);
// A learning rate above 0 as config maps contain it: "1e-2".
bool is_rate(const std::string& text);
// Returns whether the text names a device: "cpu", "cuda", "cpu:1", "cuda:1".
bool is_device_name(const std::string& text);

struct ModelConfig : Component {
  std::optional<std::string> init{};
  std::map<std::string, std::string> map{};  // patterns of the file's names and their new names
  std::vector<std::string> freeze{};         // patterns of parameters
  std::map<std::string, std::string> unfreeze{};   // patterns of frozen parameters, and epochs
  std::map<std::string, std::string> placement{};  // patterns of modules, and devices

  // Replaces the type and the options of the model, and keeps the members above.
  ModelConfig& operator=(const Component& model) {
    Component::operator=(model);
    return *this;
  }

  template <class V> void describe(V& v) {
    v("init", init, kPath,
      "file of weights (.pt, .pth or .safetensors) from which the training starts");
    v("map", map, "new names for the names in the init file, by pattern; empty: leave out")
        .of_form("a name, in which `*` is what `*` of the pattern matches",
                 [](const std::string&) { return true; });
    v("freeze", freeze, "patterns of parameters that are not trained, such as \"layer1.*\"");
    v("unfreeze", unfreeze, "patterns of frozen parameters, and the epochs that train them again")
        .of_form("the number of an epoch, at least 1", is_epoch);
    v("placement", placement,
      "devices of parts of the model, such as {transformer.h.6-11: cuda:1}; the rest is on "
      "`device`")
        .of_form(
            concat_to_string("cpu, cuda, cpu:N or cuda:N with N from 0 to ", Device::kMaxIndex),
            is_device_name);
  }
};

// Builds the model like build_model(const Component&) and freezes the parameters that no epoch
// trains. Throws ConfigError for a pattern that does not fit the model, and if nothing is left to
// train. Does not read `init`.
std::unique_ptr<Module> build_model(const ModelConfig& config, const DataInfo& data, Device device);

// Loads config.init, if it is given, and logs what was loaded and what was not. A relative path is
// resolved against `base` if the file exists there. Throws ConfigError, with the position of
// the model in the config, if the file or `map` does not fit the model, and InputError for a file
// that cannot be read.
void load_init(Module& model, const ModelConfig& config, const std::filesystem::path& base);
std::filesystem::path init_file(const ModelConfig& config, const std::filesystem::path& base);

// The parameters of a model that are frozen until some epoch.
class Thawing {
 public:
  // `model` comes from build_model() above and must outlive the object.
  Thawing(Module& model, const ModelConfig& config);

  // Freezes and unfreezes parameters so that they are as epoch `epoch`, counted from 1, needs them.
  // Returns whether it changed any.
  bool go_to(int64_t epoch);
  // Returns the patterns that begin to be trained in that epoch, joined by commas; usually "".
  std::string thawed_in(int64_t epoch) const;

 private:
  struct Part {
    std::string pattern;
    std::vector<std::string> names;  // of the parameters
    int64_t epoch;
    bool is_frozen = false;
  };
  Module& model_;
  std::vector<Part> parts_;
};

// Returns one line about the frozen parameters of the model as it is now; "" if there are none.
std::string frozen_text(Module& model);

}  // namespace taper::v0::runner
