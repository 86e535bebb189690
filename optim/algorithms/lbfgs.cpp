#include "optim/algorithms/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "framework/factory/factories.h"
#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/elementwise/unary.h"
#include "framework/kernels/reduce/reduce.h"
#include "optim/group.h"
#include "optim/shared.h"

namespace taper::v0::optim {
namespace {

using kernels::BinaryOp;
using kernels::ReductionOp;

double reduced(ReductionOp op, const Tensor& x) {
  return kernels::reduce(op, x, {}).item<double>();
}
Tensor absolute(const Tensor& x) { return kernels::unary(kernels::UnaryOp::kAbs, x); }
double largest(const Tensor& x) { return reduced(ReductionOp::kAmax, absolute(x)); }
double dot(const Tensor& a, const Tensor& b) {
  return reduced(ReductionOp::kSum, kernels::binary(BinaryOp::kMul, a, b));
}
Tensor times(const Tensor& x, double factor) {
  return kernels::binary(BinaryOp::kMul, x, wrap_scalar(factor));
}
// Returns a + factor * b.
Tensor sum(const Tensor& a, const Tensor& b, double factor) {
  return kernels::binary(BinaryOp::kAdd, a, b, {.a = factor});
}

// A point at distance t along the direction: the loss f, its gradient g, and the directional
// derivative gtd.
struct Point {
  double t, f;
  Tensor g;
  double gtd;
};

// Returns the minimum within [low, high] of the cubic through two points with derivatives.
double cubic_minimum(const Point& a, const Point& b, double low, double high) {
  const double d1 = a.gtd + b.gtd - 3 * (a.f - b.f) / (a.t - b.t);
  const double square = d1 * d1 - a.gtd * b.gtd;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const Point &left = a.t <= b.t ? a : b, &right = a.t <= b.t ? b : a;
  const double least =
      right.t - (right.t - left.t) * ((right.gtd + d2 - d1) / (right.gtd - left.gtd + 2 * d2));
  return std::min(std::max(least, low), high);
}

// Returns a point that meets the strong Wolfe conditions (Nocedal and Wright, 2006, algorithms 3.5
// and 3.6), or the lowest point that was found after max_ls evaluations. at(t) evaluates a point.
// `size` is the largest element of the direction.
template <class At>
Point strong_wolfe(const At& at, const Point& start, double t, double size, double tolerance_change,
                   int64_t max_ls) {
  const auto is_high = [&](const Point& p) { return p.f > start.f + 1e-4 * p.t * start.gtd; };
  const auto is_flat = [&](const Point& p) { return std::abs(p.gtd) <= -0.9 * start.gtd; };
  // First finds an interval that contains such a point, with growing steps.
  Point now = at(t), before = start;
  std::vector<Point> bracket;
  bool done = false;
  int64_t k = 0;
  for (; k < max_ls; ++k) {
    const bool rises = is_high(now) || (k > 1 && now.f >= before.f);
    done = !rises && is_flat(now);
    if (done) bracket = {now};
    if (!done && (rises || now.gtd >= 0)) bracket = {before, now};
    if (!bracket.empty()) break;
    t = cubic_minimum(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10);
    before = std::exchange(now, at(t));
  }
  if (k == max_ls) bracket = {start, now};
  // Then shrinks the interval around the point.
  const auto lowest = [&] { return bracket.size() == 1 || bracket[0].f <= bracket[1].f ? 0u : 1u; };
  size_t low = lowest();
  bool stuck = false;
  for (; !done && k < max_ls; ++k) {
    const double begin = std::min(bracket[0].t, bracket[1].t);
    const double end = std::max(bracket[0].t, bracket[1].t), edge = 0.1 * (end - begin);
    if ((end - begin) * size < tolerance_change) break;
    t = cubic_minimum(bracket[0], bracket[1], begin, end);
    // If two points in a row are near the same end, the interval does not shrink enough.
    const bool near = std::min(end - t, t - begin) < edge;
    const bool moves = near && (stuck || t >= end || t <= begin);
    if (moves) t = std::abs(t - end) < std::abs(t - begin) ? end - edge : begin + edge;
    stuck = near && !moves;
    now = at(t);
    Point &best = bracket[low], &other = bracket[1 - low];
    if (is_high(now) || now.f >= best.f) {
      other = now;
      low = lowest();
      continue;
    }
    done = is_flat(now);
    if (!done && now.gtd * (other.t - best.t) >= 0) other = best;
    best = now;
  }
  return bracket[low];
}

// Calls f(part, p) for each parameter p and its part of `flat`, which holds all parameters one
// after another.
void each_part(const Tensor& flat, const std::vector<Tensor>& params, const auto& f) {
  int64_t at = 0;
  for (const Tensor& p : params) {
    f(view_as(flat, p.shape(), contiguous_strides(p.shape()), at), p);
    at += p.numel();
  }
}

}  // namespace

void LBFGSOptions::update(const std::vector<kernels::Update>&, const kernels::StepScalars&) const {
  throw TypeError("LBFGS::step() needs a closure: optimizer.step([&] { ...; return loss; })");
}

LBFGS::LBFGS(const std::vector<Tensor>& params, LBFGSOptions options)
    : LBFGS(unnamed(params), options) {}
LBFGS::LBFGS(const std::vector<NamedTensor>& params, LBFGSOptions options) {
  if (options.max_eval == 0) options.max_eval = options.max_iter * 5 / 4;
  add_param_group(params, options);
}

void LBFGS::step() { LBFGSOptions().update({}, {}); }

// Returns all gradients (0 for parameters without one) as one vector or, if `gradients` is false,
// all parameters.
Tensor LBFGS::flat(bool gradients) const {
  const std::vector<Tensor> params = parameters();
  int64_t n = 0;
  for (const Tensor& p : params) n += p.numel();
  const Tensor out = zeros({n}, {.dtype = state_dtype(params[0]), .device = params[0].device()});
  each_part(out, params, [&](const Tensor& part, const Tensor& p) {
    const Tensor from = gradients ? p.grad() : p;
    if (from.defined()) kernels::copy_into(part, from);
  });
  return out;
}

void LBFGS::set_params(const Tensor& flat) const {
  each_part(flat, parameters(), [](const Tensor& part, const Tensor& p) {
    kernels::copy_into(p, part);
    p.storage()->version.fetch_add(1);
  });
}

// Adds the new gradient to the history and returns the direction: minus the product of the
// approximate inverse Hessian and the gradient, by the two-loop recursion (Nocedal, 1980).
Tensor LBFGS::direction(const Tensor& grad, int64_t history_size) {
  auto& [func_evals, n_iter, d, before, dirs, steps, ro, t, H_diag, prev_loss] = memory_;
  if (n_iter == 1) return times(grad, -1);
  const Tensor y = sum(grad, before, -1), s = times(d, t);
  if (const double ys = dot(y, s); ys > 1e-10) {
    if (std::ssize(dirs) == history_size) {
      dirs.erase(dirs.begin());
      steps.erase(steps.begin());
      ro.erase(ro.begin());
    }
    dirs.push_back(y);
    steps.push_back(s);
    ro.push_back(1 / ys);
    H_diag = ys / dot(y, y);
  }
  Tensor q = times(grad, -1);
  std::vector<double> al(ro.size());
  for (size_t i = ro.size(); i-- > 0;) {
    al[i] = dot(steps[i], q) * ro[i];
    q = sum(q, dirs[i], -al[i]);
  }
  q = times(q, H_diag);
  for (size_t i = 0; i < ro.size(); ++i) q = sum(q, steps[i], al[i] - dot(dirs[i], q) * ro[i]);
  return q;
}

Tensor LBFGS::step_by(const std::function<Tensor()>& closure) {
  check_step();
  require<ValueError>(num_groups() == 1,
                      "LBFGS doesn't support per-parameter options (parameter groups)");
  const LBFGSOptions o =
      static_cast<const TypedGroupOptions<LBFGSOptions>&>(*groups_[0].options).options();
  Memory& m = memory_;
  const Tensor orig_loss = closure();
  double loss = orig_loss.item<double>();
  int64_t evals = 1;
  ++m.func_evals;
  Tensor grad = flat(true);
  bool optimal = largest(grad) <= o.tolerance_grad;
  for (int64_t i = 1; i <= o.max_iter && !optimal; ++i) {
    ++m.n_iter;
    m.d = direction(grad, o.history_size);
    m.prev_flat_grad = grad;
    m.prev_loss = loss;
    m.t =
        m.n_iter == 1 ? std::min(1., 1 / reduced(ReductionOp::kSum, absolute(grad))) * o.lr : o.lr;
    const double gtd = dot(grad, m.d);
    if (gtd > -o.tolerance_change) break;
    const Tensor start = flat(false);
    const int64_t evals_before = evals;
    const auto move = [&](double t) { set_params(sum(start, m.d, t)); };
    const auto evaluate = [&](double t) {
      move(t);
      const double f = closure().item<double>();
      ++evals;
      const Tensor g = flat(true);
      return Point{t, f, g, dot(g, m.d)};
    };
    if (o.line_search_fn == LineSearch::kStrongWolfe) {
      const Point found = strong_wolfe(evaluate, {0, loss, grad, gtd}, m.t, largest(m.d),
                                       o.tolerance_change, o.max_eval - evals);
      m.t = found.t;
      loss = found.f;
      grad = found.g;
      move(m.t);
    } else if (i == o.max_iter) {
      move(m.t);  // the loss at the last point is not needed
    } else {
      const Point next = evaluate(m.t);
      loss = next.f;
      grad = next.g;
    }
    m.func_evals += evals - evals_before;
    optimal = largest(grad) <= o.tolerance_grad || evals >= o.max_eval ||
              largest(m.d) * m.t <= o.tolerance_change ||
              std::abs(loss - m.prev_loss) < o.tolerance_change;
  }
  return orig_loss;
}

std::vector<NamedTensor> LBFGS::state_dict() const {
  const Memory& m = memory_;
  std::vector<NamedTensor> state;
  const auto put = [&](const char* name, const Tensor& x) {
    state.push_back({concat_to_string("state.0.", name), x});
  };
  const auto stacked = [&](const std::vector<Tensor>& rows) {
    const Tensor out =
        zeros({std::ssize(rows), m.d.numel()}, {.dtype = m.d.dtype(), .device = m.d.device()});
    for (int64_t i = 0; i < std::ssize(rows); ++i) {
      kernels::copy_into(view_as(out, {m.d.numel()}, {1}, i * m.d.numel()), rows[size_t(i)]);
    }
    return out;
  };
  const TensorOptions wide{.dtype = kFloat64};
  if (m.func_evals > 0) {
    put("func_evals", tensor(m.func_evals));
    put("n_iter", tensor(m.n_iter));
  }
  if (m.d.defined()) {
    put("d", m.d);
    put("prev_flat_grad", m.prev_flat_grad);
    put("old_dirs", stacked(m.old_dirs));
    put("old_stps", stacked(m.old_stps));
    put("ro", tensor(m.ro, wide));
    put("t", tensor(m.t, wide));
    put("H_diag", tensor(m.H_diag, wide));
    put("prev_loss", tensor(m.prev_loss, wide));
  }
  for (NamedTensor& setting : Optimizer::state_dict()) state.push_back(std::move(setting));
  return state;
}

void LBFGS::load_state_dict(const std::vector<NamedTensor>& state) {
  std::vector<NamedTensor> own, settings;
  for (const NamedTensor& entry : state) {
    (entry.name.starts_with("state.0.") ? own : settings).push_back(entry);
  }
  const StateReader saved{own, "LBFGS"};
  const auto has = [&](const char* name) {
    return std::ranges::find(own, concat_to_string("state.0.", name), &NamedTensor::name) !=
           own.end();
  };
  const Tensor like = flat(false);
  const int64_t n = like.numel();
  const auto read = [&](const char* name, const Shape& shape) {
    const Tensor out = Tensor::make(shape, like.dtype(), like.device());
    kernels::copy_into(out, saved.entry(concat_to_string("state.0.", name), shape));
    return out;
  };
  Memory m;
  if (has("func_evals")) {
    m.func_evals = saved.number<int64_t>("state.0.func_evals");
    m.n_iter = saved.number<int64_t>("state.0.n_iter");
  }
  if (has("d")) {
    m.d = read("d", {n});
    m.prev_flat_grad = read("prev_flat_grad", {n});
    const auto ro = std::ranges::find(own, "state.0.ro", &NamedTensor::name);
    if (ro != own.end()) m.ro = ro->tensor.cpu().to_vector<double>();
    const int64_t k = std::ssize(m.ro);
    const Tensor dirs = read("old_dirs", {k, n}), steps = read("old_stps", {k, n});
    for (int64_t i = 0; i < k; ++i) {
      m.old_dirs.push_back(view_as(dirs, {n}, {1}, i * n));
      m.old_stps.push_back(view_as(steps, {n}, {1}, i * n));
    }
    m.t = saved.number<double>("state.0.t");
    m.H_diag = saved.number<double>("state.0.H_diag");
    m.prev_loss = saved.number<double>("state.0.prev_loss");
  }
  Optimizer::load_state_dict(settings);
  memory_ = std::move(m);
}

}  // namespace taper::v0::optim
