// Whom a rank names that waits in vain, by what it sees of the processes of its host.
#include "framework/distributed/peers.h"

#include <gtest/gtest.h>

namespace taper::inline v0::distributed {
namespace {

// Ranks 0 and 1 are here, rank 2 is on a host of another boot.
struct ThreeRanks {
  Peers here[2], far;

  ThreeRanks() {
    std::string foreign = far.card();
    foreign.replace(0, foreign.find('\n', foreign.find('\n') + 1), "far\nanother boot pid:1");
    foreign.resize(far.card().size());
    const std::vector<std::string> cards = {here[0].card(), here[1].card(), foreign};
    for (int r = 0; r < 2; ++r) here[r].meet(cards, r);
  }
};

TEST(Peers, ARankThatWaitsInAnEarlierCallIsNotBlamed) {
  ThreeRanks ranks;
  for (Peers& peers : ranks.here) peers.count_call();
  const uint64_t call = ranks.here[0].count_call();
  const std::string unseen = "of those that cannot be seen from here (rank 2 (far)) one has";

  EXPECT_EQ(ranks.here[0].late_for(call).text, ranks.here[0].name_of(1) + " has not called it");
  ranks.here[1].set_waiting(true);
  EXPECT_EQ(ranks.here[0].late_for(call).text.substr(0, unseen.size()), unseen);
  EXPECT_EQ(ranks.here[0].late_for(call).rank, 2);
  ranks.here[1].set_waiting(false);
  EXPECT_EQ(ranks.here[0].late_for(call).rank, 1);
  ranks.here[1].count_call();
  EXPECT_EQ(ranks.here[0].late_for(call).rank, 2);
}

}  // namespace
}  // namespace taper::inline v0::distributed
