/** The container image, built by `make image` with this machine's engine, and containers of it. */
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { within } from '../../dev/servers/deadline';
import { projectRoot } from '../../dev/servers/download';
import { findOnPath } from '../../dev/servers/java';

const ANSWER_DEADLINE_MS = 30_000;
const BUILD_DEADLINE_MS = 600_000;
const COMMAND_DEADLINE_MS = 60_000;
/** Output of an engine that has no base images of ours, and cannot get them. */
const OUT_OF_REACH =
  /failed to resolve|pull access denied|no such host|dial tcp|i\/o timeout|TLS handshake|manifest unknown/i;

export interface Image {
  readonly cli: string;
  readonly name: string;
}

/**
 * IMAGE and TRY_IMAGE name images that are already built.
 * @param target a stage of the Dockerfile; the last one by default
 * @returns the reason where there is no image
 * @throws where the build itself fails
 */
export function provideImage(target?: 'try'): Image | { readonly problem: string } {
  const cli = findOnPath('docker', process.env) ?? findOnPath('podman', process.env);
  if (cli === undefined) return { problem: 'neither docker nor podman is installed' };
  const { status } = spawnSync(cli, ['version'], { stdio: 'ignore', timeout: ANSWER_DEADLINE_MS });
  if (status !== 0) return { problem: 'no container engine answers' };
  if (process.env.DOCKER_HOST !== undefined && !process.env.DOCKER_HOST.startsWith('unix://'))
    return { problem: 'the container engine is on another machine' };
  const built = target === undefined ? process.env.IMAGE : process.env.TRY_IMAGE;
  if (built) return { cli, name: built };
  const name = target === undefined ? 'promo-intake:test' : `promo-intake:test-${target}`;
  const make = ['--no-print-directory', 'image', `IMAGE=${name}`, ...(target ? [`TARGET=${target}`] : [])];
  const build = spawnSync('make', make, {
    cwd: projectRoot,
    encoding: 'utf8',
    timeout: BUILD_DEADLINE_MS,
  });
  if (build.status === 0) return { cli, name };
  const output = `${build.stdout}${build.stderr}`;
  if (OUT_OF_REACH.test(output)) return { problem: 'the base images are not available' };
  throw new Error(`make image failed:\n${output.split('\n').slice(-20).join('\n')}`);
}

/** The options of the chart. */
const HARDENED = [
  ...['--network', 'host', '--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'],
];

export interface Ended {
  readonly code: number | null;
  readonly output: string;
}

export class Container {
  readonly name = `promo-intake-test-${randomBytes(6).toString('hex')}`;
  /** @param options of the engine, for each container */
  constructor(
    private readonly image: Image,
    private readonly options: readonly string[] = HARDENED,
  ) {}

  /** Runs the container to its end. */
  async run(
    args: readonly string[],
    options: { env?: Environment; input?: string; engine?: string[] } = {},
  ): Promise<Ended> {
    const { env = {}, input = '', engine = [] } = options;
    const all = [
      'run',
      '--rm',
      '--interactive',
      '--name',
      this.name,
      ...this.options,
      ...environment(env),
      ...engine,
    ];
    return this.cli([...all, this.image.name, ...args], input);
  }

  /** Starts the container and returns. */
  async start(args: readonly string[], env: Environment, engine: readonly string[] = []): Promise<void> {
    const all = ['run', '--detach', '--name', this.name, ...this.options, ...environment(env), ...engine];
    const { code, output } = await this.cli([...all, this.image.name, ...args]);
    if (code !== 0) throw new Error(output);
  }

  /** A field of `docker inspect`, such as .State.ExitCode. */
  async inspect(field: string): Promise<string> {
    const { code, output } = await this.cli(['inspect', '--format', `{{${field}}}`, this.name]);
    if (code !== 0) throw new Error(output);
    return output.trim();
  }

  async logs(): Promise<string> {
    return (await this.cli(['logs', this.name])).output;
  }

  /**
   * Stops the container by SIGTERM, and by SIGKILL where that does not end it in time.
   * @returns its exit code: 137 where it was killed
   */
  async stop(seconds: number): Promise<number> {
    await this.cli(['stop', '-t', String(seconds), this.name]);
    return Number(await this.inspect('.State.ExitCode'));
  }

  async remove(): Promise<void> {
    await this.cli(['rm', '--force', '--volumes', this.name]);
  }

  private cli(args: readonly string[], input = ''): Promise<Ended> {
    const child = spawn(this.image.cli, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text;
      });
    child.stdin.on('error', () => {
      // The command has ended without reading on; its exit code shows the cause.
    });
    child.stdin.end(input);
    const ended = new Promise<Ended>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code) => resolve({ code, output }));
    });
    return within(`${this.image.cli} ${args[0]}`, COMMAND_DEADLINE_MS, ended);
  }
}

type Environment = Readonly<Record<string, string>>;

const environment = (env: Environment): string[] =>
  Object.entries(env).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
