#include "autograd/ops/einsum_order.h"

#include <cstddef>
#include <limits>
#include <utility>

namespace taper::v0 {
namespace {

// There are 945 orders of six operands and 10395 of seven.
constexpr size_t kMostForAll = 6;

using Operands = std::vector<std::string>;

bool contains(const std::string& names, char name) { return names.find(name) != std::string::npos; }

// An order and the number of multiplications that it needs.
struct Order {
  std::vector<Contraction> steps = {};
  double cost = 0;
};

class OrderSearch {
 public:
  OrderSearch(const std::string& output, const std::map<char, int64_t>& sizes)
      : output_(output), sizes_(sizes) {}

  // Tries all orders, and skips those that already cost as much as the best one so far.
  Order best(const Operands& operands) {
    best_.cost = std::numeric_limits<double>::infinity();
    extend(operands, {});
    return best_;
  }

  // Contracts from left to right.
  Order left_to_right(Operands operands) const {
    Order order;
    while (operands.size() > 1) add(order, operands, {0, 1});
    return order;
  }

  // Chooses the pair whose product is the smallest beside its operands, again and again. Among
  // equal ones, it chooses the pair with the fewest multiplications.
  Order greedy(Operands operands) const {
    Order order;
    while (operands.size() > 1) {
      Contraction chosen{0, 1};
      std::pair<double, double> least = rank_of(operands, chosen);
      for_each_pair(operands.size(), [&](const Contraction& pair) {
        const std::pair<double, double> rank = rank_of(operands, pair);
        if (rank >= least) return;
        least = rank;
        chosen = pair;
      });
      add(order, operands, chosen);
    }
    return order;
  }

 private:
  template <class F> static void for_each_pair(size_t count, F f) {
    for (size_t a = 0; a < count; ++a) {
      for (size_t b = a + 1; b < count; ++b) f(Contraction{a, b});
    }
  }

  // Returns the number of elements of a tensor with these names.
  double size_of(const std::string& names) const {
    double size = 1;
    for (const char name : names) size *= double(sizes_.at(name));
    return size;
  }

  // Returns the names of either operand.
  static std::string united(const Operands& operands, const Contraction& pair) {
    std::string names = operands[pair.first];
    for (const char name : operands[pair.second]) {
      if (!contains(names, name)) names += name;
    }
    return names;
  }

  // Returns the names of the product: those that the output or another operand has.
  std::string product(const Operands& operands, const Contraction& pair) const {
    std::string wanted = output_, names;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (i != pair.first && i != pair.second) wanted += operands[i];
    }
    for (const char name : united(operands, pair)) {
      if (contains(wanted, name)) names += name;
    }
    return names;
  }

  // Returns by how much the pair's product is larger than its operands, and its multiplications.
  std::pair<double, double> rank_of(const Operands& operands, const Contraction& pair) const {
    const double sizes = size_of(operands[pair.first]) + size_of(operands[pair.second]);
    return {size_of(product(operands, pair)) - sizes, size_of(united(operands, pair))};
  }

  // Contracts a pair of the operands and adds this step to the order.
  void add(Order& order, Operands& operands, const Contraction& pair) const {
    order.steps.push_back(pair);
    order.cost += size_of(united(operands, pair));
    operands[pair.first] = product(operands, pair);
    operands.erase(operands.begin() + std::ptrdiff_t(pair.second));
  }

  void extend(const Operands& operands, const Order& order) {
    if (order.cost >= best_.cost) return;
    if (operands.size() < 2) {
      best_ = order;
      return;
    }
    for_each_pair(operands.size(), [&](const Contraction& pair) {
      Operands rest = operands;
      Order longer = order;
      add(longer, rest, pair);
      extend(rest, longer);
    });
  }

  const std::string& output_;
  const std::map<char, int64_t>& sizes_;
  Order best_;
};

}  // namespace

std::vector<Contraction> cheapest_order(const std::vector<std::string>& operands,
                                        const std::string& output,
                                        const std::map<char, int64_t>& sizes) {
  OrderSearch search(output, sizes);
  const Order left_to_right = search.left_to_right(operands);
  if (operands.size() < 3) return left_to_right.steps;
  const Order other =
      operands.size() <= kMostForAll ? search.best(operands) : search.greedy(operands);
  return other.cost < left_to_right.cost ? other.steps : left_to_right.steps;
}

}  // namespace taper::v0
