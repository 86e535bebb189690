// The columns of a table as inputs of a graph (https://onnx.ai/onnx/operators/, opset 17, and
// ai.onnx.ml, opset 3).
#include <algorithm>
#include <set>
#include <utility>

#include "framework/factory/factories.h"
#include "modules/onnx/onnx_graph.h"

namespace taper::v0::onnx_export {
namespace {

using std::string;
using Strings = std::vector<string>;
using Kind = OnnxColumn::Kind;

constexpr int64_t kDateNumbers = 6;
constexpr double kSecondsOfDay = 86400, kSecondsOfHour = 3600;

int64_t scaled_features(const OnnxColumn& column) {
  return column.kind == Kind::kDate ? kDateNumbers : 1;
}
int64_t features_of(const OnnxColumn& column) {
  return column.kind == Kind::kWord ? 1 : scaled_features(column) + column.has_gap_feature;
}

// Throws ValueError for columns that do not describe the graph's input.
void check_columns(const Graph& graph, const std::vector<OnnxColumn>& columns) {
  require<ValueError>(graph.inputs.size() == 1 && graph.inputs[0].sizes.size() == 2 &&
                          graph.inputs[0].dtype == kFloat32,
                      "export_onnx: with columns, the module takes one float32 input of shape "
                      "[batch, features]");
  std::set<string> names;
  int64_t features = 0;
  for (const OnnxColumn& column : columns) {
    require<ValueError>(!column.name.empty() && names.insert(column.name).second,
                        "export_onnx: every column needs a name of its own, got '", column.name,
                        "'");
    const auto scaled = size_t(scaled_features(column));
    require<ValueError>(
        column.kind == Kind::kWord || (column.mean.size() == scaled && column.std.size() == scaled),
        "export_onnx: column '", column.name, "' needs ", scaled,
        " means and standard deviations, got ", column.mean.size(), " and ", column.std.size());
    features += features_of(column);
  }
  require<ValueError>(graph.inputs[0].sizes[1] == concat_to_string(features),
                      "export_onnx: the columns give ", features,
                      " features, but the module's input has ", graph.inputs[0].sizes[1]);
}

// Writes the features of columns as nodes that precede the nodes of the graph.
class ColumnWriter {
 public:
  // All names of new values begin with the prefix.
  ColumnWriter(Graph& graph, string prefix) : graph_(graph), prefix_(std::move(prefix)) {}

  // Returns the names of float32 values [batch, n].
  Strings features(const OnnxColumn& column) {
    if (column.kind == Kind::kWord) return {index_of(column)};
    const string is_missing = missing(column);
    const string known = add("Where", {is_missing, number(column.fill), column.name});
    const string values =
        column.kind == Kind::kDate ? joined(date_numbers(known, column.first_date)) : known;
    const string centered = add("Sub", {values, numbers(column.mean)});
    Strings out = {to_float(add("Div", {centered, numbers(column.std)}))};
    if (column.has_gap_feature) out.push_back(to_float(is_missing));
    return out;
  }
  string joined(const Strings& values) {
    return values.size() == 1 ? values[0] : add("Concat", values, {{"axis", int64_t(1)}});
  }
  string add(const char* op, const Strings& inputs, const Attributes& attributes = {},
             const char* domain = "") {
    const string name = concat_to_string(prefix_, op, "_", ++count_);
    nodes_.push_back({op, name, inputs, {name}, attributes, domain});
    return name;
  }
  std::vector<GraphNode> nodes() && { return std::move(nodes_); }

 private:
  string constant(const Tensor& x) {
    const string name = concat_to_string(prefix_, "constant_", ++count_);
    graph_.initializers.push_back({name, x});
    return name;
  }
  string number(double x) { return constant(full({}, x, {.dtype = kFloat64})); }
  string numbers(const std::vector<double>& x) {
    return constant(tensor_of(x.data(), {std::ssize(x)}));
  }
  string to_float(const string& x) {
    return add("Cast", {x}, {{"to", int64_t(onnx_type(kFloat32))}});
  }

  string index_of(const OnnxColumn& column) {
    Strings words;
    std::vector<float> indices;
    for (const auto& [word, index] : column.words) {
      words.push_back(word);
      indices.push_back(float(index));
    }
    if (words.empty()) {  // ONNX needs at least one key
      words.emplace_back();
      indices.push_back(0);
    }
    return add("LabelEncoder", {column.name},
               {{"keys_strings", words}, {"values_floats", indices}, {"default_float", 0.0f}},
               kMlDomain);
  }

  string missing(const OnnxColumn& column) {
    string out = add("IsNaN", {column.name});
    for (const double value : column.missing) {
      out = add("Or", {out, add("Equal", {column.name, number(value)})});
    }
    return out;
  }

  // All values are integers in float64, so that the quotients are exact before they are rounded.
  string plus(const string& x, double y) { return add("Add", {x, number(y)}); }
  string times(const string& x, double y) { return add("Mul", {x, number(y)}); }
  string minus(const string& x, const string& y) { return add("Sub", {x, y}); }
  string over(const string& x, double y) { return add("Div", {x, number(y)}); }
  string floor_over(const string& x, double y) { return add("Floor", {over(x, y)}); }
  string rest(const string& x, double y) { return minus(x, times(floor_over(x, y), y)); }

  // Returns year, month, day, weekday, hour and days since `first`. The calendar is that of
  // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days: years begin in
  // March, and a period ("era") has 400 years.
  Strings date_numbers(const string& seconds, double first) {
    const string whole = add("Floor", {seconds});
    const string day = floor_over(whole, kSecondsOfDay);
    constexpr double kFromMarchOfYear0 = 719468, kDaysOfEra = 146097;
    const string all_days = plus(day, kFromMarchOfYear0);
    const string era = floor_over(all_days, kDaysOfEra);
    const string day_of_era = minus(all_days, times(era, kDaysOfEra));
    const string without_leap_days =
        minus(add("Add",
                  {minus(day_of_era, floor_over(day_of_era, 1460)), floor_over(day_of_era, 36524)}),
              floor_over(day_of_era, kDaysOfEra - 1));
    const string year_of_era = floor_over(without_leap_days, 365);
    const string days_before =
        minus(add("Add", {times(year_of_era, 365), floor_over(year_of_era, 4)}),
              floor_over(year_of_era, 100));
    const string day_of_year = minus(day_of_era, days_before);
    // Five months from March, as five from August, have 153 days.
    const string month_from_march = floor_over(plus(times(day_of_year, 5), 2), 153);
    const string days_before_month = floor_over(plus(times(month_from_march, 153), 2), 5);
    const string month_day = plus(minus(day_of_year, days_before_month), 1);
    const string month = plus(rest(plus(month_from_march, 2), 12), 1);
    const string is_next_year = floor_over(month_from_march, 10);  // January and February
    const string year = add("Add", {add("Add", {times(era, 400), year_of_era}), is_next_year});
    constexpr double kThursday = 3;  // 1970-01-01
    return {year,
            month,
            month_day,
            rest(plus(day, kThursday), 7),
            floor_over(rest(whole, kSecondsOfDay), kSecondsOfHour),
            over(plus(seconds, -first), kSecondsOfDay)};
  }

  Graph& graph_;
  const string prefix_;
  std::vector<GraphNode> nodes_;
  int64_t count_ = 0;
};

// Renames a value in all nodes that write or read it.
void rename_value(Graph& graph, const string& from, const string& to) {
  const auto rename = [&](Strings& names) { std::ranges::replace(names, from, to); };
  for (GraphNode& node : graph.nodes) {
    rename(node.inputs);
    rename(node.outputs);
  }
  for (NamedTensor& x : graph.initializers) x.name = x.name == from ? to : x.name;
  for (GraphValue& input : graph.inputs) input.name = input.name == from ? to : input.name;
  for (GraphValue& output : graph.outputs) output.name = output.name == from ? to : output.name;
}

std::set<string> value_names(const Graph& graph) {
  std::set<string> out;
  for (const GraphNode& node : graph.nodes) out.insert(node.outputs.begin(), node.outputs.end());
  for (const NamedTensor& x : graph.initializers) out.insert(x.name);
  for (const GraphValue& input : graph.inputs) out.insert(input.name);
  return out;
}

// Returns a prefix that neither a value nor a column begins with.
string free_prefix(const Graph& graph, const std::vector<OnnxColumn>& columns) {
  std::set<string> names = value_names(graph);
  for (const OnnxColumn& column : columns) names.insert(column.name);
  string prefix = "columns/";
  const auto is_prefix_of = [&](const string& name) { return name.starts_with(prefix); };
  while (std::ranges::any_of(names, is_prefix_of)) prefix.insert(prefix.size() - 1, "_");
  return prefix;
}

// Gives the values of the graph names that no column has.
void clear_names(Graph& graph, const std::vector<OnnxColumn>& columns) {
  std::set<string> taken = value_names(graph);
  const std::set<string> values = taken;
  for (const OnnxColumn& column : columns) taken.insert(column.name);
  for (const OnnxColumn& column : columns) {
    if (!values.contains(column.name)) continue;
    string name = column.name;
    while (taken.contains(name)) name += '_';
    taken.insert(name);
    rename_value(graph, column.name, name);
  }
}

}  // namespace

void prepend_columns(Graph& graph, const std::vector<OnnxColumn>& columns) {
  check_columns(graph, columns);
  clear_names(graph, columns);
  ColumnWriter writer(graph, free_prefix(graph, columns));
  Strings features;
  for (const OnnxColumn& column : columns) {
    const Strings own = writer.features(column);
    features.insert(features.end(), own.begin(), own.end());
  }
  const string input = graph.inputs[0].name, batch = graph.inputs[0].sizes[0];
  std::vector<GraphNode> nodes = std::move(writer).nodes();
  nodes.push_back({"Concat", input, features, {input}, {{"axis", int64_t(1)}}});
  graph.nodes.insert(graph.nodes.begin(), nodes.begin(), nodes.end());
  graph.inputs.clear();
  for (const OnnxColumn& column : columns) {
    graph.inputs.push_back({column.name, kFloat64, {batch, "1"}, column.kind == Kind::kWord});
  }
}

}  // namespace taper::v0::onnx_export
