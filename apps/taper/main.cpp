// The stock program. One with parts of its own registers them first
// (apps/examples/custom_model.cpp).
#include <taper/runner.h>

int main(int argc, char** argv) { return taper::runner::main(argc, argv); }
