/**
 * A test runner for Stryker that runs test/unit/domain inside its worker process: Jest would set up its environment for each mutant, which
 * takes longer than the tests. The tests use describe, it, it.each and expect alone; expect is Jest's own.
 *
 * https://stryker-mutator.io/docs/stryker-js/guides/create-a-plugin/
 */
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire, Module } from 'node:module';
import { join, resolve } from 'node:path';
import { declareClassPlugin, PluginKind } from '@stryker-mutator/api/plugin';
import { determineHitLimitReached, toMutantRunResult } from '@stryker-mutator/api/test-runner';

const require = createRequire(import.meta.url);
const { transformSync } = require('@swc/core');
const { expect } = require('expect');
const { ModuleMocker } = require('jest-mock');
const fc = require('fast-check');

const [PASSED, FAILED] = [0, 1];
const FOLDER = join('test', 'unit', 'domain');
/** The quick ones, where most mutants of lists and tables fail. */
const FIRST = [
  join('verdict', 'reasons.test.ts'),
  join('event', 'schema.test.ts'),
  join('verdict', 'brand-and-games.test.ts'),
  'reference.test.ts',
  join('verdict', 'precedence.test.ts'),
];

const SWC = {
  jsc: { target: 'es2022', parser: { syntax: 'typescript' } },
  module: { type: 'commonjs' },
  sourceMaps: false,
};
const compiled = new Map();
Module._extensions['.ts'] = (module, path) => {
  if (!compiled.has(path))
    compiled.set(path, transformSync(readFileSync(path, 'utf8'), { ...SWC, filename: path }).code);
  module._compile(compiled.get(path), path);
};

// A counterexample is enough to notice a mutant; the smallest one is for people.
fc.configureGlobal({ endOnFailure: true, numRuns: 100 });

class InProcessRunner {
  /** Tests in order: { id, name, run }. */
  tests = [];
  /** Whether the modules were loaded without any mutant, so that they can serve again. */
  isClean = false;

  capabilities() {
    return { reloadEnvironment: true };
  }

  /** The object that instrumented code reads; modules keep hold of it, so it is never replaced. */
  get switches() {
    globalThis.__stryker__ ??= {};
    return globalThis.__stryker__;
  }

  async dryRun() {
    this.load();
    const tests = await this.run(this.tests, true);
    return { status: 'complete', tests, mutantCoverage: this.switches.mutantCoverage };
  }

  async mutantRun({ activeMutant, testFilter, hitLimit, mutantActivation, disableBail }) {
    const { switches } = this;
    switches.hitLimit = hitLimit;
    switches.hitCount = hitLimit === undefined ? undefined : 0;
    switches.activeMutant = mutantActivation === 'static' ? activeMutant.id : undefined;
    try {
      if (mutantActivation === 'static' || !this.isClean) this.load();
    } catch (error) {
      this.isClean = false;
      return toMutantRunResult({ status: 'complete', tests: [this.failed('load', 'loading', error, 0)] });
    }
    this.isClean = mutantActivation !== 'static';
    switches.activeMutant = activeMutant.id;
    const wanted =
      testFilter === undefined ? this.tests : this.tests.filter(({ id }) => testFilter.includes(id));
    const tests = await this.run(wanted, disableBail);
    switches.activeMutant = undefined;
    const hanging = determineHitLimitReached(switches.hitCount, hitLimit);
    return toMutantRunResult(hanging ?? { status: 'complete', tests });
  }

  /** Loads src/ and the tests anew. What node_modules holds stays. */
  load() {
    for (const path of Object.keys(require.cache)) if (path.endsWith('.ts')) delete require.cache[path];
    this.tests = [];
    const files = readdirSync(FOLDER, { recursive: true }).filter((file) => file.endsWith('.test.ts'));
    const inOrder = [...FIRST, ...files.filter((file) => !FIRST.includes(file))];
    for (const file of inOrder) {
      this.provideGlobals(file);
      require(resolve(FOLDER, file));
    }
  }

  provideGlobals(file) {
    const path = [];
    const add = (title, run) => {
      const name = [file, ...path, title].join(' > ');
      this.tests.push({ id: `${file} ${this.tests.length}`, name, run });
    };
    const describe = (title, define) => {
      path.push(title);
      define();
      path.pop();
    };
    const each = (use) => (table) => (title, run) => {
      for (const row of table) {
        const values = Array.isArray(row) ? row : [row];
        use(title, () => run(...values));
      }
    };
    const it = Object.assign((title, run) => add(title, run), { each: each(add) });
    Object.assign(globalThis, {
      expect,
      describe: Object.assign(describe, { each: each(describe) }),
      it,
      test: it,
      jest: new ModuleMocker(globalThis),
    });
  }

  async run(tests, isWhole) {
    const results = [];
    for (const { id, name, run } of tests) {
      const start = performance.now();
      this.switches.currentTestId = id;
      try {
        await run();
        results.push({ id, name, status: PASSED, timeSpentMs: performance.now() - start });
      } catch (error) {
        results.push(this.failed(id, name, error, performance.now() - start));
        if (!isWhole) break;
      } finally {
        this.switches.currentTestId = undefined;
      }
    }
    return results;
  }

  failed(id, name, error, timeSpentMs) {
    return { id, name, status: FAILED, failureMessage: String(error), timeSpentMs };
  }
}

export const strykerPlugins = [declareClassPlugin(PluginKind.TestRunner, 'in-process', InProcessRunner)];
