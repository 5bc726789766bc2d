/**
 * The images of operators. The command `try` runs in an image of its own.
 * The commands `check`, `send` and `reconcile` run by the alias of docs/operators.md.
 */
import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../../dev/servers/deadline';
import { projectRoot } from '../../dev/servers/download';
import { withFreePorts } from '../../dev/servers/ports';
import { Container, provideImage } from '../support/image';
import {
  atAShell,
  comparable,
  dialogue,
  EXAMPLES,
  FILES_PAGE,
  HOOK,
  layEvents,
  read,
  type Shell,
} from '../support/operator-pages';
import { blocksOf } from '../support/terminal';

const READY_DEADLINE_MS = 60_000;
/** The port of `try` inside its container. */
const INSIDE = 8081;
const RAN = /promo-intake (check|send|reconcile) /;

const product = provideImage();
const ofTry = 'problem' in product ? product : provideImage('try');

interface Intake {
  readonly address: string;
  readonly secret: string;
}

/** Runs `try` in its image, by the options of docs/operators/try.md. */
async function withTryImage(work: (intake: Intake) => Promise<void>): Promise<void> {
  if ('problem' in ofTry) throw new Error(ofTry.problem);
  await withFreePorts(1, async ([port]) => {
    const container = new Container(ofTry, ['-p', `${port}:${INSIDE}`]);
    try {
      await container.start([], {});
      const address = `http://127.0.0.1:${port}`;
      await until('try is ready', READY_DEADLINE_MS, async () => {
        if ((await container.inspect('.State.Running')) !== 'true') throw new Error(await container.logs());
        return fetch(`${address}/readyz`).then(
          ({ ok }) => ok,
          () => false,
        );
      });
      const [, secret = ''] = new RegExp(`secret +(\\S+) of ${HOOK}`).exec(await container.logs()) ?? [];
      await work({ address, secret });
      expect(await container.stop(20)).toBe(0);
    } finally {
      await container.remove();
    }
  });
}

/** The alias of docs/operators.md, for the image that is tested. */
async function useAlias({ terminal, directory }: Shell): Promise<void> {
  if ('problem' in product) throw new Error(product.problem);
  const [, options] =
    /^alias promo-intake='docker (run .+) promo-intake:\S+'$/m.exec(read('docs/operators.md')) ?? [];
  expect(options).toMatch(/-v "\$PWD:\/w" -w \/w/);
  // A container sees the directory alone, so the file must be in it.
  const reference = join(directory, 'reference.yaml');
  rmSync(reference);
  copyFileSync(join(projectRoot, EXAMPLES, 'reference.yaml'), reference);
  const alias = `alias promo-intake='${product.cli} ${options} ${product.name}'`;
  const { DOCKER_HOST } = process.env;
  const engine = DOCKER_HOST === undefined ? [] : [`export DOCKER_HOST='${DOCKER_HOST}'`];
  expect(await terminal.run([...engine, 'shopt -s expand_aliases', alias])).toMatchObject({ code: 0 });
  const { output } = await terminal.run(['type promo-intake']);
  expect(output).toContain('is aliased to');
}

if ('problem' in product || 'problem' in ofTry) {
  const { problem } = 'problem' in product ? product : { problem: 'problem' in ofTry ? ofTry.problem : '' };
  test.skip(`the images run check, send, reconcile and try (skipped: ${problem})`, () => {});
} else {
  test('the images run check, send, reconcile and try, as docs/operators.md shows', () =>
    withTryImage(({ address, secret }) =>
      atAShell(async (shell) => {
        await useAlias(shell);
        layEvents(shell.directory);
        const real = (command: string) =>
          command.replaceAll('https://intake.example.com', address).replaceAll('whsec_...', secret);
        const ran: string[] = [];
        for (const page of [FILES_PAGE, 'docs/which-of-mine.md'])
          for (const step of blocksOf(read(page))
            .filter(({ language }) => language === 'console')
            .flatMap(dialogue)) {
            const [, command] = RAN.exec(step.command) ?? [];
            if (/promo-intake publish|KAFKA_BROKERS/.test(step.command)) continue;
            // A container with -i would read the later commands of the shell.
            const { output } = await shell.terminal.run([`{ ${real(step.command)}; } < /dev/null`]);
            if (command === undefined) continue;
            ran.push(command);
            if (command === 'reconcile') expect(output).toContain('to send again: 0; to correct: 1;');
            else expect(comparable(output)).toBe(comparable(step.output));
          }
        expect(ran).toEqual(['check', 'check', 'send', 'reconcile']);
        const events = await fetch(`${address}/try/events?verdict=rejected`);
        expect(await events.json()).toMatchObject({ events: [{ event_id: 'e-8', reason: 'bad_amount' }] });
      }),
    ));
}
