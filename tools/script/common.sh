# Shared by the scripts beside it; to be sourced, not run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

say() { printf '%s\n' "$*"; }
heading() { printf '\n== %s\n' "$*"; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Prints the comment at the head of the script.
usage() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "$0"
}

has_command() { command -v "$1" >/dev/null 2>&1; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif { : >/dev/tty; } 2>/dev/null; then # where it asks, whatever the standard input is
    sudo "$@"
  else
    sudo -n "$@"
  fi
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q "$@" </dev/null
}

# version_at_least HAVE WANT: compares dotted numbers.
version_at_least() {
  [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

has_python() {
  python3 -c 'import os, sys, sysconfig
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(sys.version_info < (3, 9) or not os.path.exists(header))' 2>/dev/null
}
# cgo needs a C compiler, which CC may name with arguments.
can_build_go() {
  local compiler
  read -ra compiler <<<"${CC:-gcc}"
  has_go && has_command "${compiler[0]:-gcc}"
}
has_go() {
  has_command gofmt && has_command go && version_at_least "$(go version | sed 's/.* go\([0-9.]*\).*/\1/')" 1.19
}

# compiler_works COMMAND: is it a GCC from 12 or a Clang from 14 on?
compiler_works() {
  local version
  command -v "$1" >/dev/null 2>&1 || return 1
  case $("$1" --version 2>/dev/null | head -n 1) in
    *clang*) version=$("$1" -dumpversion) && version_at_least "$version" 14 ;;
    *) version=$("$1" -dumpfullversion 2>/dev/null) && version_at_least "$version" 12 ;;
  esac
}

# Prints the C++ compiler to build with: $CXX if set, else the first that is new enough. Some
# systems have a default g++ that is too old beside a g++-12 that is not.
find_compiler() {
  local candidate
  if [ -n "${CXX:-}" ]; then
    printf '%s\n' "$CXX"
    return
  fi
  for candidate in c++ g++ g++-14 g++-13 g++-12 clang++ clang++-14; do
    if compiler_works "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  return 1
}

names_its_compiler() { grep -qw "$1" <<<'asan tsan coverage aarch64'; }

# configure PRESET [OPTION...]: what is chosen here is chosen once, when the build tree is new. Such a
# tree is built whole, which takes half the time with several test files compiled as one. Changing one
# file is quicker in a tree that `cmake --preset` has made: that compiles each alone, as the clang stage
# of .ci/run does.
configure() {
  local preset=$1 compiler
  shift
  if [ ! -f "$root/build/$preset/CMakeCache.txt" ]; then
    set -- -D CMAKE_UNITY_BUILD=ON "$@"
    if ! pkg-config --exists 'libnats >= 3.4'; then
      say "libnats 3.4 is not here: nats:// addresses are left out"
      set -- -D ATBUS_BUILD_NATS=OFF "$@"
    fi
    if ! pkg-config --exists 'libcurl >= 7.85 libcares >= 1.17'; then
      say "libcurl 7.85 or c-ares 1.17 is not here: discovery by etcd and DNS is left out"
      set -- -D ATBUS_BUILD_DISCOVERY=OFF "$@"
    fi
    if ! names_its_compiler "$preset"; then
      compiler=$(find_compiler) || fail "no C++ compiler new enough: GCC 12 or Clang 14 is needed"
      set -- -D "CMAKE_CXX_COMPILER=$compiler" "$@"
    fi
  fi
  (cd "$root" && cmake --preset "$preset" "$@")
}

# The command's tests would take as long to build as all those of the library.
configure_asan() {
  configure asan -D ATBUS_BUILD_TOOLS=OFF -D ATBUS_BUILD_SAMPLES=OFF
}

# build PRESET [TARGET...]
build() {
  local preset=$1 targets=()
  shift
  [ $# -eq 0 ] || targets=(--target "$@")
  (cd "$root" && cmake --build --preset "$preset" --parallel "$(nproc)" "${targets[@]}")
}

# So many tests run at a time: most of what they do is wait.
test_jobs=$((2 * $(nproc)))

# What the sanitizers call themselves in their reports.
sanitizer_report='(Address|Leak|Memory|Thread|UndefinedBehavior)Sanitizer|runtime error:'

# What programs of atbus have left where the kernel does not clean up after a process. Not the reports
# of nodes: those of killed ones stay, as they should.
left_behind() {
  find /dev/shm /tmp -maxdepth 1 -name 'atbus*' ! -name 'atbus-node.*' 2>/dev/null | sort
}
node_reports() { find /dev/shm -maxdepth 1 -name 'atbus-node.*' 2>/dev/null | sort; }
# remove_reports BEFORE: removes those that are new since node_reports has printed BEFORE.
remove_reports() { comm -13 <(printf '%s\n' "$1") <(node_reports) | xargs -r rm -f -- 2>/dev/null || true; }

# run_ctest BUILD COMMAND...: runs COMMAND, a ctest for the tests of the folder BUILD. Tests that fail
# have a second chance, alone: on a busy machine they may have had too little time. There is none
# after the report of a sanitizer: what it finds is there, however seldom it shows. A run also fails if
# its tests leave files behind.
run_ctest() {
  local logs=$1/Testing/Temporary code=0 name
  local failed=$logs/LastTestsFailed.log start=$logs/start alone=$logs/alone.log
  local names passed=() before left reports
  shift
  mkdir -p "$logs"
  : >"$start"
  before=$(left_behind) reports=$(node_reports)
  "$@" || code=$?
  left=$(comm -13 <(printf '%s\n' "$before") <(left_behind))
  remove_reports "$reports"
  if [ -n "$left" ]; then
    heading "tests have left files behind"
    say "$(printf '%s\n' "$left" | head -n 20)"
    # Those that have failed may have.
    [ "$code" -ne 0 ] || return 1
  fi
  # Without a new list it is not the tests that failed.
  if [ "$code" -eq 0 ] || ! [ "$failed" -nt "$start" ]; then
    return "$code"
  fi
  if grep -Eq "$sanitizer_report" "$logs/LastTest.log"; then
    heading "no second chance: a sanitizer has reported"
    return "$code"
  fi
  mapfile -t names < <(cut -d : -f 2- "$failed")
  heading "again, alone: ${#names[@]} tests that failed among others"
  code=0
  "$@" --rerun-failed --parallel 1 >"$alone" || code=$?
  for name in "${names[@]}"; do
    if [ "$code" -eq 0 ] || ! grep -Fqxe "$name" <(cut -d : -f 2- "$failed"); then
      passed+=("$name")
    fi
  done
  # The closing lines of ctest stay the last.
  [ ${#passed[@]} -eq 0 ] || printf 'passed only when run alone: %s\n' "${passed[@]}"
  cat "$alone"
  return "$code"
}

# Prints the newest atbus command of an optimized build without instrumentation; fails if none.
find_release_command() {
  local command cache newest=
  for command in "$root"/build/*/bin/atbus; do
    cache=${command%/bin/atbus}/CMakeCache.txt
    [ -x "$command" ] || continue
    [ -f "$cache" ] || continue
    grep -q '^CMAKE_BUILD_TYPE:[A-Z]*=Release$' "$cache" || continue
    ! grep -Eq '^ATBUS_(SANITIZE:[A-Z]*=.|(FUZZ|COVERAGE):BOOL=(ON|1|TRUE))' "$cache" || continue
    if [ -z "$newest" ] || [ "$command" -nt "$newest" ]; then
      newest=$command
    fi
  done
  [ -n "$newest" ] && printf '%s\n' "$newest"
}
