/**
 * Names of a demo's topics, group and database on servers that are not its own. The names identify the
 * program that made them, so that the next demo can remove leftovers of a killed one. On a shared server it
 * removes only leftovers of a dead process of this machine.
 */
import { createHash } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { identify } from '../servers/process-table';
import { TOPIC_PREFIX } from './world';

const DATABASE_PREFIX = 'promo_demo_';
const HOST_DIGITS = 6;
const START_DIGITS = 4;
const MARK = `([0-9a-f]{${HOST_DIGITS}})[_-](\\d+)[_-]([0-9a-f]{${START_DIGITS}})`;
const DATABASE = new RegExp(`^${DATABASE_PREFIX}${MARK}$`);
/** The name of a topic has another part after the mark, the name of the consumer group has none. */
const TOPIC_OR_GROUP = new RegExp(`^${TOPIC_PREFIX.replaceAll('.', '\\.')}${MARK}(\\.|$)`);

export interface OwnNames {
  readonly database: string;
  readonly topicPrefix: string;
  readonly group: string;
}

export function makeNames(): OwnNames {
  const startTime = identify(process.pid)?.startTime ?? '';
  const mark = [digest(machine(), HOST_DIGITS), process.pid, digest(startTime, START_DIGITS)];
  const group = `${TOPIC_PREFIX}${mark.join('-')}`;
  return { database: `${DATABASE_PREFIX}${mark.join('_')}`, group, topicPrefix: `${group}.` };
}

/** Whether the name belongs to a demo of this machine that does not run any more. */
export function isLeftover(name: string): boolean {
  const [, host, pid, start] = DATABASE.exec(name) ?? TOPIC_OR_GROUP.exec(name) ?? [];
  if (host !== digest(machine(), HOST_DIGITS)) return false;
  const living = identify(Number(pid));
  return living === undefined || digest(living.startTime, START_DIGITS) !== start;
}

/** The scope in which a pid identifies a process: the machine and, in containers, the pid namespace. */
function machine(): string {
  return [
    hostname(),
    attempt(() => readFileSync('/etc/machine-id', 'utf8').trim()),
    attempt(() => readlinkSync('/proc/self/ns/pid')),
  ].join();
}

function attempt(read: () => string): string {
  try {
    return read();
  } catch {
    return '';
  }
}

function digest(text: string, digits: number): string {
  return createHash('sha256').update(text).digest('hex').slice(0, digits);
}
