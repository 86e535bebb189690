#include "framework/io/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "framework/io/text_utils.h"

namespace taper::v0 {
namespace {

using ValueKind = PickleValue::ValueKind;

constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr std::string_view kSets[] = {"__builtin__.set", "builtins.set", "__builtin__.frozenset",
                                      "builtins.frozenset"};

bool is_set(std::string_view global) { return std::ranges::count(kSets, global) > 0; }

}  // namespace

Pickle::Pickle(std::string_view bytes, std::string name, bool alone)
    : bytes_(bytes), name_(std::move(name)) {
  run(alone);
}

std::vector<const PickleValue*> Pickle::all(ValueKind kind) const {
  std::vector<const PickleValue*> out;
  for (const PickleValue& value : values_) {
    if (value.is(kind)) out.push_back(&value);
  }
  return out;
}

std::string Pickle::message(size_t at, const std::string& what) const {
  return concat_to_string(name_, ": at byte ", at, ": ", what);
}

void Pickle::refuse(size_t at, const std::string& what) const {
  throw InputError(message(at, what));
}

// --- bytes ---

std::string_view Pickle::take(uint64_t nbytes) {
  check(nbytes <= bytes_.size() - next_, at_, "expected ", nbytes, " bytes more, got ",
        bytes_.size() - next_, " (is the file truncated?)");
  const std::string_view out = bytes_.substr(next_, nbytes);
  next_ += nbytes;
  return out;
}

std::string_view Pickle::take_line() {
  const size_t end = bytes_.find('\n', next_);
  if (end == bytes_.npos) refuse(at_, "a name has no end (is the file truncated?)");
  const std::string_view line = take(end - next_);
  ++next_;
  return line;
}

uint64_t Pickle::take_number(size_t nbytes) {
  uint64_t value = 0;
  std::memcpy(&value, take(nbytes).data(), nbytes);
  return value;
}

// --- the stack ---

void Pickle::push(ValueKind kind) {
  stack_.push_back(&values_.emplace_back(PickleValue{.kind = kind, .at = at_}));
}

void Pickle::push_integer(int64_t value, ValueKind kind) {
  push(kind);
  stack_.back()->integer = value;
}

// Reads a little-endian two's complement number. Bytes beyond the eight of an int64_t may only
// repeat the sign.
void Pickle::push_long(uint64_t nbytes) {
  const std::string_view bytes = take(nbytes);
  uint64_t value = !bytes.empty() && bytes.back() < 0 ? ~uint64_t(0) : 0;
  const char fill = char(value);
  const std::string_view beyond = bytes.substr(std::min(bytes.size(), sizeof value));
  std::memcpy(&value, bytes.data(), bytes.size() - beyond.size());
  const bool fits = std::ranges::all_of(beyond, [&](char c) { return c == fill; }) &&
                    (beyond.empty() || (int64_t(value) < 0) == (fill != 0));
  fits ? push_integer(int64_t(value)) : push_text(bytes, ValueKind::kLongInteger);
}

void Pickle::push_text(std::string_view text, ValueKind kind) {
  push(kind);
  stack_.back()->text = text;
}

void Pickle::push_items(ValueKind kind, std::vector<PickleValue*> items) {
  push(kind);
  stack_.back()->items = std::move(items);
}

void Pickle::push_tuple(size_t size) {
  std::vector<PickleValue*> items(size);
  while (size > 0) items[--size] = pop();
  push_items(ValueKind::kTuple, std::move(items));
}

void Pickle::push_global(std::string_view module, std::string_view name) {
  push_text(names_.emplace_back(concat_to_string(module, ".", name)), ValueKind::kGlobal);
}

PickleValue* Pickle::pop() {
  if (stack_.empty() || stack_.back()->is(ValueKind::kMark))
    refuse(at_, "it takes what is not there");
  PickleValue* top = stack_.back();
  stack_.pop_back();
  return top;
}

PickleValue* Pickle::pop(ValueKind kind, const char* expected) {
  PickleValue* top = pop();
  if (!top->is(kind)) refuse(at_, concat_to_string("expected ", expected, ", got another value"));
  return top;
}

std::vector<PickleValue*> Pickle::pop_to_mark() {
  auto first = stack_.end();
  while (first != stack_.begin() && !first[-1]->is(ValueKind::kMark)) --first;
  if (first == stack_.begin()) refuse(at_, "it takes what is above a mark that is not there");
  std::vector<PickleValue*> items(first, stack_.end());
  stack_.erase(first - 1, stack_.end());
  return items;
}

void Pickle::add_items(ValueKind kind, const std::vector<PickleValue*>& items) {
  PickleValue* to = pop();
  check(to->is(kind) || to->is(ValueKind::kCall), at_, "expected ",
        kind == ValueKind::kDict ? "a dict" : "a list", ", got another value");
  if (kind == ValueKind::kDict && items.size() % 2 != 0) refuse(at_, "a key without a value");
  if (to->is(kind)) to->items.insert(to->items.end(), items.begin(), items.end());
  stack_.push_back(to);
}

void Pickle::recall(uint64_t key) {
  const auto found = memo_.find(key);
  if (found == memo_.end())
    refuse(at_, concat_to_string("it names value ", key, ", which it has not kept"));
  stack_.push_back(found->second);
}

void Pickle::memoize(uint64_t key) {
  PickleValue* top = pop();
  stack_.push_back(top);
  memo_[key] = top;
}

// --- opcodes ---

// Pushes the result of Python's call: a container for the container types, otherwise a value that
// names the call.
void Pickle::call() {
  PickleValue* arguments = pop(ValueKind::kTuple, "a tuple of arguments");
  PickleValue* callable = pop();
  check(callable->is(ValueKind::kGlobal) || callable->is(ValueKind::kCall), at_,
        "expected a callable, got another value");
  const auto& items = arguments->items;
  if (callable->text == kOrderedDict && items.empty()) return push(ValueKind::kDict);
  if (is_set(callable->text) && items.size() == 1 && items[0]->is(ValueKind::kList)) {
    return stack_.push_back(items[0]);
  }
  push_items(ValueKind::kCall, {callable, arguments});
}

// Drops attributes that are set on a container or on a call's result, because tensors need none of
// them.
void Pickle::build() {
  (void)pop();
  PickleValue* object = pop();
  check(object->is(ValueKind::kDict) || object->is(ValueKind::kCall), at_,
        "it gives attributes to a value that has none");
  stack_.push_back(object);
}

void Pickle::step(uint8_t opcode) {
  switch (opcode) {
    case 0x80: {  // PROTO
      const uint64_t protocol = take_number(1);
      if (protocol < 2 || protocol > 5)
        refuse(at_, concat_to_string("protocol ", protocol, ", not 2 to 5"));
      return;
    }
    case 0x95: return (void)take_number(8);  // FRAME
    case 'N': return push(ValueKind::kNone);
    case 0x88: return push_integer(1, ValueKind::kBoolean);
    case 0x89: return push_integer(0, ValueKind::kBoolean);
    case 'J': return push_integer(int32_t(take_number(4)));
    case 'K': return push_integer(int64_t(take_number(1)));
    case 'M': return push_integer(int64_t(take_number(2)));
    case 0x8a: return push_long(take_number(1));
    case 0x8b: return push_long(take_number(4));
    case 'G':  // big-endian
      push(ValueKind::kReal);
      stack_.back()->real = std::bit_cast<double>(__builtin_bswap64(take_number(8)));
      return;
    case 0x8c:
    case 'U':
    case 'C': return push_text(take(take_number(1)));
    case 'X':
    case 'T':
    case 'B': return push_text(take(take_number(4)));
    case 0x8d:
    case 0x8e:
    case 0x96: return push_text(take(take_number(8)));
    case '(': return push(ValueKind::kMark);
    case ')': return push(ValueKind::kTuple);
    case 't': return push_items(ValueKind::kTuple, pop_to_mark());
    case 0x85: return push_tuple(1);
    case 0x86: return push_tuple(2);
    case 0x87: return push_tuple(3);
    case ']':
    case 0x8f: return push(ValueKind::kList);
    case 'a': return add_items(ValueKind::kList, {pop()});
    case 0x91: return push_items(ValueKind::kList, pop_to_mark());
    case 'e':
    case 0x90: return add_items(ValueKind::kList, pop_to_mark());
    case '}': return push(ValueKind::kDict);
    case 's': {
      PickleValue* value = pop();
      PickleValue* key = pop();
      return add_items(ValueKind::kDict, {key, value});
    }
    case 'u': return add_items(ValueKind::kDict, pop_to_mark());
    case 'q': return memoize(take_number(1));
    case 'r': return memoize(take_number(4));
    case 0x94: return memoize(memo_.size());
    case 'h': return recall(take_number(1));
    case 'j': return recall(take_number(4));
    case 'c': {
      const std::string_view module = take_line();
      return push_global(module, take_line());
    }
    case 0x93: {
      const PickleValue* name = pop(ValueKind::kText, "a name");
      const PickleValue* module = pop(ValueKind::kText, "a module's name");
      return push_global(module->text, name->text);
    }
    case 'R':
    case 0x81: return call();  // NEWOBJ
    case 0x92:                 // NEWOBJ_EX
      (void)pop(ValueKind::kDict, "a dict of arguments");
      return call();
    case 'b': return build();
    case 'Q': return push_items(ValueKind::kPersistent, {pop()});
    case '0': return (void)pop();
  }
  refuse(at_, concat_to_string("opcode ", int(opcode),
                               " is no part of a file of tensors and containers"));
}

void Pickle::run(bool alone) {
  while (true) {
    at_ = next_;
    const uint8_t opcode = uint8_t(take(1)[0]);
    if (opcode != '.') {
      step(opcode);
      continue;
    }
    root_ = pop();
    if (alone && next_ != bytes_.size()) refuse(next_, "bytes follow the end");
    return;
  }
}

}  // namespace taper::v0
