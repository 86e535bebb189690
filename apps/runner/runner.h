// The program `taper` as a library, with parts of one's own: what such a program includes.
#pragma once

#include "apps/runner/components/components.h"
#include "apps/runner/program.h"
#include "apps/runner/run/errors.h"
#include "apps/runner/train/evaluate.h"
#include "apps/runner/train/train.h"
#include "apps/runner/verbs/saved_run.h"
