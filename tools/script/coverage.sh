#!/usr/bin/env bash
# Builds with counters, runs all tests and prints which share of each file they ran. Arguments go to
# ctest. What a process counted before it was killed by a signal is not included.
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/tools/script/install_dependencies.sh" --with-dev
configure coverage
build coverage
cd "$root"
rm -rf build/coverage/profile
code=0
ctest --preset coverage --no-tests=error --parallel "$(nproc)" "$@" </dev/null || code=$?

llvm-profdata-14 merge --sparse -o build/coverage/profile/all.profdata build/coverage/profile/*.profraw
programs=(build/coverage/bin/*)
objects=()
for program in "${programs[@]:1}"; do
  objects+=(-object "$program")
done
llvm-cov-14 report "${programs[0]}" "${objects[@]}" \
  -instr-profile build/coverage/profile/all.profdata include src tools/atbus
exit "$code"
