#!/usr/bin/env bash
# Starts the Aeron harness with the options that Aeron's wiki names: "Performance Testing" for the
# safepoint interval, IPv4, bounds checks and touched memory, "Java Programming Guide" for the opens.
exec java \
  --add-opens java.base/jdk.internal.misc=ALL-UNNAMED \
  --add-opens java.base/sun.nio.ch=ALL-UNNAMED \
  -XX:+UseParallelGC \
  -XX:+UnlockDiagnosticVMOptions -XX:GuaranteedSafepointInterval=300000 \
  -Djava.net.preferIPv4Stack=true \
  -Dagrona.disable.bounds.checks=true \
  -Daeron.pre.touch.mapped.memory=true \
  -cp "$(dirname "${BASH_SOURCE[0]}")/aeron-lib/*" compare.Main "$@"
