#include "apps/runner/train/state.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "apps/runner/run/json.h"
#include "apps/runner/run/text.h"

namespace taper::runner {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Best& b) {
  return {{"value", b.value ? Json(*b.value) : Json()}, {"step", b.step}, {"misses", b.misses}};
}

int64_t count(const Json& in, const char* key, int64_t least = 0, int64_t most = INT64_MAX) {
  const Json& x = in.at(key);
  const bool fits = x.is_number_integer() && (!x.is_number_unsigned() || x <= INT64_MAX);
  if (fits && x >= least && x <= most) return x.get<int64_t>();
  throw InputError(cat(kState, ": expected '", key, "' from ", least, " to ", most, ", got ",
                       shown(x.dump(), 40)));
}

Best best_of(const Json& json) {
  Best best{{}, count(json, "step"), count(json, "misses")};
  if (!json.at("value").is_null()) best.value = json.at("value").get<double>();
  return best;
}

// JSON writes nan and infinity as null.
double number_of(const Json& json) { return json.is_null() ? NAN : json.get<double>(); }

}  // namespace

std::string to_json(const RunState& s) {
  Json metrics = Json::object();
  for (const auto& [name, x] : s.metrics.values) metrics[name] = x;
  return Json{{"step", s.step},
              {"epoch", s.at.epoch},
              {"batch", s.at.batch},
              {"random", {s.random.seed, s.random.stream}},
              {"metrics_bytes", s.metrics_bytes},
              {"metrics_crc32", s.metrics_crc.value_or(0)},
              {"best", json_of(s.best)},
              {"early_stopping", json_of(s.stopping)},
              {"metrics", metrics},
              {"confusion", s.metrics.confusion},
              {"lr_scale", s.lr_scale},
              {"rollbacks", s.rollbacks},
              {"skipped", s.skipped},
              {"reason", s.reason},
              {"extra", s.is_extra}}
             .dump(2) +
         "\n";
}

RunState state_from_json(const std::string& text, int64_t batches_per_epoch) try {
  const auto json = json_value<Json>(text, kState);
  RunState s;
  s.step = count(json, "step");
  s.at = {count(json, "epoch", 1), count(json, "batch", 0, batches_per_epoch)};
  s.random = {json.at("random").at(0), json.at("random").at(1)};
  s.metrics_bytes = uint64_t(count(json, "metrics_bytes"));
  if (json.contains("metrics_crc32")) {  // not of an older version
    s.metrics_crc = uint32_t(count(json, "metrics_crc32", 0, UINT32_MAX));
  }
  s.best = best_of(json.at("best"));
  s.stopping = best_of(json.at("early_stopping"));
  for (const auto& [name, x] : json.at("metrics").items()) {
    s.metrics.values.push_back({name, number_of(x)});
  }
  json.at("confusion").get_to(s.metrics.confusion);
  json.at("lr_scale").get_to(s.lr_scale);
  s.rollbacks = count(json, "rollbacks");
  s.skipped = count(json, "skipped");
  json.at("reason").get_to(s.reason);
  s.is_extra = json.value("extra", false);
  return s;
} catch (const Json::exception&) {
  throw InputError(cat(kState, " is not of this version"));
}

}  // namespace taper::runner
