/** Reads the values of a promotion from a tree: numbers, amounts, times and durations. */
import { quoted } from '../lib/printable';
import { isTimeZone, timeZoneNames } from '../lib/time-zone';
import type { Amounts } from '../promotions/definition';
import { type BoundFault, readBound, readDuration } from '../promotions/local-time';
import { checkGame } from '../reference-file/checks';
import { type Mapping, type Slot, suggestion, TreeReader } from '../reference-file/reader';

export class ValueReader extends TreeReader {
  /** A whole number. @param meaning follows "Write " in the remedy */
  whole(slot: Slot, least: number, most: number, meaning: string): number | undefined {
    const { tree } = slot;
    if (tree === undefined || tree.kind === 'broken') return undefined;
    const value = tree.kind === 'leaf' ? tree.value : undefined;
    if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value;
    const shown = tree.kind === 'leaf' ? quoted(tree.source) : 'this value';
    const message = `Expected a whole number from ${least} to ${most}, found ${shown}.`;
    this.faults.add(slot, message, `Write ${meaning}, without quotes.`);
    return undefined;
  }

  /** Amounts above zero, by currency; undefined where the slot is absent or was reported. */
  amounts(slot: Slot, example: string): Amounts | undefined {
    const { tree } = slot;
    if (tree === undefined) return undefined;
    const amounts = this.currencyAmounts(slot, (value) =>
      this.faults.add(value, 'The amount is zero.', 'Write an amount above zero, or remove the currency.'),
    );
    if (tree.kind === 'mapping' && tree.entries.length === 0)
      this.faults.add(slot, 'No currency is listed.', `Write an amount for each currency: ${example}.`);
    return amounts;
  }

  /** The games of a promotion; undefined where the slot is absent. */
  games(slot: Slot, each: (game: string, item: Slot) => void): readonly string[] | undefined {
    if (slot.tree === undefined) return undefined;
    if (slot.tree.kind === 'list' && slot.tree.items.length === 0)
      this.faults.add(slot, 'The empty list counts no game.', 'List the games, or remove the key for all.');
    return this.list(slot, (item) => {
      const game = this.text(item, checkGame);
      if (game !== undefined) each(game, item);
      return game;
    });
  }

  timeZone(slot: Slot): string | undefined {
    return this.text(slot, (text) => {
      if (isTimeZone(text)) return undefined;
      const remedy = suggestion(text, timeZoneNames()) ?? 'Write an IANA name such as Europe/Warsaw, or UTC.';
      return { message: `There is no time zone ${quoted(text)}.`, remedy };
    });
  }

  /** The text of `from` or `to`. */
  bound(node: Mapping, key: 'from' | 'to', timeZone: string | undefined): string | undefined {
    const slot = node.get(key);
    // The fault of an unknown zone is reported already.
    const hasOwnFault = node.get('time_zone').tree !== undefined && timeZone === undefined;
    const text = this.text(slot, () => undefined);
    if (text === undefined) return undefined;
    const read = readBound(text, timeZone);
    if (typeof read === 'bigint') return text;
    if (read !== 'zone_missing' || !hasOwnFault)
      this.faults.add(slot, ...boundComplaint(read, text, timeZone));
    return undefined;
  }

  duration(slot: Slot): string | undefined {
    return this.text(slot, (text) => {
      if (readDuration(text) !== undefined) return undefined;
      const message = `${quoted(text)} is no duration.`;
      return { message, remedy: 'Write weeks, or days and hours: P2W, P7D, PT12H, P1DT12H.' };
    });
  }
}

function boundComplaint(fault: BoundFault, text: string, zone = ''): [message: string, remedy: string] {
  const withOffset = 'Write the time with its offset, such as 2026-12-01T00:00+01:00';
  switch (fault) {
    case 'syntax':
      return [
        `${quoted(text)} is no time.`,
        'Write a local time such as 2026-12-01T00:00, or one with an offset: 2026-12-01T00:00+01:00.',
      ];
    case 'zone_missing':
      return ['A local time needs a time zone.', `Add time_zone. Or: ${withOffset}.`];
    case 'skipped':
      return [
        `The clocks of ${zone} skip ${text}: it does not exist.`,
        `Write a time that exists, such as an hour later. Or: ${withOffset}.`,
      ];
    case 'repeated':
      return [`The clocks of ${zone} show ${text} twice.`, `${withOffset}.`];
  }
}
