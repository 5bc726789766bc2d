/** The promises of the chart, each checked on the cluster. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventText } from '../bench/feed';
import { at, listAt } from '../chart/objects';
import { CHART } from '../generate/chart';
import { sleep, until } from '../servers/deadline';
import { projectRoot } from '../servers/download';
import { IMAGES, type Images } from './images';
import { type Kubernetes, NAMESPACE } from './kubernetes';
import { describeOutcome, Load, PARTITIONS, TOPIC } from './load';
import { PodWatch, SELECTOR } from './pods';

const RELEASE = 'promo-intake';
const DEPLOYMENT = `deployment/${RELEASE}-worker`;
const HERE = join(projectRoot, 'dev', 'cluster');
const SERVERS_DEADLINE_MS = 180_000;
const VERDICT_DEADLINE_MS = 60_000;
const SETTLE_DEADLINE_MS = 120_000;
const RESTART_DEADLINE_MS = 60_000;
/** Time before and after a disturbance of the workers, for comparison with usual operation. */
const USUAL_MS = 5_000;
const AWAY_MS = 30_000;
/** More than a successful rollout takes, and the time limit of an upgrade that cannot work. */
const ROLLOUT_TIMEOUT = '240s';
const HOPELESS_TIMEOUT = '45s';
const DRAIN_TIMEOUT = '180s';
const DRAIN_DEADLINE_MS = 200_000;

export interface Step {
  readonly name: string;
  /** The other steps depend on this one. */
  readonly isNeeded?: boolean;
  /**
   * @returns the measured value
   * @throws NotHere if this cluster cannot show it, and anything else if the promise is broken
   */
  readonly see: (kubernetes: Kubernetes) => Promise<string>;
}

/** Why a cluster cannot show a promise. */
export class NotHere extends Error {}

function claim(isSo: boolean, otherwise: string): asserts isSo {
  if (!isSo) throw new Error(otherwise);
}

const seconds = (began: number): string => `${((performance.now() - began) / 1000).toFixed(1)} s`;

/** `helm upgrade --install` of the release with these values beside those of values.yaml. */
function helmArgs(images: Pick<Images, 'worker'>, timeout: string, further: readonly string[]): string[] {
  const [repository = '', tag = ''] = images.worker.split(/:(?=[^:/]*$)/);
  return [
    ...['upgrade', '--install', RELEASE, CHART, '--values', join(HERE, 'values.yaml')],
    ...['--wait', '--timeout', timeout],
    ...['--set-string', `image.repository=${repository},image.tag=${tag}`],
    ...['--set-file', `reference.data=${join(HERE, 'reference.yaml')}`, ...further],
  ];
}

async function helm(kubernetes: Kubernetes, args: readonly string[]): Promise<string> {
  const { code, output } = await kubernetes.helm(args);
  claim(code === 0, `helm ${args[0]}: exit code ${code}\n${output}`);
  return output;
}

async function workerPods(kubernetes: Kubernetes): Promise<readonly unknown[]> {
  return listAt(await kubernetes.get('pods', '--selector', SELECTOR), 'items');
}

async function podNames(kubernetes: Kubernetes): Promise<string[]> {
  return (await workerPods(kubernetes))
    .filter((pod) => at(pod, 'metadata.deletionTimestamp') === undefined)
    .map((pod) => String(at(pod, 'metadata.name')))
    .sort();
}

/** Waits until the wanted number of workers is ready, and no old worker is left. */
async function untilSettled(kubernetes: Kubernetes): Promise<void> {
  await until('the workers have settled', SETTLE_DEADLINE_MS, async () => {
    const deployment = await kubernetes.get(DEPLOYMENT);
    const wanted = at(deployment, 'spec.replicas');
    const pods = await workerPods(kubernetes);
    return at(deployment, 'status.readyReplicas') === wanted && pods.length === wanted;
  });
}

/** Disturbs the workers while events arrive at a steady rate; all events have to be accepted. */
async function underLoad(kubernetes: Kubernetes, disturb: () => Promise<void>): Promise<string> {
  const load = new Load(kubernetes);
  try {
    await sleep(USUAL_MS);
    await disturb();
    await sleep(USUAL_MS);
    const outcome = await load.stop();
    claim(outcome.accepted === outcome.sent, `lost: ${describeOutcome(outcome)}`);
    return describeOutcome(outcome);
  } finally {
    load.abandon();
  }
}

const servers: Step = {
  name: 'Kafka and Postgres run as pods',
  isNeeded: true,
  async see(kubernetes) {
    const text = readFileSync(join(HERE, 'servers.yaml'), 'utf8')
      .replaceAll('NAMESPACE', NAMESPACE)
      .replaceAll('KAFKA_IMAGE', IMAGES.kafka)
      .replaceAll('POSTGRES_IMAGE', IMAGES.postgres)
      .replaceAll('WORKER_IMAGE', IMAGES.worker);
    const began = performance.now();
    await kubernetes.kubectl(['create', 'namespace', NAMESPACE]);
    await until(
      'the namespace has its account',
      VERDICT_DEADLINE_MS,
      async () => (await kubernetes.tryKubectl(['get', 'serviceaccount', 'default'])).code === 0,
    );
    await kubernetes.kubectl(['apply', '--server-side', '--filename', '-'], text);
    await kubernetes.kubectl(
      ['wait', 'pods', '--all', '--for=condition=Ready', `--timeout=${SERVERS_DEADLINE_MS / 1000}s`],
      '',
      SERVERS_DEADLINE_MS + 5_000,
    );
    const ready = seconds(began);
    const roles = ['owner', 'writer', 'reader', 'janitor', 'maintainer'];
    await kubernetes.sql(
      roles.map((role) => `create role promo_${role} login password 'secret'`).join(';'),
      'postgres',
    );
    await kubernetes.sql('create database promo', 'postgres');
    await kubernetes.sql('grant create on database promo to promo_owner');
    await kubernetes.makeTopic(TOPIC, PARTITIONS);
    return `ready after ${ready}`;
  },
};

let installBegan = 0;

const install: Step = {
  name: 'helm install --wait',
  isNeeded: true,
  async see(kubernetes) {
    installBegan = performance.now();
    await helm(kubernetes, helmArgs(IMAGES, ROLLOUT_TIMEOUT, []));
    const took = seconds(installBegan);
    const jobs = listAt(await kubernetes.get('jobs'), 'items').map((job) => {
      const [start, end] = ['status.startTime', 'status.completionTime'].map((path) =>
        Date.parse(String(at(job, path))),
      );
      return `${at(job, 'metadata.name')} ${(Number(end) - Number(start)) / 1000} s`;
    });
    return `${took} to ${(await podNames(kubernetes)).length} ready workers; jobs: ${jobs.join(', ')}`;
  },
};

const firstVerdict: Step = {
  name: 'the first verdict',
  isNeeded: true,
  async see(kubernetes) {
    const event = {
      spec: 'promo.event.v1',
      event_id: 'first',
      brand: 'main',
      player_ref: 'p-1',
      kind: 'deposit',
      amount: '10.00',
      currency: 'EUR',
      occurred_at: new Date().toISOString(),
    };
    await kubernetes.kubectl(
      kubernetes.atDesk(['publish', '-', '--topic', TOPIC]),
      `${JSON.stringify(event)}\n`,
    );
    let verdict: unknown;
    await until('the event has its verdict', VERDICT_DEADLINE_MS, async () => {
      verdict = (await kubernetes.sql(`select verdict from promo.verdicts where event_id = 'first'`))[0]
        ?.verdict;
      return verdict !== undefined;
    });
    claim(verdict === 'accepted', `the verdict is ${verdict}`);
    return `accepted, ${seconds(installBegan)} after helm install began`;
  },
};

const helmTest: Step = {
  name: 'helm test',
  async see(kubernetes) {
    const output = await helm(kubernetes, ['test', RELEASE]);
    claim(/Phase:\s+Succeeded/.test(output), output);
    return 'succeeded, by the name of the service';
  },
};

/** If both versions are one image, the pods differ by this. */
const UPGRADED = ['--set', 'pod.annotations.upgrade=done'];

const rollout: Step = {
  name: 'rolling upgrade under load',
  async see(kubernetes) {
    const watch = new PodWatch(kubernetes);
    let took = '';
    const outcome = await underLoad(kubernetes, async () => {
      const began = performance.now();
      await helm(kubernetes, helmArgs({ worker: IMAGES.upgrade }, ROLLOUT_TIMEOUT, UPGRADED));
      await untilSettled(kubernetes);
      took = seconds(began);
    });
    const { leastReady, flapped, restarts, exitCodes } = watch.stop();
    claim(leastReady >= 2, `only ${leastReady} workers were ready for a while`);
    claim(flapped.length === 0 && restarts === 0, `readiness flapped: ${flapped}; ${restarts} restarts`);
    const codes = [...exitCodes.values()];
    claim(
      codes.every((code) => code === 0),
      `workers ended with ${codes}`,
    );
    const rebalances = await Promise.all(
      (await podNames(kubernetes)).map(async (name) => {
        const address = at(await kubernetes.get('pod', name), 'status.podIP');
        const metrics = await kubernetes.fetch(`http://${address}:8080/metrics`);
        return Number(/^promo_intake_rebalance_seconds_count (\d+)/m.exec(metrics)?.[1]);
      }),
    );
    return `${outcome}; done in ${took}; never fewer than ${leastReady} ready; rebalances seen by a new worker: ${rebalances.join(' and ')}; the old ended with ${codes.join(' and ')}`;
  },
};

async function revision(kubernetes: Kubernetes): Promise<string> {
  const history: unknown = JSON.parse(await helm(kubernetes, ['history', RELEASE, '--output', 'json']));
  const last: unknown = Array.isArray(history) ? history.at(-1) : undefined;
  return `${at(last, 'status')}: ${at(last, 'description')}`;
}

const rolledBack: Step = {
  name: 'a failed upgrade is rolled back (--atomic)',
  async see(kubernetes) {
    const before = await podNames(kubernetes);
    const watch = new PodWatch(kubernetes);
    let took = '';
    const outcome = await underLoad(kubernetes, async () => {
      const began = performance.now();
      const { code, output } = await kubernetes.helm(
        helmArgs({ worker: `${IMAGES.worker}-missing` }, HOPELESS_TIMEOUT, ['--atomic']),
      );
      claim(code !== 0 && /rolled back/.test(output), `helm upgrade: exit code ${code}\n${output}`);
      await untilSettled(kubernetes);
      took = seconds(began);
    });
    watch.stop();
    const after = await podNames(kubernetes);
    claim(after.join() === before.join(), `other workers than before: ${after}`);
    return `${outcome}; the same workers went on; ${took}; ${await revision(kubernetes)}`;
  },
};

const failedMigration: Step = {
  name: 'an upgrade whose migration fails changes no worker',
  async see(kubernetes) {
    const before = await podNames(kubernetes);
    const values = [
      ...UPGRADED,
      '--set',
      'migration.secrets.DATABASE_URL.key=wrong-url,migration.backoffLimit=0,settings.LOG_LEVEL=debug',
    ];
    const { code, output } = await kubernetes.helm(
      helmArgs({ worker: IMAGES.upgrade }, ROLLOUT_TIMEOUT, values),
    );
    claim(
      code !== 0 && /pre-upgrade hooks failed/.test(output),
      `helm upgrade: exit code ${code}\n${output}`,
    );
    claim((await podNames(kubernetes)).join() === before.join(), 'other workers than before');
    claim(/password authentication failed/.test(output), `Helm does not print why:\n${output}`);
    await helm(kubernetes, helmArgs({ worker: IMAGES.upgrade }, ROLLOUT_TIMEOUT, UPGRADED));
    claim(
      (await podNames(kubernetes)).join() === before.join(),
      'the next upgrade, with nothing new, replaced workers',
    );
    return 'refused, and Helm prints why; the next upgrade replaced nothing';
  },
};

/** Names of nodes, each with its number of workers. */
async function workersByNode(kubernetes: Kubernetes): Promise<Map<string, number>> {
  const nodes = listAt(await kubernetes.get('nodes'), 'items').map((node) =>
    String(at(node, 'metadata.name')),
  );
  const pods = await workerPods(kubernetes);
  return new Map(nodes.map((node) => [node, pods.filter((pod) => at(pod, 'spec.nodeName') === node).length]));
}

const drain: Step = {
  name: 'a drain respects the PodDisruptionBudget',
  async see(kubernetes) {
    const [full, empty, ...others] = (await workersByNode(kubernetes)).keys();
    if (full === undefined || empty === undefined) throw new NotHere('it needs two nodes');
    try {
      // All workers on one node, so that its drain concerns all of them.
      for (const node of [empty, ...others]) await kubernetes.kubectl(['cordon', node]);
      await kubernetes.kubectl(['rollout', 'restart', DEPLOYMENT]);
      await kubernetes.kubectl(
        ['rollout', 'status', DEPLOYMENT, `--timeout=${ROLLOUT_TIMEOUT}`],
        '',
        DRAIN_DEADLINE_MS,
      );
      await untilSettled(kubernetes);
      for (const node of [empty, ...others]) await kubernetes.kubectl(['uncordon', node]);
      const watch = new PodWatch(kubernetes);
      let took = '';
      let refusals = 0;
      const outcome = await underLoad(kubernetes, async () => {
        const began = performance.now();
        const { code, output } = await kubernetes.tryKubectl(
          ['drain', full, '--pod-selector', SELECTOR, '--timeout', DRAIN_TIMEOUT],
          DRAIN_DEADLINE_MS,
        );
        claim(code === 0, `kubectl drain: exit code ${code}\n${output}`);
        refusals = output.split('violate the pod').length - 1;
        took = seconds(began);
        await untilSettled(kubernetes);
      });
      const { leastReady, exitCodes } = watch.stop();
      claim(leastReady >= 1, 'no worker was ready for a while');
      claim(refusals > 0, 'no eviction was refused');
      claim((await workersByNode(kubernetes)).get(full) === 0, `workers are left on ${full}`);
      return `${outcome}; done in ${took}; ${refusals} evictions put off; never fewer than ${leastReady} ready; ended with ${[...exitCodes.values()].join(' and ')}`;
    } finally {
      for (const node of [full, empty, ...others]) await kubernetes.kubectl(['uncordon', node]);
    }
  },
};

const sigterm: Step = {
  name: 'SIGTERM ends a worker within its grace period',
  async see(kubernetes) {
    const [pod] = await podNames(kubernetes);
    claim(pod !== undefined, 'there is no worker');
    const grace = Number(at(await kubernetes.get('pod', pod), 'spec.terminationGracePeriodSeconds'));
    const watch = new PodWatch(kubernetes);
    let took = 0;
    const outcome = await underLoad(kubernetes, async () => {
      const began = performance.now();
      await kubernetes.kubectl(['delete', 'pod', pod]);
      took = (performance.now() - began) / 1000;
      await untilSettled(kubernetes);
    });
    const code = watch.stop().exitCodes.get(pod);
    claim(code === 0, `it ended with ${code}`);
    claim(took < grace, `it took ${took} s of ${grace}`);
    return `exit code 0, gone after ${took.toFixed(1)} s of ${grace}; ${outcome}`;
  },
};

/**
 * Takes all memory of the container by processes that are each smaller than the worker, so that the kernel
 * chooses the worker.
 */
const TAKE_MEMORY = `require('fs').writeFileSync('/proc/1/oom_score_adj', '1000');
const small = 'const held = Buffer.alloc(3e7, 1); setInterval(() => held, 1e6)';
setInterval(() => require('child_process').spawn(process.execPath, ['-e', small]), 200);`;

const outOfMemory: Step = {
  name: 'a worker that is killed for its memory restarts',
  async see(kubernetes) {
    const [pod] = await podNames(kubernetes);
    claim(pod !== undefined, 'there is no worker');
    const watch = new PodWatch(kubernetes);
    let took = '';
    const outcome = await underLoad(kubernetes, async () => {
      const began = performance.now();
      await kubernetes.tryKubectl(['exec', pod, '--', 'node', '-e', TAKE_MEMORY]);
      await until('the worker is ready again', RESTART_DEADLINE_MS, () => {
        const last = watch.states().findLast(({ name }) => name === pod);
        return last !== undefined && last.restarts > 0 && last.isReady;
      });
      took = seconds(began);
    });
    const why = watch.states().findLast(({ name }) => name === pod)?.endedBefore;
    watch.stop();
    claim(why === 'OOMKilled', `it was ended by ${why}`);
    return `OOMKilled, ready again ${took} after the memory began to go; ${outcome}`;
  },
};

const EVENTS_AT_ONCE = 500;

const webhook: Step = {
  name: 'the webhook accepts events while its pods are replaced',
  async see(kubernetes) {
    const prefix = `hook-${process.pid}-`;
    let sent = 0;
    let again = 0;
    let isOver = false;
    /** Sends by the name of the service, each request once the last one is answered. */
    async function sendOn(): Promise<void> {
      while (!isOver) {
        const lines = Array.from({ length: EVENTS_AT_ONCE }, (_, index) =>
          eventText({
            eventId: `${prefix}${sent + index}`,
            player: 'p-1',
            kind: 'bet',
            round: `${prefix}${sent}`,
            amount: '1.00',
            at: Date.now(),
          }),
        );
        const args = [
          'send',
          '-',
          '--url',
          `http://${RELEASE}-webhook-pods:8081`,
          '--connection',
          'acme-hook',
        ];
        const { code, output } = await kubernetes.tryKubectl(
          kubernetes.atDesk(args),
          VERDICT_DEADLINE_MS,
          lines.join('\n'),
        );
        claim(code === 0, `send: exit code ${code}\n${output}`);
        again += output.split('will be sent again').length - 1;
        sent += EVENTS_AT_ONCE;
      }
    }
    const sending = sendOn();
    sending.catch(() => {
      // It is awaited below.
    });
    await sleep(USUAL_MS);
    const began = performance.now();
    await kubernetes.kubectl(['rollout', 'restart', `deployment/${RELEASE}-webhook`]);
    await kubernetes.kubectl(
      ['rollout', 'status', `deployment/${RELEASE}-webhook`, `--timeout=${ROLLOUT_TIMEOUT}`],
      '',
      DRAIN_DEADLINE_MS,
    );
    const took = seconds(began);
    await sleep(2 * USUAL_MS);
    isOver = true;
    await sending;
    const [row] = await kubernetes.sql(
      `select count(*)::int as accepted from promo.verdicts where event_id like '${prefix}%' and verdict = 'accepted' and source_topic is null`,
    );
    claim(row?.accepted === sent, `${row?.accepted} of ${sent} events were accepted`);
    return `${sent} events sent by the name of the service, 0 lost, ${again} requests sent again; replaced in ${took}`;
  },
};

/** Takes a service away, which must neither restart a worker nor take it out of service. */
async function whileAway(kubernetes: Kubernetes, away: () => Promise<void>): Promise<string> {
  const watch = new PodWatch(kubernetes);
  const outcome = await underLoad(kubernetes, away);
  const { leastReady, flapped, restarts } = watch.stop();
  claim(restarts === 0, `${restarts} workers restarted`);
  claim(
    flapped.length === 0 && leastReady >= 2,
    `workers that were not ready for a while: ${flapped.join(', ')}`,
  );
  return `no restart, always ready; ${outcome}`;
}

const storeAway: Step = {
  name: `Postgres away for ${AWAY_MS / 1000} s`,
  see: (kubernetes) =>
    whileAway(kubernetes, async () => {
      const inPostgres = (command: string) =>
        kubernetes.kubectl(['exec', 'postgres', '--', 'sh', '-c', command]);
      await inPostgres('touch /data/away && pg_ctl -D /data/base stop -m fast');
      await sleep(AWAY_MS);
      await inPostgres('rm /data/away');
    }),
};

const kafkaAnew: Step = {
  name: 'Kafka restarts',
  see: (kubernetes) =>
    whileAway(kubernetes, async () => {
      await kubernetes.kubectl(['exec', 'kafka', '--', 'sh', '-c', 'kill 1']);
      await sleep(USUAL_MS);
      await kubernetes.kubectl(
        ['wait', 'pod/kafka', '--for=condition=Ready', '--timeout=60s'],
        '',
        RESTART_DEADLINE_MS + 5_000,
      );
    }),
};

const retention: Step = {
  name: 'the CronJob of retention runs as the janitor',
  async see(kubernetes) {
    // A past month without data.
    await kubernetes.sql(
      `create table promo_store.history_2020_01 partition of promo_store.history for values from ('2020-01-01Z') to ('2020-02-01Z')`,
    );
    await kubernetes.sql('alter table promo_store.history_2020_01 owner to promo_owner');
    await kubernetes.kubectl(['create', 'job', 'retention-now', `--from=cronjob/${RELEASE}-retention`]);
    await kubernetes.kubectl(
      ['wait', 'job/retention-now', '--for=condition=Complete', '--timeout=60s'],
      '',
      RESTART_DEADLINE_MS + 5_000,
    );
    const output = await kubernetes.kubectl(['logs', 'job/retention-now']);
    const [row] = await kubernetes.sql(
      `select role, outcome from promo.operations where operation = 'retention' order by operation_no desc limit 1`,
    );
    claim(row?.role === 'promo_janitor', `${output}\nit was noted for ${row?.role}`);
    return `${output.trim().split('\n').at(-1)}; noted for ${row.role}`;
  },
};

const sound: Step = {
  name: 'promo-intake verify',
  async see(kubernetes) {
    const output = await kubernetes.kubectl(kubernetes.atDesk(['verify']));
    claim(/^sound$/m.test(output), output);
    const [row] = await kubernetes.sql(
      'select sum(records_read)::int as records, sum(redeliveries)::int as again from promo.partitions',
    );
    return `sound: ${row?.records} records, ${row?.again} of them read again`;
  },
};

const uninstall: Step = {
  name: 'helm uninstall',
  async see(kubernetes) {
    const began = performance.now();
    await helm(kubernetes, ['uninstall', RELEASE, '--wait', '--timeout', '60s']);
    const took = seconds(began);
    const left = (
      await kubernetes.kubectl([
        'get',
        'all,configmaps,secrets,networkpolicies,poddisruptionbudgets,serviceaccounts',
        '--selector',
        `app.kubernetes.io/instance=${RELEASE}`,
        '--output',
        'name',
      ])
    )
      .split('\n')
      .filter((name) => name !== '' && !name.startsWith('pod/'))
      .sort();
    return `${took}; left: ${left.join(', ') || 'nothing'}`;
  },
};

export const STEPS: readonly Step[] = [
  ...[
    servers,
    install,
    firstVerdict,
    helmTest,
    rollout,
    rolledBack,
    failedMigration,
    drain,
    sigterm,
    outOfMemory,
  ],
  ...[webhook, storeAway, kafkaAnew, retention, sound, uninstall],
];
