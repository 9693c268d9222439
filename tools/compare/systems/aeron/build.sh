#!/usr/bin/env bash
# Builds the Aeron harness into OUT_DIR/compare_aeron, a launcher beside its jars.
set -euo pipefail
# shellcheck source=tools/compare/systems/build_common.sh
source "$(dirname "$0")/../build_common.sh"

needs mvn Maven
needs javac 'a JDK, 17 or newer'

# Maven writes into a copy, so that the sources stay clean.
work=$out/aeron-build
rm -rf "$work"
cp -r "$here" "$work"
logged "$out/aeron-build.log" ERROR mvn -q -B -f "$work/pom.xml" package \
  dependency:copy-dependencies -DoutputDirectory="$work/target/lib"

rm -rf "$out/aeron-lib"
mkdir "$out/aeron-lib"
cp "$work"/target/*.jar "$work"/target/lib/*.jar "$out/aeron-lib/"
install -m 755 "$here/launch.sh" "$out/compare_aeron"
basename "$out"/aeron-lib/aeron-driver-*.jar .jar | sed 's/aeron-driver-/Aeron (Java) /'
