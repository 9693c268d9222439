#!/usr/bin/env bash
# Measures atbus and the systems that people would otherwise pick on this machine, with the same work
# and the same checks, and draws the result: installs what is missing, builds the harnesses, runs
# them, writes doc/comparison/. A rival that can't be installed is reported as missing.
#
# usage: compare.sh [--quick|--full|--smoke] [--only WORD,...] [--what WORDS] [--keep]
#                   [--output FOLDER]
#   --quick   short runs, three rounds; under 25 minutes on two cores, installation included (default)
#   --full    the same with all numbers of connections and sizes of fan-in, and all kinds of requests
#             and caches three times; what is published; about 45 minutes besides installation
#   --smoke   a moment each: shows that everything runs, measures nothing
#   --only    systems whose names begin so: --only atbus,zeromq
#   --what    rows whose label has these words in it: --what "10 tasks"
#   --keep    what the report has of other systems and rows stays; it says what was measured later
#   --output  where the report goes, by default doc/comparison
# With SKIP_INSTALL=1 in the environment nothing is installed.
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../script/common.sh"
compare=$root/tools/compare
build=$root/build/compare

plan=quick
only=
what=
keep=()
output=$root/doc/comparison
while [ $# -gt 0 ]; do
  case $1 in
    --quick | --full | --smoke) plan=${1#--} ;;
    --only) only=${2:?--only needs names} && shift ;;
    --what) what=${2:?--what needs a word} && shift ;;
    --keep) keep=(--keep) ;;
    --output) output=${2:?--output needs a folder} && shift ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) fail "unknown argument \"$1\"; see --help" ;;
  esac
  shift
done

# A python that can draw may be another than the first.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c "import $1" 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  return 1
}

mkdir -p "$output"
if [ -z "${SKIP_INSTALL:-}" ]; then
  heading "install"
  "$root/tools/script/install_dependencies.sh"
  "$compare/install_rivals.sh"
fi

heading "build"
compiler=$(find_compiler) || fail "no C++ compiler new enough: GCC 12 or Clang 14 is needed"
cmake -S "$compare" -B "$build" -G Ninja -D CMAKE_BUILD_TYPE=Release \
  -D CMAKE_CXX_COMPILER="$compiler"
# A harness that does not build is a system that is missing.
cmake --build "$build" --parallel "$(nproc)" -- -k 0 || cmake --build "$build" --target compare_atbus

heading "measure"
python=$(find_python json) || fail "python3 is missing"
export PYTHONPATH=$compare PYTHONDONTWRITEBYTECODE=1
raw=$output/raw/$plan.json
"$python" -m compare run --programs "$build/bin" --plan "$plan" --only "$only" --what "$what" --output "$raw" \
  "${keep[@]}"

heading "report"
python=$(find_python matplotlib) || python=$(find_python json)
"$python" -m compare report --raw "$raw" --directory "$output"
say "written: $output/index.md and index.html ($((SECONDS / 60)) min $((SECONDS % 60)) s)"
