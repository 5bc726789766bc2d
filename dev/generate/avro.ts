/** schemas/promo.event.v1.avsc: the format of an event for senders of Avro. */
import { EVENT_SCHEMA } from '../../src/domain/event/schema';

type FieldName = keyof typeof EVENT_SCHEMA.properties;

const REQUIRED: readonly string[] = EVENT_SCHEMA.required;
/** Texts of which Avro has another type, which the service does not read. */
const NOT_OTHERWISE: Partial<Record<FieldName, string>> = {
  amount: 'A string in Avro, too: the logical type decimal is refused, since its bytes are no text.',
  occurred_at: 'A string in Avro, too: the logical types of time are refused, since they are numbers.',
};
const GAME = {
  type: 'record',
  name: 'Game',
  fields: [{ name: 'id', type: ['null', 'string'], default: null }],
};

/** A kind is a string and no enum: a new kind would change the schema of every reader. */
export function renderAvroSchema(): string {
  const fields = Object.entries(EVENT_SCHEMA.properties).map(([name, { description }]) => {
    const more = Object.entries(NOT_OTHERWISE).find(([field]) => field === name)?.[1];
    const doc = more === undefined ? description : `${description} ${more}`;
    if (REQUIRED.includes(name)) return { name, doc, type: 'string' };
    return { name, doc, type: ['null', name === 'game' ? GAME : 'string'], default: null };
  });
  const { title, description } = EVENT_SCHEMA;
  const schema = {
    type: 'record',
    name: 'Event',
    namespace: 'promo',
    doc: `${title}. ${description}`,
    fields,
  };
  return `${JSON.stringify(schema, null, 2)}\n`;
}
