#include "framework/host/shared_library.h"

#include "framework/base/error.h"
#include "tests/testing.h"

namespace taper::v0 {
namespace {

const std::vector<std::string> kNowhere = {"libtaper_nowhere.so.7", "", "/nowhere/libtaper.so"};

TEST(SharedLibrary, TheFirstThatIsThereIsTaken) {
  const SharedLibrary library("cosines", {"libtaper_nowhere.so.7", "libm.so.6"}, "install libc6");
  EXPECT_EQ(library.problem(), "");
  double (*cosine)(double) = library("cos");
  EXPECT_EQ(cosine(0), 1);
}

TEST(SharedLibrary, WhatIsMissingIsNamedWithWhatToInstall) {
  const SharedLibrary library("cosines", kNowhere, "install libc6");
  const std::string problem = library.problem();
  for (const char* part : {"cosines: libtaper_nowhere.so.7: ", "; install libc6"}) {
    EXPECT_NE(problem.find(part), std::string::npos) << part << "\nis not in: " << problem;
  }
  EXPECT_TRUE(test::refuses<AcceleratorError>([&] { library("cos"); }, problem));
}

TEST(SharedLibrary, AFunctionThatItDoesNotHaveIsNamed) {
  const SharedLibrary library("cosines", {"libm.so.6"}, "install a newer libc6");
  try {
    library("taper_nowhere");
    FAIL() << "nothing was thrown";
  } catch (const AcceleratorError& error) {
    EXPECT_NE(std::string(error.what()).find("taper_nowhere; install a newer"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace taper::v0
