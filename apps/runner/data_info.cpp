// DataInfo as JSON.
#include <nlohmann/json.hpp>

#include "apps/runner/dataset.h"
#include "apps/runner/errors.h"

namespace taper::runner {

using nlohmann::json;

// The second name of each is the one that reads as the first when a text is none of them.
NLOHMANN_JSON_SERIALIZE_ENUM(Task, {{Task::kClassification, "classification"},
                                    {Task::kRegression, "regression"},
                                    {Task::kLanguage, "language"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Standardizer, fill, mean, std)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CsvOptions, label, header, delimiter, task, missing, categories)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CsvRecipe, options, has_header, feature_names, categories,
                                   label_name, label_column, columns, width, classes, scale)

Shape DataInfo::output_shape() const {
  return task == Task::kLanguage ? Shape{input_shape[0], outputs} : Shape{outputs};
}

std::string to_json(const DataInfo& info) try {
  json out = {
      {"task", info.task},
      {"input_shape", std::vector<int64_t>(info.input_shape.begin(), info.input_shape.end())},
      {"outputs", info.outputs},
      {"class_names", info.class_names},
      {"target_mean", info.target_mean},
      {"target_std", info.target_std},
      {"lines", info.lines}};
  if (info.table) out["table"] = *info.table;
  if (info.tokenizer) out["tokenizer"] = json::parse(info.tokenizer->to_json());
  return out.dump();
} catch (const json::type_error&) {
  throw InputError("the data have a name or category that is not UTF-8");
}

DataInfo data_info_from_json(const std::string& text) try {
  const json in = json::parse(text);
  DataInfo out;
  in.at("task").get_to(out.task);
  const auto shape = in.at("input_shape").get<std::vector<int64_t>>();
  out.input_shape = Shape(shape.begin(), shape.end());
  in.at("outputs").get_to(out.outputs);
  in.at("class_names").get_to(out.class_names);
  in.at("target_mean").get_to(out.target_mean);
  in.at("target_std").get_to(out.target_std);
  in.at("lines").get_to(out.lines);
  if (in.contains("table")) out.table = in["table"].get<CsvRecipe>();
  if (in.contains("tokenizer")) {
    out.tokenizer = std::make_shared<const Tokenizer>(Tokenizer::from_json(in["tokenizer"].dump()));
  }
  return out;
} catch (const json::exception& error) {
  throw ValueError(cat("this is no data.json of Taper's: ", error.what()));
}

}  // namespace taper::runner
