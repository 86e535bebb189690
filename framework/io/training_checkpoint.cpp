#include "framework/io/training_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>

#include "framework/io/safetensors.h"
#include "framework/io/text_utils.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0 {
namespace {

using State = TrainingCheckpoint::State;

// Keys of the file's metadata: the version of the format, and each entry with its number of
// tensors.
constexpr const char* kFormatKey = "taper_training_checkpoint";
constexpr const char* kVersion = "1";
constexpr const char* kEntryPrefix = "entry.";

template <class T> State number_state(T number, DType dtype) {
  const Tensor out = Tensor::make({}, dtype, Device());
  *static_cast<T*>(out.data_ptr()) = number;
  return {{"", out}};
}

// Returns the entry's only tensor. Throws ValueError if it is not a number of that dtype.
const Tensor& number_in(const State& state, DType dtype) {
  const bool is_number = state.size() == 1 && state[0].name.empty() && state[0].tensor.dim() == 0 &&
                         state[0].tensor.dtype() == dtype;
  require<ValueError>(is_number, "expected a number of dtype ", dtype, ", the file has ",
                      state.size() == 1
                          ? concat_to_string("a tensor of shape ", state[0].tensor.shape(),
                                             " and dtype ", state[0].tensor.dtype())
                          : concat_to_string(state.size(), " tensors"));
  return state[0].tensor;
}

// Returns a copy in host memory, which later writes to the tensors do not change.
State copied(State state) {
  for (NamedTensor& t : state) {
    const Tensor copy = Tensor::make(t.tensor.shape(), t.tensor.dtype(), Device());
    kernels::copy_into(copy, t.tensor);
    t.tensor = copy;
  }
  return state;
}

// Returns the state with the tensors in the order of `model`, which the file does not keep, so that
// a class may read its state by position. Tensors that `model` does not have follow at the end.
State in_order_of(const State& model, State state) {
  std::map<std::string_view, size_t> places;
  for (const NamedTensor& t : model) places.emplace(t.name, places.size());
  const auto place_of = [&](const NamedTensor& t) {
    const auto found = places.find(t.name);
    return found == places.end() ? places.size() : found->second;
  };
  std::ranges::stable_sort(state, {}, place_of);
  return state;
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    out += concat_to_string(out.empty() ? "" : ", ", detail::in_quotes(name));
  }
  return out.empty() ? "none" : out;
}

std::vector<std::string> entries_in(const SafeTensors& file) {
  std::vector<std::string> out;
  for (const auto& [key, value] : file.metadata) {
    if (key.starts_with(kEntryPrefix)) {
      out.push_back(key.substr(std::string_view(kEntryPrefix).size()));
    }
  }
  return out;
}

void check_format(const SafeTensors& file, const std::string& path) {
  const auto version = file.metadata.find(kFormatKey);
  require<InputError>(version != file.metadata.end(), path,
                      ": is a safetensors file, but not one of TrainingCheckpoint::save(). "
                      "load_safetensors() reads its tensors");
  require<InputError>(version->second == kVersion, path, ": has version ", version->second,
                      " of the format of training checkpoints, and this version of Taper reads "
                      "version ",
                      kVersion);
  if (!file.tensors.unreadable.empty()) {
    throw InputError(file.tensors.unreadable.begin()->second);
  }
}

// Moves the tensors of an entry out of `tensors`, and removes the entry from their names.
State take_entry(LoadedTensors& tensors, const std::string& entry) {
  State out;
  for (NamedTensor& t : tensors) {
    if (!is_below(t.name, entry)) continue;
    out.push_back({t.name == entry ? "" : t.name.substr(entry.size() + 1), t.tensor});
  }
  std::erase_if(tensors, [&](const NamedTensor& t) { return is_below(t.name, entry); });
  return out;
}

}  // namespace

void TrainingCheckpoint::Entry::refer_to(Tensor& tensor) {
  save_ = [&tensor]() -> State { return {{"", tensor}}; };
  load_ = [&tensor](const State& state) {
    require<ValueError>(tensor.defined(), "the tensor is undefined: create it before load()");
    require<ValueError>(state.size() == 1 && state[0].name.empty(),
                        "expected one tensor, the file has ", state.size(), " below this name");
    require<ValueError>(state[0].tensor.shape() == tensor.shape(), "expected a tensor of shape ",
                        tensor.shape(), ", the file has one of shape ", state[0].tensor.shape());
    kernels::copy_into(tensor, state[0].tensor);
    tensor.storage()->version.fetch_add(1);
  };
}

State TrainingCheckpoint::Entry::state_of(int64_t number) { return number_state(number, kInt64); }
State TrainingCheckpoint::Entry::state_of(double number) { return number_state(number, kFloat64); }
int64_t TrainingCheckpoint::Entry::integer_in(const State& state) {
  return *static_cast<const int64_t*>(number_in(state, kInt64).data_ptr());
}
double TrainingCheckpoint::Entry::real_in(const State& state) {
  return *static_cast<const double*>(number_in(state, kFloat64).data_ptr());
}

TrainingCheckpoint::TrainingCheckpoint(std::initializer_list<Entry> entries) : entries_(entries) {
  std::set<std::string> names;
  for (const Entry& entry : entries_) {
    const std::string& name = entry.name_;
    require<ValueError>(!name.empty(),
                        "TrainingCheckpoint: the name of an entry must not be empty");
    require<ValueError>(name.find('.') == name.npos,
                        "TrainingCheckpoint: the name of an entry must not contain a dot (got '",
                        name, "')");
    require<ValueError>(names.insert(name).second, "TrainingCheckpoint: two entries are named '",
                        name, "'");
  }
}

void TrainingCheckpoint::save(const std::string& path) const {
  State tensors;
  std::map<std::string, std::string> metadata{{kFormatKey, kVersion}};
  for (const Entry& entry : entries_) {
    const State state = entry.save_();
    metadata[kEntryPrefix + entry.name_] = concat_to_string(state.size());
    for (const NamedTensor& t : state) {
      tensors.push_back({t.name.empty() ? entry.name_ : entry.name_ + "." + t.name, t.tensor});
    }
  }
  save_safetensors(path, tensors, metadata);
}

void TrainingCheckpoint::load(const std::string& path) const { load_all(read(path), path); }

bool TrainingCheckpoint::load_if_exists(const std::string& path) const {
  if (!std::filesystem::exists(path)) return false;
  load(path);
  return true;
}

std::vector<State> TrainingCheckpoint::read(const std::string& path) const {
  SafeTensors file = load_safetensors(path);
  check_format(file, path);
  std::vector<std::string> missing, extra = entries_in(file);
  for (const Entry& entry : entries_) {
    if (std::erase(extra, entry.name_) == 0) missing.push_back(entry.name_);
  }
  require<InputError>(
      missing.empty() && extra.empty(), path,
      ": does not have the entries of this TrainingCheckpoint. Missing in the file: ",
      listed(missing), ". Only in the file: ", listed(extra),
      ". Nothing was loaded. Give the entries that were saved, or read one of them "
      "with load_safetensors(path, {.prefix = \"ENTRY.\"})");
  std::vector<State> states;
  for (const Entry& entry : entries_) {
    states.push_back(take_entry(file.tensors, entry.name_));
    const std::string& count = file.metadata[kEntryPrefix + entry.name_];
    require<InputError>(count == concat_to_string(states.back().size()), path, ": entry '",
                        entry.name_, "' has ", states.back().size(), " tensors, but ", count,
                        " were saved; the file was modified");
  }
  return states;
}

void TrainingCheckpoint::load_all(const std::vector<State>& states, const std::string& path) const {
  std::vector<State> before;
  for (const Entry& entry : entries_) before.push_back(copied(entry.save_()));
  size_t i = 0;
  // In reverse order, so that a schedule gives its rates back before its optimizer does.
  const auto undo = [&] {
    for (size_t k = i; k-- > 0;) entries_[k].load_(before[k]);
  };
  try {
    for (; i < entries_.size(); ++i) entries_[i].load_(in_order_of(before[i], states[i]));
  } catch (Error& error) {
    undo();
    error.add_prefix(concat_to_string(path, ": entry '", entries_[i].name_, "': "));
    error.add_note("Nothing was loaded.");
    throw;
  } catch (...) {
    undo();
    throw;
  }
}

}  // namespace taper::v0
