// Programs that must not compile, with the sentence that the compiler must print.
//
// How to add a row: append a block below. Its first line is
//   //! Name: sentence
// and its code follows, up to the next such line. `Name` is one CamelCase word that states the
// rule. `sentence` is an extended regular expression (grep -E) that the compiler's first error line
// must contain, under GCC and under clang. The code is compiled alone, at namespace scope, after
// <taper/taper.h>, a few standard headers and `using namespace taper;`. check.sh also limits the
// length of the compiler's whole output.
//
// Run one compiler by hand: tests/compile_errors/check.sh g++ build/include /tmp/compile_errors
//
// This file itself is not compiled.

//! AChildOfADerivedClassWouldSlice: this would slice: name the module's own type
struct Twice : Linear {
  using Linear::Linear;
};
struct Net : Module {
  Child<Linear> layer{*this, "layer", Twice(2, 2)};
};
Net net;

//! AListWouldSlice: this would slice: name the module's own type
struct Twice : Linear {
  using Linear::Linear;
};
void f(ModuleList& list) { list.add<Linear>(Twice(2, 2)); }

//! ADictWouldSlice: this would slice: name the module's own type
struct Twice : Linear {
  using Linear::Linear;
};
void f(ModuleDict& dict) { dict.add<Linear>("key", Twice(2, 2)); }

//! AModuleOfUnknownTypeIsNotMoved: a Module is given away as a std::unique_ptr<Module>
void f(Sequential& net, Module& layer) { net.add(std::move(layer)); }

//! AModuleOfUnknownTypeIsNotCloned: clone\(module\) needs the module's own type
void f(Module& layer) { (void)clone(layer); }

//! AModuleOfUnknownTypeIsNotAssignedTo: protected
void f(Module& to, Module& from) { to = std::move(from); }

//! ACheckpointNeedsState: an entry of a TrainingCheckpoint is a number, a Tensor, or an object with
void f(Child<Linear>& layer) { TrainingCheckpoint{{"layer", layer}}.save("file"); }

//! ACheckpointRefersToVariables: an entry of a TrainingCheckpoint refers to a variable
void f(const Linear& layer) { TrainingCheckpoint{{"layer", layer}}.save("file"); }

//! AFunctionalCallTakesTheInputsOfTheModule: no call of this module takes these inputs
void f(Linear& layer, const Tensor& x) { functional_call(layer, {}, x, "relu", 3); }

//! AnOptimizerIsNotSliced: protected
void f(optim::SGD& sgd) { optim::Optimizer sliced = std::move(sgd); }

//! AnEncoderTakesLayersOfAnEncoder: returns its layer, or one derived from that, by value
TransformerEncoder encoder([] { return Linear(2, 2); }, 2);

//! AChildTakesWhatItsModuleIsMadeOf: no constructor of this Child's module takes these arguments
struct Net : Module {
  Child<Linear> layer{*this, "layer", "four"};
};
Net net;

//! AChildNeedsItsOwner: the first argument of a Child is its owner
struct Net : Module {
  Child<Linear> layer{"layer", 3, 4};
};
Net net;

//! AChildWithOptionsNeedsItsOwner: the first argument of a Child is its owner
struct Net : Module {
  Child<Conv2d> layer{"layer", 1, 8, 3, {.padding = 1}};
};
Net net;

//! AChildNeedsItsName: a Child has a name
struct Net : Module {
  Child<Linear> layer{*this, 3, 4};
};
Net net;

//! AParameterNeedsItsModule: the first argument is the module
struct Net : Module {
  Parameter weight{"weight", ones({2})};
};
Net net;

//! ABufferNeedsItsModule: the first argument is the module
struct Net : Module {
  Buffer mean{"mean", ones({2})};
};
Net net;

//! AChildRefusesAMisspeltOption: (are no options of|no matching|could not convert)
struct Net : Module {
  Child<Linear> layer{*this, "layer", 3, 4, {.bais = false}};
};

//! AChildRefusesAMisspeltOptionAmongOthers: (no options of|no matching|could not convert)
struct Net : Module {
  Child<Conv2d> layer{*this, "layer", 1, 8, 3, {.stride = 2, .pading = 1, .bias = false}};
};

//! OptionsHaveTheOrderOfTheirDeclaration: (designator order|in declaration order)
struct Net : Module {
  Child<Conv2d> layer{*this, "layer", 1, 8, 3, {.padding = 1, .stride = 2}};
};

//! OptionsOfFunctionsHaveTheOrderOfTheirDeclaration: (designator order|in declaration order)
Tensor y(const Tensor& x, const Tensor& w) { return conv2d(x, w, {}, {.padding = 1, .stride = 2}); }

//! AFunctionRefusesAMisspeltOption: (InterpolateOptions|no matching function)
Tensor y(const Tensor& x) { return interpolate(x, {.scale = 2}); }

//! ListsOfTensorsAreNotPrinted: a list of tensors is not printed
void print(const Module& net) { std::cout << net.parameters(); }

//! AChildTakesTheCallsOfItsModule: no call of this Child's module takes these arguments
void f(Child<Linear>& layer, const Tensor& x) { layer(x, "relu", 3); }

//! AModuleTakesTheArgumentsOfItsForward: forward\(\) of this module does not take these arguments
struct Net : ModuleOf<Net> {
  using Module::forward;
  Tensor forward(const Tensor& x, const Tensor& mask) { return x * mask; }
};
Tensor y(Net& net, const Tensor& x) { return net(x, "causal", 3); }

//! AReferenceOfForwardNeedsAVariable: forward\(\) of this module does not take these arguments
struct Net : ModuleOf<Net> {
  using Module::forward;
  Tensor forward(const Tensor& x, std::vector<Tensor>& cache) { return cache.emplace_back(x); }
};
Tensor y(Net& net, const Tensor& x) { return net(x, std::vector<Tensor>()); }

//! AChildTakesTheBracesOfItsModule: (no match for call to|no matching function for call to)
void f(Child<MultiheadAttention>& mha, const Tensor& x) { mha(x, x, x, {.need_wieghts = false}); }

//! SortTakesNoBoolForADimension: this argument is an integer
Tensor sorted(const Tensor& x) { return x.sort(true).values; }

//! ArgsortTakesNoBoolForADimension: this argument is an integer
Tensor places(const Tensor& x) { return argsort(x, true); }

//! BracketsTakeNoBool: this argument is an integer
Tensor first(const Tensor& x) { return x[true]; }

//! SizeTakesNoBool: this argument is an integer
int64_t rows(const Tensor& x) { return x.size(false); }

//! DimensionsTakeNoBool: this argument is an integer
Tensor total(const Tensor& x) { return x.sum(true); }

//! ListsOfDimensionsTakeNoBool: this argument is an integer
Tensor total(const Tensor& x) { return x.sum({0, true}); }

//! OptionalDimensionsTakeNoBool: this argument is an integer
Tensor middle(const Tensor& x) { return quantile(x, 0.5, true); }

//! SizesOfWindowsTakeNoBool: this argument is an integer
Tensor pooled(const Tensor& x) { return max_pool2d(x, true); }

//! OptionsOfWindowsTakeNoBool: this argument is an integer
Tensor convolved(const Tensor& x, const Tensor& w) { return conv2d(x, w, {}, {.padding = true}); }

//! TwoNumbersAreNoTriple: (invalid initialization|no matching|no viable)
Tensor convolved(const Tensor& x, const Tensor& w) { return conv3d(x, w, {}, {.stride = {1, 2}}); }

//! SlicesTakeNoBool: this argument is an integer
Tensor part(const Tensor& x) { return x.index({Slice(true)}); }

//! SizesOfNewTensorsTakeNoBool: this argument is an integer
Tensor made = zeros(true);

//! CountsOfTensorTypesTakeNoBool: this argument is an integer
Tensor made = FloatTensor(2, true);

//! GeluTakesNoBool: (to .*GeluApproximate|no matching function for call to .gelu)
Tensor activated(const Tensor& x) { return gelu(x, true); }

//! ChoicesTakeNoNumber: (to .*Reduction|no matching function for call to .mse_loss)
Tensor loss(const Tensor& x) { return mse_loss(x, x, 2); }

//! ChoicesTakeNoEnumeratorOfOthers: (to .*PadMode|no matching function)
Tensor padded(const Tensor& x) { return pad(x, {1, 1}, Reduction::kSum); }

//! FlagsTakeNoNumber: this argument is true or false
Tensor total(const Tensor& x) { return x.sum({0}, 1); }

//! FlagsTakeNoPointer: this argument is true or false
Tensor dropped(const Tensor& x, Generator* generator) { return dropout(x, 0.5, generator); }

//! BackwardTakesNoNumberForAFlag: this argument is true or false
void run(const Tensor& loss) { loss.backward({}, 1); }

//! TrainTakesNoText: this argument is true or false
void run(Module& net) { net.train("eval"); }

//! ProbabilitiesTakeNoBool: this argument is a number
Tensor dropped(const Tensor& x, const Module& net) { return dropout(x, net.is_training()); }

//! AttentionTakesNoBoolForItsDropout: this argument is a number
Tensor attended(const Tensor& q) { return scaled_dot_product_attention(q, q, q, {}, true); }

//! CatTakesAList: (invalid initialization|no matching function)
Tensor joined(const Tensor& a, const Tensor& b) { return cat(a, b); }

//! CatTakesAListAndADimension: (invalid initialization|no matching function)
Tensor joined(const Tensor& a, const Tensor& b) { return cat(a, b, 1); }

//! StackTakesAList: (invalid initialization|no matching function)
Tensor joined(const Tensor& a, const Tensor& b) { return stack(a, b); }

//! DevicesTakeNoBoolForTheirIndex: this argument is an integer
Tensor moved(const Tensor& x) { return x.to(true); }

//! LayersTakeNoBoolForASize: this argument is an integer
Linear layer(2, true);

//! DropoutTakesNoBoolForItsProbability: this argument is a number
Dropout layer(true);
