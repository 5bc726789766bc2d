/** `promo-intake pseudonyms`: gives each player a pseudonym for readers, until a signal stops it. */
import type { Logger } from 'pino';
import { Unable } from '../../cli/explain-error';
import type { Options } from '../../cli/option-values';
import { readConfig } from '../../config/config';
import { readPseudonymKeys } from '../../config/pseudonyms';
import { type Fold, makeFold, type Stepped } from '../../fold/fold';
import { asPseudonymKey, type PseudonymKey } from '../../pseudonyms/pseudonym';
import { makePseudonymResults } from '../../pseudonyms/pseudonyms';
import { makeRotation, type Rotation } from '../../pseudonyms/rotation';
import { FOLDING, serveFold } from '../services/fold-service';
import { PSEUDONYMS_SETTINGS } from '../shared/settings';

/** @returns the exit code */
export function pseudonyms(options: Options): Promise<number> {
  const config = readConfig(process.env, PSEUDONYMS_SETTINGS);
  const keys = keysIn(config.PSEUDONYM_KEYS());
  return serveFold({
    name: 'pseudonyms',
    config,
    async makeFold({ pool, logger, metrics, holder, step }) {
      const rotation = makeRotation(pool, {
        holder,
        leaseMs: FOLDING.leaseMs,
        keys,
        replacesLostKey: options.has('replace-lost-key'),
      });
      const problem = await step('Postgres', () => rotation.problem());
      if (problem !== null) throw new Unable(problem.message);
      const results = makePseudonymResults(keys[0], (added) => metrics.pseudonyms.players.inc(added));
      const fold = makeFold(pool, results, { ...FOLDING, holder });
      return withRotation(fold, rotation, logger);
    },
  });
}

function keysIn(text: string): readonly [PseudonymKey, PseudonymKey | undefined] {
  const read = readPseudonymKeys(text);
  if ('problem' in read) throw new Unable(`PSEUDONYM_KEYS ${read.problem}. ${read.remedy}.`);
  const [key, former] = read.value;
  return [asPseudonymKey(key), former && asPseudonymKey(former)];
}

/** A step of the rotation. The next step follows at once. */
const ROTATED: Stepped = { kind: 'other work', isCaughtUp: false };

/** Brings the keys of the store to those of this process before it folds. */
function withRotation(fold: Fold, rotation: Rotation, logger: Logger): Fold {
  let isSettled = false;
  return {
    ...fold,
    async step() {
      if (!isSettled) {
        const done = await rotation.step();
        if (done.kind === 'settled') isSettled = true;
        else if (done.kind !== 'standby') {
          if (done.kind !== 'part') logger.info({ key: done.keyId }, MESSAGES[done.kind]);
          return ROTATED;
        }
      }
      try {
        const stepped = await fold.step();
        // Another process works, which may have other keys.
        if (stepped.kind === 'standby') isSettled = false;
        return stepped;
      } catch (error) {
        isSettled = false;
        throw error;
      }
    },
  };
}

const MESSAGES = {
  'first key': 'first key of pseudonyms in use',
  began: 'pseudonyms of a new key begun',
  shown: 'pseudonyms of the new key shown',
  forgotten: 'pseudonyms of a key that is over deleted',
} as const;
