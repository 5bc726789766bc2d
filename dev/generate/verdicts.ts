/** schemas/VERDICTS.md: every verdict and reason, for the operator who meets it. */
import { DEAD_LETTER_REASONS, REASONS } from '../../src/domain/verdict/reasons';
import { code, document, generatedFrom, paragraph, table } from './markdown';

export function renderVerdicts(command: string): string {
  return document([
    generatedFrom('REASONS and DEAD_LETTER_REASONS in src/domain/verdict/reasons.ts', command),
    '# Verdicts and their reasons',
    paragraph(
      'Each event gets one verdict, once, and keeps it. The verdict topic and the view `promo.verdicts` have it with its reason. This',
      'page has the meaning of each reason, and who has to act.',
    ),
    [
      '- **accepted**: the event is valid, and has no reason. Most accepted events count. A few count',
      '  nothing by nature: a refund, which only removes its round, a win after the refund, and a second settled of one round.',
      '- **rejected**: the event cannot be used. Except with `no_idempotency_key`, it is stored, so its `event_id` is used up:',
      '  a corrected event is a new event with a new `event_id`. The old id is a duplicate from then on, even with correct content.',
      '- **skipped**: the event is valid, but the rules of the brand or the state of its round keep it from counting. Its `event_id` is',
      '  used up as well.',
      '- **duplicate**: this `event_id` of the feed was decided before. The first verdict stays, and nothing is counted again. It is the',
      '  normal answer to a resend. The fields `first_verdict` and `first_reason` have the first verdict: **a duplicate of a rejected event is a',
      '  rejected event**, and `remedy` has the action. If the content differs from the decided content, two events share',
      '  one id. The second event is lost until it is sent with its own id.',
    ].join('\n'),
    paragraph(
      'If several reasons apply, the event gets the first one in the order of the table. The verdict topic lists all faults',
      'in `details`, the deciding fault first, so that the sender can correct all at once. The field `needs_new_event_id` says whether',
      'a corrected event needs a new `event_id`. It is true for rejected, skipped and their duplicates, and false for `no_idempotency_key`.',
    ),
    paragraph(
      'Two rules of the business have no reason, because no single event breaks them. Rounds of games that run on the service are',
      'never sent: the service has them already. Promotions that collect items count only `settled`: a feed without it counts nothing there.',
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
      'The operator who sent the event, or the service that received it, has to act. Nobody has to act if the event is correct, and the',
      'rules of the brand or the state of its round skip it.',
    ),
    '## Dead letters',
    paragraph(
      'A record without an operator, or an unreadable record, gets no verdict. It goes to the dead-letter topic unchanged,',
      'with its coordinates and the headers `dead-letter-reason` and `dead-letter-detail`, and delays no other record. The detail has',
      'the schema id, the connection that the record claims, or the error of the batch. The remedies are for the SREs of the service.',
    ),
    table(
      ['reason', 'meaning', 'remedy'],
      DEAD_LETTER_REASONS.map(({ name, meaning, remedy }) => [code(name), sentence(meaning), remedy]),
    ),
  ]);
}

/** The lists hold clauses, some with a full stop and some without. */
function sentence(clause: string): string {
  return clause.endsWith('.') ? clause : `${clause}.`;
}
