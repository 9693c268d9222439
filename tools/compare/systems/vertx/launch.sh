#!/usr/bin/env bash
# The Vert.x service, or its client: --role serve, --role ask.
here=$(dirname "${BASH_SOURCE[0]}")
case " $* " in
  *' --role serve '*) exec java -Xshare:auto -cp "$here/vertx-lib/*" compare.Service "$@" ;;
  *) exec "$here/compare_vertx_client" "$@" ;;
esac
