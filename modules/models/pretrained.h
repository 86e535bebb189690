// Weights of an earlier training as the start of another one, and parameters that stay as they are
// (docs/pretrained.md).
//
//   ResNet net = resnet18({.num_classes = 5});
//   std::cout << load_pretrained(net, load_weights("resnet18.pth")).summary() << "\n";
//   freeze(net, {"conv1", "bn1", "layer1"});
//   optim::AdamW optimizer(trainable_parameters(net), {.lr = 1e-4}, {{"fc.*", {{"lr", 1e-2}}}});
//
// Patterns are those of framework/base/name_pattern.h: "layer1" and "layer1.*" name everything
// below layer1, and "*.bias" names all biases.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/io/loaded_tensors.h"
#include "modules/module.h"

namespace taper::v0 {

// What load_pretrained() did.
struct PretrainedReport {
  // A tensor that the model and the file have in different shapes or kinds of dtype.
  struct Misfit {
    std::string name;
    Shape own, given;
    DType own_dtype, given_dtype;
  };

  std::vector<std::string> loaded;  // tensors of the model that have the file's values now
  std::vector<Misfit> misfits;
  // Tensors of the model that kept their values, because they or other tensors of the same layer
  // are among the misfits.
  std::vector<std::string> kept;
  std::vector<std::string> missing;     // other tensors of the model that the file does not have
  std::vector<std::string> unexpected;  // tensors that only the file has
  // The prefix of the file's names that was removed because the model's names do not have it, such
  // as "module."; or "".
  std::string prefix;
  // The library whose layout the file has, if that is not Taper's; or "". `transposed` is the
  // number of matrices that were transposed.
  std::string layout;
  size_t transposed = 0;
  // The embeddings of positions of which only the first ones were loaded, because the model has
  // fewer positions than the file. At most one.
  std::vector<Misfit> shortened;
  size_t in_model = 0;  // number of tensors of the model

  // Returns a sentence on one line for each of the parts that are not empty. A module all of whose
  // tensors are in a part is named in place of them. Long lists are cut.
  std::string summary() const;

  std::vector<std::string> own_names, given_names;  // all, after the names were changed
};

// Options of load_pretrained(): {.rename = {{"backbone.*", "*"}}}.
struct PretrainedOptions {
  // Patterns for the file's names, and the names that replace what they match (see
  // rename_matched()). The longest matching pattern applies. An empty name leaves the tensors out.
  std::map<std::string, std::string> rename = {};
};

// Copies the values of the tensors whose names and shapes are the model's, across devices and
// dtypes. A layer is loaded as a whole: if one of its tensors has another shape, the whole layer
// keeps its values, as the head of a model for another number of classes does. If no name matches,
// but does without a prefix that names of the file share ("module.", "model."), that prefix is
// removed.
//
// A file with the weights of GPT-2 in the layout of the library transformers is recognized by the
// shapes of its tensors: its matrices are transposed, the prefix "transformer." may be missing, and
// masks are left out. If a GPT has fewer positions than the file, it gets the first ones.
//
// Throws InputError, with names of both sides, if no tensor can be loaded, and with the reason for
// an unreadable entry that the model needs. Throws ValueError for a pattern without a match. Two
// tensors that get the same name of the model are a ValueError if there are patterns, and otherwise
// an InputError.
// The model is unchanged then.
PretrainedReport load_pretrained(Module& model, const LoadedTensors& file,
                                 const PretrainedOptions& options = {});

// Freezes the parameters that a pattern names: they require no gradient, so an optimizer does not
// change them and has no state for them. A batch norm whose parameters are all frozen uses its
// running statistics also in training mode, and does not change them (RunningNorm::is_frozen).
// Other layers, such as Dropout, keep their modes. Returns the names of the frozen parameters.
// Throws ValueError for a pattern without a match, with the model unchanged.
std::vector<std::string> freeze(Module& model, const std::vector<std::string>& patterns);
// Reverts freeze() for the parameters that a pattern names.
std::vector<std::string> unfreeze(Module& model, const std::vector<std::string>& patterns);

// Returns the parameters that require a gradient, for an optimizer.
std::vector<NamedTensor> trainable_parameters(const Module& model);

// Returns the names, joined by commas, with the path of a module in place of all of its names if
// `names` has all of them that `all` has. Names at most 20, and the number of the others. Long
// names are cut, and control characters are escaped.
std::string names_by_module(const std::vector<std::string>& names,
                            const std::vector<std::string>& all);

}  // namespace taper::v0
