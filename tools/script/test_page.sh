#!/usr/bin/env bash
# Shows the status page of real relays and nodes in a headless Chromium and looks at it. Arguments go to
# unittest: names of tests such as Graph or Graph.test_nodes_appear. `test.sh --all` runs this too.
#
# usage: test_page.sh [--pictures | TEST...]
#   --pictures  makes the pictures of doc/picture instead
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
program=page_test.py
case "${1:-}" in
  -h | --help)
    usage
    exit
    ;;
  --pictures)
    program=pictures.py
    shift
    ;;
esac

# Selenium is a package of the system's own Python, which need not be the first one in PATH.
find_python() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import selenium' 2>/dev/null; then
      printf '%s\n' "$python"
      return
    fi
  done
  return 1
}

compiler=$(find_compiler) || fail "no C++ compiler new enough: GCC 12 or Clang 14 is needed"
python=$(find_python) || fail "no Python with Selenium; install_dependencies.sh --all installs it"
driver=$(command -v chromedriver) || fail "no chromedriver; install_dependencies.sh --all installs it"
heading "the status page"
configure release
build release atbus_command atbus_c
mkdir -p "$root/build/page"
"$compiler" -x c -std=gnu99 -O2 -Wall -Wextra -Wconversion -Werror -I "$root/include" "$root/test/page/page_node.c" \
  -x none -o "$root/build/page/page_node" -L "$root/build/release/lib" -latbus_c -Wl,-rpath,"$root/build/release/lib"
before=$(left_behind) reports=$(node_reports)
trap 'remove_reports "$reports"' EXIT
PAGE_ATBUS=$root/build/release/bin/atbus PAGE_NODE=$root/build/page/page_node PAGE_DRIVER=$driver \
  "$python" -B "$root/test/page/$program" "$@"
left=$(comm -13 <(printf '%s\n' "$before") <(left_behind))
[ -z "$left" ] || fail "the tests have left files behind: $left"
