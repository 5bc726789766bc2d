/** The address of a request: its connection, and whether it is a rehearsal. */
import { targetIn } from '../../../src/webhook/head';

test.each([
  ['', 'decide'],
  ['?', 'decide'],
  ['?source=cron&dry=true', 'decide'],
  ['?dry_run=true', 'rehearse'],
  ['?source=cron&dry_run=true', 'rehearse'],
  ['?dry_run=false', 'decide'],
  ['?dry_run=TRUE', 'unclear'],
  ['?dry_run=1', 'unclear'],
  ['?dry_run', 'unclear'],
  ['?dry-run=true', 'unclear'],
  ['?dryRun=false', 'unclear'],
  ['?DRY_RUN=true', 'unclear'],
  ['?dry%20run=true', 'unclear'],
  ['?%20dry_run=true', 'unclear'],
  ['?dry_run=true&dry_run=false', 'unclear'],
  ['?dry_run=true&dryrun=true', 'unclear'],
])(
  'only the exact parameter begins a rehearsal, and nothing alike is decided: %s is %s [W9]',
  (query, mode) => {
    expect(targetIn(`/v1/events/acme%20hook${query}`)).toEqual({ connectionId: 'acme hook', mode });
  },
);

test.each([
  ['', 'rehearse'],
  ['?source=cron', 'rehearse'],
  ['?dry_run=true', 'rehearse'],
  ['?dry_run=false', 'unclear'],
  ['?dryRun=true', 'unclear'],
])('the path of rehearsals never decides: %s is %s [W9]', (query, mode) => {
  expect(targetIn(`/v1/rehearse/acme%20hook${query}`)).toEqual({ connectionId: 'acme hook', mode });
});

test.each([
  '/',
  '/v1/rehearse/',
  '/v1/rehearse/a/b',
  '/v1/events/',
  '/v1/events/a/b',
  '/v1/events/%zz?dry_run=true',
  '/v2/events/a',
])('any other path has no connection: %s [W6]', (url) => {
  expect(targetIn(url)).toBeNull();
});
