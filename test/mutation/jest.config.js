/** The tests that have to notice a mutant of src/domain: those without a server. What measures time is left out. */
module.exports = {
  rootDir: '../..',
  testMatch: ['<rootDir>/test/unit/domain/**/*.test.ts'],
  testPathIgnorePatterns: ['cost.test.ts', 'rules-tests.test.ts'],
  testEnvironment: '@stryker-mutator/jest-runner/jest-env/node',
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      { jsc: { target: 'es2022', parser: { syntax: 'typescript' } }, module: { type: 'commonjs' } },
    ],
  },
};
