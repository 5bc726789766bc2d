/**
 * The reference data of a throwaway intake that is given none, and the first request to it. A test compares
 * the reference data with the webhook of schemas/examples/reference.yaml.
 */
import { createHash } from 'node:crypto';

export const EXAMPLE_REFERENCE = `operators:
  - id: acme
    connections:
      - { id: acme-hook, transport: webhook, brands: several }
      - { id: acme-test, transport: webhook, brands: several, test: true }
    brands:
      - id: main
        games: { deny: [g9], allow: [g1, g2] }
        min_bet: { EUR: "0.10", JPY: "10", BTC: "0.00001" }
      - id: acme-casino
      - id: acme-sports
        active: false
    catalogue: [{ id: g1 }, { id: g2 }, { id: g3, active: false }, { id: g9 }]
`;

/**
 * The key of a connection's signatures. It is no secret: anybody can make it of the id, and it protects
 * nothing but data that is thrown away. So it stays the same in the settings of a client under test.
 */
export function tryKeyOf(connectionId: string): Buffer {
  return createHash('sha256').update(`promo-intake try ${connectionId}`).digest();
}

/** The key as WEBHOOK_SECRETS has it. */
export function trySecretOf(connectionId: string): string {
  return `whsec_${tryKeyOf(connectionId).toString('base64')}`;
}

/** An accepted event of the example's connection. */
export const EXAMPLE_EVENT =
  '{"spec":"promo.event.v1","event_id":"try-1","brand":"main","player_ref":"p-1","kind":"bet","round_id":"r-1","game":{"id":"g1"},"amount":"10.50","currency":"EUR","occurred_at":"2026-11-21T12:00:00Z"}';

/** Commands for a shell with curl and openssl, which sign an event and send it. */
export function firstRequest(address: string, connectionId: string): string {
  const to = `${address}/v1/events/${encodeURIComponent(connectionId)}`;
  return `body='${EXAMPLE_EVENT}'
id=msg_$(date +%s)_$$ now=$(date +%s)

signature=$(printf '%s.%s.%s' "$id" "$now" "$body" | openssl dgst -sha256 -mac HMAC -macopt hexkey:${tryKeyOf(connectionId).toString('hex')} -binary | base64)

curl -sS '${to}' -H 'content-type: application/json' -H "webhook-id: $id" -H "webhook-timestamp: $now" -H "webhook-signature: v1,$signature" -d "$body"`;
}
