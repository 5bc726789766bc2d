#!/bin/sh
# Like the maker's image: in an empty directory it makes a user, its password and a database of its name.
# Then it runs the command.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  if [ -z "${POSTGRES_PASSWORD:-}" ]; then
    echo 'Error: database is uninitialized and superuser password is not specified.' >&2
    exit 1
  fi
  printf '%s' "$POSTGRES_PASSWORD" > /tmp/password
  # POSTGRES_INITDB_ARGS holds several words.
  # shellcheck disable=SC2086
  initdb --pgdata="$PGDATA" --username="$POSTGRES_USER" --pwfile=/tmp/password --auth=scram-sha-256 ${POSTGRES_INITDB_ARGS:-}
  rm /tmp/password
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  if [ "$POSTGRES_USER" != postgres ]; then
    echo "create database \"$POSTGRES_USER\"" | postgres --single -D "$PGDATA" postgres
  fi
fi
exec "$@" -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/tmp
