#!/usr/bin/env bash
# Builds the Vert.x service into OUT_DIR/compare_vertx, a launcher beside its jars. The client is
# compare_vertx_client, of the C++ harnesses.
set -euo pipefail
# shellcheck source=tools/compare/systems/build_common.sh
source "$(dirname "$0")/../build_common.sh"

needs mvn Maven
needs javac 'a JDK, 17 or newer'

# Maven writes into a copy, so that the sources stay clean.
work=$out/vertx-build
rm -rf "$work"
cp -r "$here" "$work"
logged "$out/vertx-build.log" ERROR mvn -q -B -f "$work/pom.xml" package \
  dependency:copy-dependencies -DoutputDirectory="$work/target/lib"

rm -rf "$out/vertx-lib"
mkdir "$out/vertx-lib"
cp "$work"/target/*.jar "$work"/target/lib/*.jar "$out/vertx-lib/"
install -m 755 "$here/launch.sh" "$out/compare_vertx"
basename "$out"/vertx-lib/vertx-core-*.jar .jar | sed 's/vertx-core-/Vert.x /'
