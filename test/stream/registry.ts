/** Schemas in a real registry, and values framed with their ids. */
import { randomUUID } from 'node:crypto';
import { SchemaRegistry, SchemaType } from '@kafkajs/confluent-schema-registry';

/** A name of this test alone: a registry holds one definition of a name. */
const unique = () => randomUUID().replaceAll('-', '');

export class TestRegistry {
  private readonly client: SchemaRegistry;

  constructor(address: string) {
    this.client = new SchemaRegistry({ host: address.replace(/\/$/, '') });
  }

  async jsonSchema(): Promise<number> {
    const schema = JSON.stringify({
      $schema: 'http://json-schema.org/draft-07/schema#',
      title: `Event${unique()}`,
      type: 'object',
    });
    const { id } = await this.client.register(
      { type: SchemaType.JSON, schema },
      { subject: `test-${unique()}` },
    );
    return id;
  }

  /** The contract as a record whose optional fields may be null. */
  async avroSchema(): Promise<number> {
    const optional = (name: string, type: unknown) => ({ name, type: ['null', type], default: null });
    const schema = JSON.stringify({
      type: 'record',
      name: `Event${unique()}`,
      namespace: 'promo',
      fields: [
        ...['spec', 'event_id', 'kind', 'occurred_at', 'player_ref'].map((name) => ({
          name,
          type: 'string',
        })),
        ...['brand', 'round_id', 'amount', 'currency'].map((name) => optional(name, 'string')),
        optional('game', {
          type: 'record',
          name: `Game${unique()}`,
          fields: [{ name: 'id', type: 'string' }],
        }),
      ],
    });
    const { id } = await this.client.register(
      { type: SchemaType.AVRO, schema },
      { subject: `test-${unique()}` },
    );
    return id;
  }

  /** A schema as it is. */
  async register(schema: string): Promise<number> {
    const { id } = await this.client.register(
      { type: SchemaType.AVRO, schema },
      { subject: `test-${unique()}` },
    );
    return id;
  }

  encode(id: number, value: unknown): Promise<Buffer> {
    return this.client.encode(id, value);
  }
}

/** Bytes in the Confluent wire format. */
export function framed(schemaId: number, payload: Buffer | string): Buffer {
  const frame = Buffer.alloc(5);
  frame.writeUInt32BE(schemaId, 1);
  return Buffer.concat([frame, Buffer.from(payload)]);
}
