#!/usr/bin/env bash
# Builds the guide and the API reference as a site that needs no network: build/site/index.html.
# Doxygen makes both, of docs/*.md and of the contracts in the headers, with links between them.
# Lists declarations of users' headers that have no contract of their own in build/site/undocumented.txt.
# Environment: SITE (the folder).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
site=${SITE:-$root/build/site}
"$root/scripts/install.sh" docs
cd "$root"
rm -rf "$site"
mkdir -p "$site"
version=$(sed -n 's/^project(taper VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

# In the order of the contents.
pages=(docs/README.md)
for page in $(grep -o '([a-z_]*\.md)' docs/README.md | tr -d '()' | awk '!seen[$0]++'); do
  pages+=("docs/$page")
done
pages+=(README.md CHANGELOG.md CONTRIBUTING.md)

doxygen_with() {
  { cat docs/site/Doxyfile; printf '%s\n' "PROJECT_NUMBER = $version" "INPUT += ${pages[*]}" "$@"; } |
    doxygen - 2>&1
}
doxygen_with "OUTPUT_DIRECTORY = $site" "HTML_OUTPUT = ." >"$site/doxygen.log"
warnings=$(grep -v 'is not documented' "$site/doxygen.log" | grep 'warning:' |
  grep -v 'scope for class std::hash' || :)
# Another pass: a page shows every declaration, whether it has a contract or not.
doxygen_with "EXTRACT_ALL = NO" "WARN_IF_UNDOCUMENTED = YES" "GENERATE_HTML = NO" |
  sed -n "s|^$root/||; s|: warning: \(.*\) is not documented.*|: \1|p" |
  sort -u >"$site/undocumented.txt"
if [[ -n $warnings ]]; then
  printf '%s\n' "$warnings" >&2
  exit 1
fi
echo "$site/index.html"
echo "$site/undocumented.txt: $(wc -l <"$site/undocumented.txt") declarations without words of their own"
