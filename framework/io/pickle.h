// Reads Python's pickles (https://docs.python.org/3/library/pickletools.html) without executing
// anything. A call that Python would make becomes a value that names the callable and its
// arguments. PickleWriter writes pickles.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/base/error.h"

namespace taper::v0 {

struct PickleValue {
  enum class ValueKind : uint8_t {
    kNone,
    kBoolean,
    kInteger,
    kLongInteger,  // more than 64 bits; text: little-endian two's complement bytes
    kReal,
    kText,  // str or bytes
    kTuple,
    kList,        // also a set
    kDict,        // also an OrderedDict; items: key, value, key, ...
    kGlobal,      // text: "module.name"
    kCall,        // items: the callable (a global or a call), then the tuple of arguments
    kPersistent,  // items: the id, whose meaning the surrounding file defines
    kMark         // internal to the parser
  };
  ValueKind kind = ValueKind::kNone;
  size_t at = 0;        // position of the opcode that created it
  int64_t integer = 0;  // also the value of a boolean
  double real = 0;
  std::string_view text = {};
  std::vector<PickleValue*> items = {};

  bool is(ValueKind k) const { return kind == k; }
  // Returns whether the value is a call of that global.
  bool calls(std::string_view global) const {
    return is(ValueKind::kCall) && items[0]->text == global;
  }
};

// The parsed value of a pickle of protocol 2 to 5. It refers to `bytes`, which must outlive it. If
// `alone` is false, other data may follow the pickle in `bytes`. Containers may contain themselves.
// `name` is used in messages.
//
// Calls of collections.OrderedDict and of the set types become containers. Other calls remain
// calls. Items and attributes that are added to their results are ignored. Throws InputError with
// the byte for an unknown opcode and for a truncated or inconsistent pickle.
class Pickle {
 public:
  Pickle(std::string_view bytes, std::string name, bool alone = true);
  const PickleValue& root() const { return *root_; }
  size_t size() const { return next_; }
  // Returns the values of one kind in the order of their creation.
  std::vector<const PickleValue*> all(PickleValue::ValueKind kind) const;
  // Returns "NAME: at byte AT: WHAT", where AT is the position of an opcode.
  std::string message(size_t at, const std::string& what) const;
  // Throws InputError with the message of message(at, what).
  [[noreturn]] void refuse(size_t at, const std::string& what) const;
  template <class... Text> void check(bool fits, size_t at, const Text&... what) const {
    if (!fits) refuse(at, concat_to_string(what...));
  }

 private:
  using ValueKind = PickleValue::ValueKind;
  void run(bool alone);
  void step(uint8_t opcode);
  void push(ValueKind kind);
  void push_integer(int64_t value, ValueKind kind = ValueKind::kInteger);
  void push_text(std::string_view text, ValueKind kind = ValueKind::kText);
  void push_items(ValueKind kind, std::vector<PickleValue*> items);
  void push_tuple(size_t size);
  void push_global(std::string_view module, std::string_view name);
  PickleValue* pop();
  PickleValue* pop(ValueKind kind, const char* expected);
  // Pops the values above the last mark, and the mark.
  std::vector<PickleValue*> pop_to_mark();
  void add_items(ValueKind kind, const std::vector<PickleValue*>& items);
  void call();
  void build();
  std::string_view take(uint64_t nbytes);
  std::string_view take_line();
  uint64_t take_number(size_t nbytes);
  void push_long(uint64_t nbytes);
  void recall(uint64_t key);
  void memoize(uint64_t key);

  const std::string_view bytes_;
  const std::string name_;
  size_t next_ = 0, at_ = 0;  // the next byte, and the opcode that is being executed
  std::deque<PickleValue> values_;
  std::deque<std::string> names_;
  std::vector<PickleValue*> stack_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
  const PickleValue* root_ = nullptr;
};

// Writes a dict in opcodes of protocol 2. The constructor begins the dict; op("u.") must end it. No
// memo is used, because names are short compared with the tensors. Numbers are little-endian.
class PickleWriter {
 public:
  PickleWriter& op(std::string_view opcodes) {
    text_ += opcodes;
    return *this;
  }
  PickleWriter& text(std::string_view value) {
    return op("X").raw(uint32_t(value.size())).op(value);
  }
  PickleWriter& integer(int64_t value) { return op("\x8a").raw(uint8_t(sizeof value)).raw(value); }
  PickleWriter& global(std::string_view module, std::string_view name) {
    return op("c").op(module).op("\n").op(name).op("\n");
  }
  PickleWriter& tuple(std::span<const int64_t> values) {
    op("(");
    for (const int64_t n : values) integer(n);
    return op("t");
  }
  const std::string& bytes() const { return text_; }

 private:
  template <class T> PickleWriter& raw(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  std::string text_ = std::string("\x80\x02}(", 4);
};

}  // namespace taper::v0
