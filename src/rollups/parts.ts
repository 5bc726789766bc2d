/** Parts of the statements of all rollups, in SQL: days, and the operators of feeds. */

/** The begin of the day in UTC. Groups of rows turn it into a date: for each row that is slow. */
export const beginOfDay = (time: string): string => `date_bin('1 day', ${time}, '2000-01-01 00:00:00+00')`;
export const DAY = beginOfDay('decided_at');
export const DATE = `(day_at at time zone 'utc')::date`;

/**
 * The operators of sums or verdicts, without those of test feeds. An operator may have several feeds. Sums of
 * feeds are joined where possible: they are fewer than verdicts.
 */
export const joinOperators = (rows: string): string =>
  `join promo_store.feeds f on f.feed_no = ${rows}.feed_no and f.test_mark <> 1`;
