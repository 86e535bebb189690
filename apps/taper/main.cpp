// The standard program. A program with user-defined components registers them first
// (apps/examples/custom_model.cpp).
#include <taper/runner.h>

int main(int argc, char** argv) { return taper::runner::main(argc, argv); }
