#include <iostream>

#include <taper/taper.h>

using namespace taper;

int main() {
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}}, {.requires_grad = true});
  std::cout << x << "\n\n";

  const Device device = cuda::is_available() ? "cuda" : "cpu";
  const Tensor y = x.to(device);  // x stays where it is
  const Tensor z = matmul(y, y) + 1;
  std::cout << z << "\n\n";

  try {
    std::cout << x + x.to("cuda") << "\n\n";
  } catch (const Error& error) {
    std::cout << error.what() << "\n\n";
  }

  z.sum().backward();  // the gradient comes back to where x is
  std::cout << z.cpu().detach() << "\n\n" << x.grad() << "\n";
}
