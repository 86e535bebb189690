// `taper inspect`.
#include <algorithm>
#include <cstdio>
#include <map>

#include <nlohmann/json.hpp>

#include "apps/runner/commands/commands.h"
#include "apps/runner/run/log_sink.h"
#include "apps/runner/settings/data_path.h"
#include "apps/runner/settings/run_config.h"
#include "data/tables/table_encoding.h"
#include "framework/base/log.h"

namespace taper::v0::runner {
namespace {

// Returns the kind of each column but the targets, by name.
nlohmann::json kinds_of(const data::TableEncoding& encoding) {
  using data::ColumnKind;
  nlohmann::json out = nlohmann::json::object();
  for (const std::string& name : encoding.column_names) out[name] = "ignore";
  for (const std::string& name : encoding.keep) out[name] = "keep";
  if (!encoding.weight.empty()) out[encoding.weight] = "weight";
  const std::map<ColumnKind, const char*> kinds = {{ColumnKind::kNumber, "number"},
                                                   {ColumnKind::kCategory, "category"},
                                                   {ColumnKind::kDate, "date"},
                                                   {ColumnKind::kText, "text"}};
  for (const data::FeatureColumn& f : encoding.features) out[f.name] = kinds.at(f.kind);
  for (const data::TargetColumn& target : encoding.targets) out.erase(target.name);
  return out;
}

// Returns how many texts of each class there are in all parts, and their shares.
std::string class_shares(const data::Splits& found) {
  std::vector<int64_t> counts(found.class_names.size());
  int64_t all = 0;
  for (const auto& part : {found.train, found.validation, found.test}) {
    const auto* rows = dynamic_cast<const data::TensorDataset*>(part.get());
    if (rows == nullptr) continue;
    for (const int64_t label : rows->all().targets.span<int64_t>()) ++counts[size_t(label)];
    all += rows->size();
  }
  std::string out = "classes:";
  for (size_t i = 0; i < counts.size(); ++i) {
    char share[16];
    std::snprintf(share, sizeof share, "%.1f", 100 * double(counts[i]) / double(all));
    out += concat_to_string(i == 0 ? " " : ", ", found.class_names[i], " ", counts[i], " (", share,
                            " %)");
  }
  return out;
}

// Returns the settings that keep what was found: the kinds of a table's columns, or the number of
// tokens of texts.
std::string found_settings(const data::Splits& found) {
  if (found.tokenizer) return concat_to_string("data.length=", found.input_shape[0]);
  return concat_to_string("data.columns=", kinds_of(*found.columns).dump());
}

}  // namespace

std::string inspect_data(const std::string& file, const std::vector<std::string>& overrides) {
  const RunConfig config = load_config(file, overrides);
  const data::Outline found = with_status(concat_to_string("reading ", file), [&] {
    return source_of(config.data)->outline(config.seed);
  });
  require<ConfigError>(
      found.columns != nullptr, file,
      ": only tables can be inspected, and texts with a class or value each; `taper train ", file,
      " --validate` describes other data");
  log_info(found.report);
  const bool has_classes = found.task == data::Task::kClassification && found.labels.empty();
  if (found.tokenizer && has_classes) log_info(class_shares(found));
  std::vector<std::string> all = overrides;
  all.push_back(found_settings(found));
  return concat_to_string(
      "# Written by `taper inspect`. Values that are left out have their "
      "defaults.\n",
      to_short_yaml(load_config(file, all)));
}

Command inspect_command() {
  struct Inspect {
    std::string file, target, text;
    std::vector<std::string> overrides;
    void describe(Schema& v) {
      v("file", file, "table, folder of texts, or YAML file with one of them as its data")
          .required();
      v("overrides", overrides, "settings as for `taper train`, such as read.skip=1");
      v("--target", target, "column to predict: its name or index; -1 is the last column");
      v("--text", text, "column of texts, for a model of texts");
    }
    int operator()() const {
      std::vector<std::string> all = overrides;
      // Without "data.", a file of any name is data.
      const char* const section = has_config_name(file) ? "data." : "";
      if (!target.empty()) all.push_back(concat_to_string(section, "target=", yaml_text(target)));
      if (!text.empty()) all.push_back(concat_to_string(section, "text=", yaml_text(text)));
      return print(inspect_data(file, all));
    }
  };
  return command_of<Inspect>(
      "inspect", "Describe a table or texts, and print a config with what was found",
      "taper inspect titanic.csv --target survived > titanic.yaml\n"
      "taper inspect wine.csv --target -1 read.skip=1 > wine.yaml\n"
      "taper inspect reviews.csv --text review --target kind > reviews.yaml");
}

}  // namespace taper::v0::runner
