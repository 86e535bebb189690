#include "apps/runner/evaluation/evaluation_file.h"

#include <nlohmann/json.hpp>

#include "apps/runner/base/files.h"
#include "framework/base/log.h"

namespace taper::v0::runner {

using EvaluationJson = nlohmann::ordered_json;

void write_evaluation(const fs::path& file, const EvaluationPlace& place,
                      const std::string& details, const std::function<std::string()>& predictions) {
  EvaluationJson out = {{"split", place.split}, {"step", place.step}};
  if (!details.empty()) out.update(EvaluationJson::parse(details));
  try {
    out["predictions"] = EvaluationJson::parse(predictions());
  } catch (const std::exception& error) {
    warn(concat_to_string("the report will have no sample predictions: ", error.what()));
  }
  write_file(file, out.dump(-1, ' ', false, EvaluationJson::error_handler_t::replace) + "\n");
}

}  // namespace taper::v0::runner
