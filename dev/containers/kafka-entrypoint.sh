#!/bin/sh
# Like the maker's image: each KAFKA_... is a setting of the broker, CLUSTER_ID is the cluster's id.
set -eu
settings=/tmp/server.properties
env | sed -n '/^KAFKA_HEAP_OPTS=/d; s/^KAFKA_//p' | while IFS='=' read -r name value; do
  echo "$(echo "$name" | tr 'A-Z_' 'a-z.')=$value"
done > "$settings"
echo 'log.dirs=/var/lib/kafka/data' >> "$settings"
/opt/kafka/bin/kafka-storage.sh format --ignore-formatted --cluster-id="$CLUSTER_ID" --config "$settings"
exec /opt/kafka/bin/kafka-server-start.sh "$settings"
