#include "apps/runner/base/errors.h"

#include <typeinfo>

#include "autograd/anomaly.h"

namespace taper::v0::runner {

// Returns the dynamic type's name without Taper's inline namespace.
static std::string type_of(const std::exception& error) {
  std::string name = demangled(typeid(error).name());
  if (const size_t at = name.find("taper::v0::"); at != name.npos) name.erase(at + 7, 4);
  return name;
}

bool is_refusal(const std::exception& error) {
  const std::type_info& type = typeid(error);
  return type == typeid(Error) || type == typeid(ValueError) || type == typeid(TypeError) ||
         type == typeid(IndexError) || type == typeid(NotImplementedError);
}

std::string foreign_message(const std::exception& error, const std::string& part) {
  return concat_to_string("an exception of type ", type_of(error), " from the ", part,
                          ", which is not part of Taper: ", error.what());
}

std::string message_of(const std::exception& error) {
  if (exit_code_of(error) != kExitBug || is_any<RunError, AcceleratorError>(error)) {
    return error.what();
  }
  if (is_refusal(error)) return concat_to_string("a bug in Taper: ", error.what());
  return concat_to_string(
      "a bug in Taper or in the program that uses it: an unexpected exception of type ",
      type_of(error), ": ", error.what());
}

}  // namespace taper::v0::runner
