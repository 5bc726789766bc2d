/**
 * The images of the cluster. The product's image is built by its Dockerfile. Kafka's and Postgres's images
 * are those of their makers, or stand-ins if no registry can be reached.
 */
import { join } from 'node:path';
import { buildImage, docker, hasImage, type ImageEngine } from '../containers/engine';
import { run } from '../containers/run';
import { makeStandIns } from '../containers/stand-ins';
import { DEFAULT_KAFKA_VERSION } from '../servers/kafka';
import { DEFAULT_POSTGRES_VERSION } from '../servers/postgres-programs';
import type { Environment, Log } from '../servers/types';
import { PAUSE_IMAGE } from './node';

const PULL_DEADLINE_MS = 300_000;

/** Names by which pods request them. */
export interface Images {
  readonly worker: string;
  /** The same image under another version, to upgrade to. */
  readonly upgrade: string;
  readonly kafka: string;
  readonly postgres: string;
}

const VERSIONED = 'promo-intake-cluster/worker';
export function imagesOf({
  KUBECONFIG,
  IMAGE,
  STACK_KAFKA_IMAGE,
  STACK_POSTGRES_IMAGE,
}: Environment): Images {
  const isGiven = Boolean(KUBECONFIG && IMAGE);
  return {
    worker: (isGiven && IMAGE) || `${VERSIONED}:1`,
    upgrade: (isGiven && IMAGE) || `${VERSIONED}:2`,
    kafka: STACK_KAFKA_IMAGE || `apache/kafka:${DEFAULT_KAFKA_VERSION}`,
    postgres: STACK_POSTGRES_IMAGE || `postgres:${DEFAULT_POSTGRES_VERSION}`,
  };
}

export const IMAGES = imagesOf(process.env);

/** The makers' images are used if they can be had, under the names in the Dockerfile. */
const NODE_IMAGE = 'node:24.20.0-bookworm-slim';
const RUNTIME_IMAGE = 'debian:12.12-slim';

export interface Provided {
  /** The archive of `docker save` with all images. */
  readonly archive: string;
  readonly workerBytes: number;
  readonly hasStandIns: boolean;
}

export async function provideImages(engine: ImageEngine, directory: string, log: Log): Promise<Provided> {
  const pulls = async (name: string): Promise<boolean> =>
    (await hasImage(engine, name)) ||
    (
      await run(engine.cli, ['pull', '--quiet', name], {
        deadlineMs: PULL_DEADLINE_MS,
        environment: engine.environment,
      })
    ).code === 0;

  const hasStandIns = !(await pulls(RUNTIME_IMAGE));
  const names = hasStandIns
    ? await makeStandIns(engine, ['kafka', 'postgres'], log)
    : { node: NODE_IMAGE, runtime: RUNTIME_IMAGE, kafka: IMAGES.kafka, postgres: IMAGES.postgres };
  if (!hasStandIns)
    for (const name of [names.node, names.kafka, names.postgres]) {
      log(`pulling ${name} …`);
      if (!(await pulls(name))) throw new Error(`${name} could not be pulled`);
    }
  await buildImage(engine, IMAGES.worker, names, log);
  await docker(engine, ['tag', IMAGES.worker, IMAGES.upgrade]);
  await docker(engine, ['tag', names.kafka, IMAGES.kafka]);
  await docker(engine, ['tag', names.postgres, IMAGES.postgres]);
  // Holds the namespaces of a pod, and does nothing.
  await docker(
    engine,
    ['build', '--quiet', '--tag', PAUSE_IMAGE, '-'],
    `FROM ${names.runtime}\nENTRYPOINT ["sleep", "infinity"]\n`,
  );
  const archive = join(directory, 'images.tar');
  await docker(engine, ['save', '--output', archive, ...Object.values(IMAGES), PAUSE_IMAGE]);
  const workerBytes = Number(
    await docker(engine, ['image', 'inspect', '--format', '{{.Size}}', IMAGES.worker]),
  );
  return { archive, workerBytes, hasStandIns };
}
