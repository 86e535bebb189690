#!/usr/bin/env bash
# Builds the guide and the API reference as a site that can be read offline: build/site/index.html.
# Doxygen generates both, with links between them, from docs/*.md and from the comments of installed
# headers. Its warnings are errors. Declarations without a comment of their own (many share that of a
# neighbor or of their header) are listed in build/site/undocumented.txt.
# Environment: BUILD_DIR; SITE (the site's folder).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_DIR:-$root/build}
site=${SITE:-$build/site}
"$root/scripts/install.sh" docs
if [[ ! -f $build/build.ninja ]]; then
  mkdir -p "$build"
  cmake -S "$root" -B "$build" -G Ninja -DTAPER_TESTS=OFF >"$build/configure.log" 2>&1 ||
    { cat "$build/configure.log" >&2 && exit 1; }
fi
ninja -C "$build" --quiet taper_headers
cd "$root"
rm -rf "$site"
mkdir -p "$site"
version=$(sed -n 's/^project(taper VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

# The pages in the order of the table of contents.
pages=(docs/README.md)
for page in $(grep -oE "\([A-Za-z_/]*\.md\)" docs/README.md | tr -d '()' | awk '!seen[$0]++'); do
  pages+=("docs/$page")
done
pages+=(docs/decisions/[0-9]*.md README.md CHANGELOG.md CONTRIBUTING.md)

doxygen_with() {
  { cat docs/site/Doxyfile
    printf '%s\n' "PROJECT_NUMBER = $version" "INPUT = ${pages[*]} $build/include" \
      "STRIP_FROM_PATH = $root $build/include" "STRIP_FROM_INC_PATH = $build/include" "$@"
  } | doxygen - 2>&1
}
doxygen_with "OUTPUT_DIRECTORY = $site" "HTML_OUTPUT = ." >"$site/doxygen.log" &
# Lists undocumented declarations in a second pass, which runs in parallel. The first pass cannot list
# them, because its pages show every declaration, documented or not.
doxygen_with "EXTRACT_ALL = NO" "WARN_IF_UNDOCUMENTED = YES" "GENERATE_HTML = NO" |
  sed -n "s|^$build/include/||; s|: warning: \(.*\) is not documented.*|: \1|p" |
  sort -u >"$site/undocumented.txt"
wait $!
# Doxygen 1.9.4 does not know specializations of templates of std.
if grep -E 'warning:|^awk:' "$site/doxygen.log" | grep -v 'scope for class std::' >&2; then exit 1; fi
echo "$site/undocumented.txt: $(wc -l <"$site/undocumented.txt") declarations without a comment of their own"
echo "$site/index.html"
