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
