# Sourced by train.sh and test.sh. Says what they are about to do and about how long it takes.
# shellcheck shell=bash disable=SC2154  # variables of the caller

# duration SECONDS: prints "about 40 seconds" or "about 3 minutes".
duration() {
  if (($1 < 55)); then
    echo "about $((($1 + 9) / 10 * 10)) seconds"
  elif (($1 < 90)); then
    echo "about a minute"
  else
    echo "about $((($1 + 30) / 60)) minutes"
  fi
}

# announce_install KIND: announces the missing packages that install.sh installs for KIND.
announce_install() {
  local packages
  packages=$("$root/scripts/install.sh" --list "$1" | grep -c . || :)
  if ((packages > 0)); then
    echo "==   install $packages packages: $(duration $((10 + 2 * packages)))"
  fi
}

# announce_build WHAT SECONDS: announces a build that takes SECONDS on a single processor.
announce_build() {
  local processors plural=s
  processors=$(nproc)
  if ((processors == 1)); then plural=; fi
  echo "==   $1: $(duration $(($2 / processors + 1))) on $processors processor$plural"
}

# build_steps TARGET: prints how many steps a configured build folder needs to build the target.
build_steps() { ninja -C "$build" -n "$1" 2>/dev/null | grep -c '^\[' || :; }

# announce_steps WHAT TARGET: announces what a configured build folder needs to build the target.
announce_steps() {
  local steps seconds=2 # a step takes this many seconds on one processor
  if [[ $(cached CMAKE_UNITY_BUILD) == ON ]]; then seconds=4; fi
  steps=$(build_steps "$2")
  if ((steps > 0)); then announce_build "$1 ($steps steps)" $((steps * seconds)); fi
}
