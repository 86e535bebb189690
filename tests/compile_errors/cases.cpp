// Programs that must not compile, with the sentence that the compiler must give.
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

//! OwnedTakesNoDeleterOfItsOwn: Owned deletes with `delete`
template <class T> struct PoolDelete {
  void operator()(T* p) const { delete p; }
};
std::unique_ptr<Module, PoolDelete<Module>> pooled();
Owned<Module> owned(pooled());

//! OwnedTakesNoDeleterWithoutTemplate: Owned deletes with `delete`
struct Keep {
  void operator()(Module*) const {}
};
std::unique_ptr<Module, Keep> kept();
Owned<Module> owned = kept();

//! OwnedGoesToNoDeleterOfItsOwn: Owned deletes with `delete`
struct Keep {
  void operator()(Module*) const {}
};
std::unique_ptr<Module, Keep> kept = Linear(2, 2).clone();

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

//! AnOptimizerIsNotSliced: protected
void f(optim::SGD& sgd) { optim::Optimizer sliced = std::move(sgd); }

//! AnEncoderTakesLayersOfAnEncoder: returns its layer, or one derived from that, by value
TransformerEncoder encoder([] { return Linear(2, 2); }, 2);

//! AChildTakesWhatItsModuleIsMadeOf: no constructor of this Child's module takes these arguments
struct Net : Module {
  Child<Linear> layer{*this, "layer", "four"};
};
Net net;

//! AChildTakesTheCallsOfItsModule: no call of this Child's module takes these arguments
void f(Child<Linear>& layer, const Tensor& x) { layer(x, "relu"); }

//! AChildTakesTheBracesOfItsModule: (no match for call to|no matching function for call to)
void f(Child<MultiheadAttention>& mha, const Tensor& x) { mha(x, x, x, {.need_wieghts = false}); }
