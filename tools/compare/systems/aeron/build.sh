#!/usr/bin/env bash
# Builds the Aeron harness into OUT_DIR/compare_aeron (a launcher beside its jars) and prints the
# version of Aeron; without a way to build it, prints the reason and fails.
#   build.sh OUT_DIR
set -euo pipefail

out=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

missing() {
  echo "$1"
  exit 1
}

command -v mvn > /dev/null || missing 'needs Maven'
command -v javac > /dev/null || missing 'needs a JDK, 17 or newer'

# Maven writes into a copy, so that the sources stay clean.
work=$out/aeron-build
rm -rf "$work"
cp -r "$here" "$work"
mvn -q -B -f "$work/pom.xml" package dependency:copy-dependencies \
  -DoutputDirectory="$work/target/lib" > "$out/aeron-build.log" 2>&1 ||
  missing "does not build: $(grep -m 1 ERROR "$out/aeron-build.log" || tail -n 1 "$out/aeron-build.log")"

rm -rf "$out/aeron-lib"
mkdir "$out/aeron-lib"
cp "$work"/target/*.jar "$work"/target/lib/*.jar "$out/aeron-lib/"
install -m 755 "$here/launch.sh" "$out/compare_aeron"
basename "$out"/aeron-lib/aeron-driver-*.jar .jar | sed 's/aeron-driver-/Aeron (Java) /'
