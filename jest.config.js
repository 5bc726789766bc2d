/** Packages of ES modules. Jest compiles their builds `umd`, since it cannot require them as they are. */
const ES_MODULES = '(d3-[a-z-]+|internmap)';

/** One project a layer: `npx jest --selectProjects unit`. The layers and their minutes are listed in test/README.md. */
const layer = (name, extra = {}) => ({
  displayName: name,
  testMatch: [`<rootDir>/test/${name}/**/*.test.ts`],
  runtime: '<rootDir>/test/support/runtime.js',
  testEnvironment: 'node',
  testEnvironmentOptions: { customExportConditions: ['node', 'node-addons', 'umd'] },
  watchPathIgnorePatterns: ['<rootDir>/(build|dist|coverage|\\.stack)/'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      { jsc: { target: 'es2022', parser: { syntax: 'typescript' } }, module: { type: 'commonjs' } },
    ],
    [`/node_modules/${ES_MODULES}/.+\\.js$`]: [
      '@swc/jest',
      { jsc: { target: 'es2022' }, module: { type: 'commonjs' } },
    ],
  },
  transformIgnorePatterns: [`/node_modules/(?!${ES_MODULES}/)`],
  ...extra,
});

/**
 * Layers that compute. A test file runs in a context of its own, where each use of a global is a slow look-up.
 * Here these are parameters of each module. None of them is replaced by fake timers. A module that declares one
 * of them itself cannot be loaded, so layers that load many packages do without.
 */
const computing = {
  sandboxInjectedGlobals: [
    ...['Array', 'BigInt', 'Error', 'JSON', 'Map', 'Math', 'Number', 'Object'],
    ...['Promise', 'RegExp', 'Set', 'String', 'Symbol', 'Uint8Array'],
  ],
};

/** Layers that need servers share one stack, started once for the run. */
const servers = {
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
};

/** Those of which Postgres is enough. */
const postgres = { ...servers, globalSetup: '<rootDir>/test/support/global-setup-postgres.ts' };

/** Those that need no registry. Layers that run beside others that do have the first setup: setups run one by one. */
const kafka = { ...servers, globalSetup: '<rootDir>/test/support/global-setup-kafka.ts' };

module.exports = {
  testSequencer: '<rootDir>/test/support/sequencer.js',
  // Tests that wait for something have deadlines of their own. Of the others some compute for seconds, and dropping a database waits for the disk that all share.
  testTimeout: 300_000,
  projects: [
    layer('unit', computing),
    layer('repository', computing),
    layer('fuzz', computing),
    layer('simulation', computing),
    layer('dev'),
    layer('chart'),
    layer('ledger', servers),
    layer('stores', postgres),
    layer('mutants', postgres),
    layer('model', postgres),
    layer('stream', servers),
    layer('webhook', kafka),
    layer('faults', servers),
    layer('monitoring', servers),
    layer('commands', kafka),
    layer('bench'),
  ],
};
