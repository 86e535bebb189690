#!/usr/bin/env bash
# Simulates two hosts with network namespaces, each with two ranks, and a link between them. Runs every
# collective over TCP. If the kernel supports it, `tc` makes the link slow and lossy. Then the link is cut,
# and each rank must report it after the timeout. Needs root.
#   two_hosts.sh MPIEXEC TEST_DISTRIBUTED
set -uo pipefail
mpiexec=$1 program=$2
dir=$(mktemp -d)
a=taper_a_$$ b=taper_b_$$ if_a=tpa$$ if_b=tpb$$

clean() {
  # Killing the second host's daemon also ends its ranks.
  for name in $a $b; do ip netns pids "$name" 2>/dev/null | xargs -r kill -9 2>/dev/null; done
  ip netns del $a 2>/dev/null
  ip netns del $b 2>/dev/null
  rm -rf "$dir"
}
trap clean EXIT
fail() {
  echo "FAILED: $*"
  tail -n 40 "$dir/log" "$dir"/end* 2>/dev/null
  exit 1
}

reason=$( { ip netns add $a && ip netns add $b &&
  ip link add $if_a netns $a type veth peer name $if_b netns $b &&
  ip netns exec $b unshare --uts --pid --fork --mount-proc hostname taper-b; } 2>&1 >/dev/null) || {
  echo "skipped: this system does not allow network namespaces: ${reason:-no ip or unshare}"
  exit 0
}
ip -n $a addr add 10.77.0.1/24 dev $if_a
ip -n $b addr add 10.77.0.2/24 dev $if_b
for name in $a $b; do ip -n $name link set lo up; done
ip -n $a link set $if_a up
ip -n $b link set $if_b up

# The program with which mpirun starts its daemon, in place of ssh: AGENT HOST COMMAND.
cat >"$dir/agent" <<EOF
#!/usr/bin/env bash
shift
exec ip netns exec $b unshare --uts --pid --fork --mount-proc --kill-child \
  /bin/sh -c "hostname taper-b; \$*"
EOF
chmod +x "$dir/agent"
ranks() {
  timeout --kill-after=5 "$1" ip netns exec $a "$mpiexec" -n 4 \
    --host 10.77.0.1:2,10.77.0.2:2 --mca plm_rsh_agent "$dir/agent" --mca btl tcp,vader,self \
    --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 "${@:2}" \
    >"$dir/log" 2>&1
}

slow="without delay"
if tc -n $a qdisc add dev $if_a root netem delay 2ms loss 1% 2>/dev/null; then
  slow="with delay and losses"
fi
ranks 200 "$program" --gtest_brief=1 \
  '--gtest_filter=*Collectives*:Communicators.*:BadUse.*:Tree.*:DataParallelTraining.*' ||
  fail "collectives over a link"
echo "two hosts, a link $slow: every collective is correct"

# Without recovery, mpirun would end all ranks when it loses its daemon.
ranks 60 --enable-recovery "$program" endless "$dir" checked &
job=$!
for ((i = 0; i < 300; ++i)); do
  [[ -f $dir/pid0 && -f $dir/pid1 && -f $dir/pid2 && -f $dir/pid3 ]] && break
  sleep 0.1
done
[[ -f $dir/pid3 ]] || fail "the ranks did not start"
ip -n $a link set $if_a down
for ((i = 0; i < 400; ++i)); do
  [[ -f $dir/end0 && -f $dir/end1 && -f $dir/end2 && -f $dir/end3 ]] && break
  sleep 0.1
done
{ kill -9 $job && wait $job; } 2>/dev/null
# Messages of some ranks may have arrived before the cut. Each rank must name one beyond the link.
for r in 0 1 2 3; do
  beyond=$((r < 2 ? 2 : 0))
  grep -qE "on rank $r \(.*\): not at its end within 10 s; .*rank ($beyond|$((beyond + 1))) \(.* has not called it" \
    "$dir/end$r" || fail "rank $r does not name a rank beyond the link"
done
echo "the link is cut: every rank names a rank beyond it"
