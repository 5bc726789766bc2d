/** schemas/VERDICTS.md: every verdict and reason, for the operator who meets it. */
import { DEAD_LETTER_REASONS, type DeadLetterReason, REASONS } from '../../src/domain/verdict/reasons';
import { code, document, generatedFrom, paragraph, table } from './markdown';

/** The remedy of the service's owner for a dead letter. */
const DEAD_LETTER_REMEDIES: Readonly<Record<DeadLetterReason, string>> = {
  unclaimed:
    'Bind the topic to a connection, or have the sender name one in the header `connection-id`; then send the record again to its topic.',
  schema_unknown:
    'Register the schema, or have the sender use one that is registered; then send the record again to its topic.',
  undecodable:
    "Look at the sender's compression and at the size of its batches; then have the sender send the batch's records again.",
};

export function renderVerdicts(command: string): string {
  return document([
    generatedFrom('REASONS and DEAD_LETTER_REASONS in src/domain/verdict/reasons.ts', command),
    '# Verdicts and their reasons',
    paragraph(
      'Each event gets one verdict, once, and keeps it. The verdict stream and the view `promo.verdicts` name it with its reason; this',
      'page says what a reason means and who does what about it.',
    ),
    [
      '- **accepted**: the event is valid and was taken. It carries no reason. Most accepted events count; a few are taken and count',
      '  nothing by nature: a refund, which only removes its round, a win that comes after the refund, and a second settled of one round.',
      '- **rejected**: the event cannot be used as it is. Apart from `no_idempotency_key` it is stored, so its `event_id` is used up:',
      '  the corrected event is a new event under a new `event_id`. The old id sent again is a duplicate, however good its content is now.',
      '- **skipped**: the event is valid, and the rules of the brand or the state of its round keep it from counting. Its `event_id` is',
      '  used up as well.',
      '- **duplicate**: this `event_id` of the feed was decided before. The first verdict stands and nothing is counted again. It is the',
      '  normal answer to a resend. `first_verdict` and `first_reason` name the verdict that stands: **a duplicate of a rejected event is a',
      '  rejected event**, and `remedy` says what to do about it. Where the content differs from the content that was decided, one id was',
      '  given to two events: the second of them is lost until it is sent under an id of its own.',
    ].join('\n'),
    paragraph(
      'An event that several reasons fit gets the first of them in the order of the table. The verdict stream lists all that was found',
      'wrong in `details`, the deciding fault first, so that one look is enough to correct everything. `needs_new_event_id` says whether',
      'a corrected event needs a new `event_id`: true for rejected, skipped and their duplicates, false for `no_idempotency_key`.',
    ),
    paragraph(
      'Two rules of the business have no reason of their own, since no event breaks them by itself. Rounds of games that run on the service are',
      'never sent: the service has them already. Promotions that collect items count on `settled` alone: a feed without it counts nothing there.',
    ),
    table(
      ['reason', 'verdict', 'meaning', 'remedy', 'who has to act'],
      REASONS.map(({ name, verdict, meaning, remedy, charge }) => [
        code(name),
        verdict,
        sentence(meaning),
        remedy,
        charge,
      ]),
    ),
    paragraph(
      'Who has to act: the operator who sent the event, the service that took it in, or nobody where the event did what it should and the',
      'rules set it aside.',
    ),
    '## Dead letters',
    paragraph(
      'A record that cannot be given to any operator, or that cannot be read at all, gets no verdict. It goes to the dead-letter topic as',
      'it came, with its coordinates and the headers `dead-letter-reason` and `dead-letter-detail`, and holds up nothing. The detail names',
      'the schema id, the connection that the record claims, or why the batch cannot be read. The remedies are for those who run the service.',
    ),
    table(
      ['reason', 'meaning', 'remedy'],
      DEAD_LETTER_REASONS.map(({ name, meaning }) => [
        code(name),
        sentence(meaning),
        DEAD_LETTER_REMEDIES[name],
      ]),
    ),
  ]);
}

/** The lists hold clauses, some with a full stop and some without. */
function sentence(clause: string): string {
  return clause.endsWith('.') ? clause : `${clause}.`;
}
