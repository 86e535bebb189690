// `taper inspect`.
#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "apps/runner/commands/commands.h"
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

}  // namespace

std::string inspect_data(const std::string& file, const std::vector<std::string>& overrides) {
  const RunConfig config = load_config(file, overrides);
  const data::Outline found = source_of(config.data)->outline(config.seed);
  require<ConfigError>(found.columns && !found.tokenizer, file,
                       ": only tables can be inspected; `taper train ", file,
                       " --validate` describes other data");
  log_info(found.report);
  std::vector<std::string> all = overrides;
  all.push_back(concat_to_string("data.columns=", kinds_of(*found.columns).dump()));
  return concat_to_string(
      "# Written by `taper inspect`. Values that are left out have their "
      "defaults.\n",
      to_short_yaml(load_config(file, all)));
}

Command inspect_command() {
  struct Inspect {
    std::string file, target;
    std::vector<std::string> overrides;
    void describe(Schema& v) {
      v("file", file, "table, or YAML file with a table as its data").required();
      v("overrides", overrides, "settings as for `taper train`, such as read.skip=1");
      v("--target", target, "column to predict: its name or index; -1 is the last column");
    }
    int operator()() const {
      std::vector<std::string> all = overrides;
      if (!target.empty()) all.push_back(concat_to_string("data.target=", yaml_text(target)));
      return print(inspect_data(file, all));
    }
  };
  return command_of<Inspect>(
      "inspect", "Describe the columns of a table, and print a config with what was found",
      "taper inspect titanic.csv --target survived > titanic.yaml\n"
      "taper inspect wine.csv --target -1 read.skip=1 > wine.yaml");
}

}  // namespace taper::v0::runner
