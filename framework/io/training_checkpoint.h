// One file with the whole state of a training loop, from which the loop continues with the same
// bits.
//
//   int64_t step = 0;
//   TrainingCheckpoint checkpoint{{"net", net}, {"opt", optimizer}, {"schedule", schedule},
//                                 {"rng", default_generator()}, {"loader", loader}, {"step",
//                                 step}};
//   checkpoint.load_if_exists("run.ckpt");
//   for (; step < 1000; ++step) {
//     if (step % 100 == 0) checkpoint.save("run.ckpt");
//     ...
//   }
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "framework/tensor/tensor.h"

namespace taper::v0 {

// An object whose state is a list of tensors: modules, optimizers, schedules, GradScaler, EMA,
// DataLoader, Generator, and classes of your own.
template <class T>
concept HasState = requires(T& object, const std::vector<NamedTensor>& state) {
  { object.state_dict() } -> std::convertible_to<std::vector<NamedTensor>>;
  object.load_state_dict(state);
};

// Refers to the objects, which must outlive it and must not be moved meanwhile. An entry is a name
// and a variable: an object that HasState, a tensor, a number or a bool.
class TrainingCheckpoint {
 public:
  using State = std::vector<NamedTensor>;

  class Entry {
   public:
    template <class T> Entry(std::string name, T&& object) : name_(std::move(name)) {
      using Object = std::remove_reference_t<T>;
      constexpr bool is_variable = std::is_lvalue_reference_v<T> && !std::is_const_v<Object>;
      constexpr bool is_number = std::is_arithmetic_v<Object>;
      constexpr bool fits = is_number || std::same_as<Object, Tensor> || HasState<Object>;
      static_assert(is_variable,
                    "an entry of a TrainingCheckpoint refers to a variable that is not const, "
                    "because load() writes to it");
      static_assert(fits,
                    "an entry of a TrainingCheckpoint is a number, a Tensor, or an object with "
                    "state_dict() and load_state_dict(); of a Child or a pointer, give the object: "
                    "*child");
      if constexpr (is_variable && fits) refer_to(object);
    }

   private:
    friend class TrainingCheckpoint;
    template <HasState T> void refer_to(T& object) {
      save_ = [&object]() -> State { return object.state_dict(); };
      load_ = [&object](const State& state) { (void)object.load_state_dict(state); };
    }
    template <std::integral T> void refer_to(T& number) {
      save_ = [&number] { return state_of(int64_t(number)); };
      load_ = [&number](const State& state) { number = T(integer_in(state)); };
    }
    template <std::floating_point T> void refer_to(T& number) {
      save_ = [&number] { return state_of(double(number)); };
      load_ = [&number](const State& state) { number = T(real_in(state)); };
    }
    void refer_to(Tensor& tensor);
    static State state_of(int64_t number);
    static State state_of(double number);
    static int64_t integer_in(const State& state);
    static double real_in(const State& state);

    std::string name_;
    std::function<State()> save_;
    std::function<void(const State&)> load_;
  };

  // Throws ValueError for a name that is empty, contains a dot or is given twice.
  TrainingCheckpoint(std::initializer_list<Entry> entries);

  // Writes a safetensors file with the tensors "ENTRY.NAME", as in "net.fc.weight"; a number or
  // tensor is stored under the entry's own name. The file is replaced atomically and durably: a
  // process that is killed at any time leaves the old file or the new one. Tensors may be on any
  // device. Synchronizes. Throws the errors of save_safetensors().
  void save(const std::string& path) const;

  // Restores all entries, or none: if an entry does not fit, those that were loaded before it get
  // their previous state back, and the exception has the path and the entry's name in front of its
  // message. Needs host memory for a copy of the previous state. Synchronizes.
  //
  // An object gets its tensors in the order of its present state_dict(); further ones follow.
  //
  // Throws InputError if the file is missing, was not written by save(), or has other entries than
  // this object; Error if it is damaged or truncated; and what load_state_dict() of an entry
  // throws. load_safetensors(path, {.prefix = "net."}) reads a single entry.
  void load(const std::string& path) const;
  // Calls load() and returns true if there is a file of that name, and returns false otherwise.
  bool load_if_exists(const std::string& path) const;

 private:
  // Returns the states of the entries in the file, in the order of entries_.
  std::vector<State> read(const std::string& path) const;
  void load_all(const std::vector<State>& states, const std::string& path) const;

  std::vector<Entry> entries_;
};

}  // namespace taper::v0
