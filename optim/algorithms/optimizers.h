// All optimizers.
#pragma once

#include "optim/algorithms/adagrad.h"
#include "optim/algorithms/adam.h"
#include "optim/algorithms/lbfgs.h"
#include "optim/algorithms/muon.h"
#include "optim/algorithms/sgd.h"
