// Einstein summation. Each dimension of an operand has a name of one character, which is its letter
// in the equation. The dimensions covered by an ellipsis are named by digits that count from the
// right, starting with '0' for the last.
#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/einsum_order.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/op_helpers.h"
#include "framework/kernels/elementwise/broadcast.h"

namespace taper::v0 {
namespace {

using Names = std::string;

struct Named {
  Tensor x;
  Names names;
};

bool has(const Names& names, char name) { return names.find(name) != Names::npos; }

// The equation's terms without spaces, with '.' for an ellipsis.
struct Equation {
  std::vector<std::string> inputs = {""};
  std::optional<std::string> output;
};

Equation parsed(const std::string& text, size_t operands) {
  Equation e;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string& term = e.output ? *e.output : e.inputs.back();
    if (text[i] == ' ') continue;
    if (text[i] == ',' && !e.output) {
      e.inputs.emplace_back();
    } else if (text.compare(i, 2, "->") == 0 && !e.output) {
      e.output = "";
      ++i;
    } else if (text[i] == '.') {
      const std::string place =
          e.output ? "output" : concat_to_string("operand ", e.inputs.size() - 1);
      require(!has(term, '.'), "einsum(): found '.' for ", place, e.output ? " but" : " for which",
              " an ellipsis ", e.output ? "(...) " : "", "was already found");
      require(text.compare(i, 3, "...") == 0, "einsum(): found '.' for ", place,
              " that is not part of any ellipsis", e.output ? " (...)" : "");
      term += '.';
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      require(!e.output || !has(term, text[i]), "einsum(): output subscript ", text[i],
              " appears more than once in the output");
      term += text[i];
    } else {
      throw Error("einsum(): invalid subscript given at index ", i,
                  " in the equation string, subscripts must be in [a-zA-Z]");
    }
  }
  require(e.inputs.size() == operands, "einsum(): ", e.inputs.size() > operands ? "fewer" : "more",
          " operands were provided than specified in the equation");
  return e;
}

// Replaces the ellipsis of a term by `dims` digits: "i210j".
Names with_digits(const std::string& term, int dims) {
  Names digits;
  while (dims > 0) digits += char('0' + --dims);
  const size_t at = term.find('.');
  return at == std::string::npos ? term : Names(term).replace(at, 1, digits);
}

Names names_of(const std::string& term, int dims, size_t operand) {
  const bool ellipsis = has(term, '.');
  const int letters = int(term.size()) - ellipsis;
  require(ellipsis || letters == dims, "einsum(): the number of subscripts in the equation (",
          letters, ") does not match the number of dimensions (", dims, ") for operand ", operand,
          " and no ellipsis was given");
  require(letters <= dims, "einsum(): the number of subscripts in the equation (", letters,
          ") is more than the number of dimensions (", dims, ") for operand ", operand);
  return with_digits(term, dims - letters);
}

// Returns the output of an equation without "->": the ellipsis, followed by the letters that occur
// exactly once, in alphabetical order.
std::string implicit_output(const Equation& e) {
  std::map<char, int> count;
  for (const std::string& term : e.inputs) {
    for (const char c : term) ++count[c];
  }
  std::string output = count.count('.') ? "." : "";
  for (const auto& [letter, n] : count) {
    if (n == 1 && letter != '.') output += letter;
  }
  return output;
}

// Replaces dimensions with the same name by their diagonal.
Named without_repeats(Named a, size_t operand) {
  for (size_t i = 0; i < a.names.size(); ++i) {
    for (size_t j; (j = a.names.find(a.names[i], i + 1)) != Names::npos; a.names.erase(j, 1)) {
      const int64_t size = a.x.size(int64_t(i)), other = a.x.size(int64_t(j));
      require(size == other, "einsum(): subscript ", a.names[i], " is repeated for operand ",
              operand, " but the sizes don't match, ", other, " != ", size);
      a.x = movedim(diagonal(a.x, 0, int64_t(i), int64_t(j)), -1, int64_t(i));
    }
  }
  return a;
}

using Sizes = std::map<char, int64_t>;

// Records the size of each name. A size of 1 is replaced by any other size.
void add_sizes(Sizes& sizes, const Named& a, size_t operand) {
  for (size_t d = 0; d < a.names.size(); ++d) {
    const int64_t size = a.x.size(int64_t(d));
    int64_t& seen = sizes.emplace(a.names[d], size).first->second;
    if (seen == 1) seen = size;
    if (size == 1 || size == seen) continue;
    require(!std::isdigit(static_cast<unsigned char>(a.names[d])), "einsum(): dimension ", d,
            " covered by ellipsis in operand ", operand, " has size ", size,
            " which does not broadcast with previously seen ellipsis with size ", seen,
            " for the respective dimension");
    throw Error("einsum(): subscript ", a.names[d], " has size ", size, " for operand ", operand,
                " which does not broadcast with previously seen size ", seen);
  }
}

// Removes dimensions of size 1 that are broadcast to a larger size.
Named without_broadcast(Named a, const Sizes& sizes) {
  for (size_t d = a.names.size(); d-- > 0;) {
    if (a.x.size(int64_t(d)) == sizes.at(a.names[d])) continue;
    a.x = squeeze(a.x, int64_t(d));
    a.names.erase(d, 1);
  }
  return a;
}

// Sums over all dimensions whose names are not in `wanted`.
Named summed(const Named& a, const Names& wanted) {
  Shape dims;
  Names rest;
  for (size_t d = 0; d < a.names.size(); ++d) {
    if (has(wanted, a.names[d]))
      rest += a.names[d];
    else
      dims.push_back(int64_t(d));
  }
  return dims.empty() ? a : Named{sum(a.x, dims), rest};
}

// Returns a's dimensions in the order of `names`, with size 1 for names that a does not have.
Tensor ordered(const Named& a, const Names& names) {
  Shape order;
  for (const char name : names) {
    if (has(a.names, name)) order.push_back(int64_t(a.names.find(name)));
  }
  Tensor y = permute(a.x, order);
  for (size_t d = 0; d < names.size(); ++d) {
    if (!has(a.names, names[d])) y = unsqueeze(y, int64_t(d));
  }
  return y;
}

// Returns the product of a and b, summed over the dimensions that are not kept.
Named contracted(Named a, Named b, const Names& kept, const Sizes& sizes) {
  a = summed(a, kept + b.names);
  b = summed(b, kept + a.names);
  Names batch, left, inner, right;
  for (const char c : a.names) (!has(b.names, c) ? left : has(kept, c) ? batch : inner) += c;
  for (const char c : b.names) {
    if (!has(a.names, c)) right += c;
  }
  const Names names = batch + left + right;
  if (inner.empty()) return {ordered(a, names) * ordered(b, names), names};

  const auto shape_of = [&](const Names& of) {
    Shape shape;
    for (const char c : of) shape.push_back(sizes.at(c));
    return shape;
  };
  const auto matrices = [&](const Named& t, const Names& rows, const Names& columns) {
    Shape shape{shape_of(rows).numel(), shape_of(columns).numel()};
    if (!batch.empty()) shape.insert(0, shape_of(batch).numel());
    return reshape(ordered(t, batch + rows + columns), shape);
  };
  const Tensor y = matmul(matrices(a, left, inner), matrices(b, inner, right));
  return {reshape(y, shape_of(names)), names};
}

}  // namespace

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands) {
  require<ValueError>(!operands.empty(),
                      "einsum(): must specify the equation string and at least one operand");
  const Equation e = parsed(equation, operands.size());
  std::vector<Named> all;
  Sizes sizes;
  int dotted = 0;  // largest number of dimensions covered by an ellipsis
  for (size_t i = 0; i < operands.size(); ++i) {
    const Tensor& x = operands[i];
    if (x.dim() > 0) kernels::common_device("einsum", {&operands[0], &x});
    const Names names = names_of(e.inputs[i], x.dim(), i);
    if (has(e.inputs[i], '.')) dotted = std::max(dotted, x.dim() + 1 - int(e.inputs[i].size()));
    all.push_back(without_repeats({x, names}, i));
    add_sizes(sizes, all.back(), i);
  }
  const Names output = with_digits(e.output ? *e.output : implicit_output(e), dotted);
  for (const char name : output) {
    require(sizes.count(name), "einsum(): output subscript ", name,
            " does not appear in the equation for any input operand");
  }
  for (Named& a : all) a = without_broadcast(a, sizes);
  std::vector<Names> names;
  for (const Named& a : all) names.push_back(a.names);
  for (const auto& [first, second] : cheapest_order(names, output, sizes)) {
    Names kept = output;
    for (size_t i = 0; i < all.size(); ++i) {
      if (i != first && i != second) kept += all[i].names;
    }
    all[first] = contracted(all[first], all[second], kept, sizes);
    all.erase(all.begin() + std::ptrdiff_t(second));
  }
  return ordered(summed(all[0], output), output);
}

Tensor tensordot(const Tensor& a, const Tensor& b, IntArg dims) {
  require(dims >= 0, "tensordot expects dims >= 0, but got dims=", dims);
  require(dims <= a.dim() && dims <= b.dim(),
          "tensordot expects dims <= a.dim() and b.dim(), but got dims=", dims);
  Shape last, first;
  for (int64_t d = 0; d < dims; ++d) {
    last.push_back(a.dim() - dims + d);
    first.push_back(d);
  }
  return tensordot(a, b, last, first);
}

Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& dims_a, const Shape& dims_b) {
  require(dims_a.size() == dims_b.size(), "both dimension lists should have same length");
  require(a.dtype() == b.dtype(), "both inputs should have same dtype, got ", a.dtype(), " and ",
          b.dtype());
  Tensor x = a, y = b;
  Names of_x = Names("abcdefgh").substr(0, size_t(a.dim())),
        of_y = Names("ABCDEFGH").substr(0, size_t(b.dim()));
  Names rest_x = of_x, rest_y = of_y;
  const auto take = [](Names& rest, char name, int dim) {
    const size_t at = rest.find(name);
    require(at != Names::npos, "dim ", dim, " appears multiple times in the list of dims");
    rest.erase(at, 1);
  };
  for (int i = 0; i < dims_a.size(); ++i) {
    const int dx = wrap_dim(dims_a[i], a.dim()), dy = wrap_dim(dims_b[i], b.dim());
    if (a.dim() == 0 || b.dim() == 0) continue;  // a 0-dim tensor counts as having one dimension
    const int64_t size = a.size(dx), other = b.size(dy);
    require(size == other || size == 1 || other == 1,
            "contracted dimensions need to match, but first has size ", size, " in dim ", dx,
            " and second has size ", other, " in dim ", dy);
    // A dimension of size 1 broadcasts, so the other operand is summed, in its own dtype.
    if (other == 1) x = sum(x, {dx}, true, a.dtype());
    if (size == 1) y = sum(y, {dy}, true, b.dtype());
    take(rest_x, char('a' + dx), dx);
    take(rest_y, char('A' + dy), dy);
    of_y[size_t(dy)] = of_x[size_t(dx)];
  }
  return einsum(concat_to_string(of_x, ",", of_y, "->", rest_x, rest_y), {x, y});
}

}  // namespace taper::v0
