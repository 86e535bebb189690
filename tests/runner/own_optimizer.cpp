// The program `taper` with an optimizer of its own, which configs name:
//
//   optimizer: {type: lookahead, lr: 0.1, k: 5}
#include "apps/runner/program.h"
#include "apps/runner/train/optimizer.h"
#include "tests/optim/own_optimizers.h"

int main(int argc, char** argv) {
  taper::runner::register_optimizer<taper::test::LookaheadOptions>("lookahead");
  return taper::runner::run_program(argc, argv);
}
