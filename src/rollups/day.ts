/** Days of the rollups, in SQL. */

/** The begin of the day in UTC. Groups of rows turn it into a date: for each row that is slow. */
export const beginOfDay = (time: string): string => `date_bin('1 day', ${time}, '2000-01-01 00:00:00+00')`;
export const DAY = beginOfDay('decided_at');
export const DATE = `(day_at at time zone 'utc')::date`;
