/** For Stryker: one file that runs every test of src/domain. */
module.exports = {
  rootDir: '../..',
  testMatch: ['<rootDir>/test/mutation/all.test.js'],
  testEnvironment: '@stryker-mutator/jest-runner/jest-env/node',
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      { jsc: { target: 'es2022', parser: { syntax: 'typescript' } }, module: { type: 'commonjs' } },
    ],
  },
};
